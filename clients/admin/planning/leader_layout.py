"""Chooses the preferred leader of each partition while a plan is made. Pure.

Leadership passes from a broker that leads many partitions to one that leads at least two fewer. If those two share no
partition, it passes through a chain of brokers, each of which leads a partition that the next one hosts. When a topic
has no such chain left, its leaders are as balanced as possible. Leaders are then balanced over all topics, as far as
that makes no single topic less balanced.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from lograft.clients.types import TopicPartition


class LeaderLayout:
    """The first of each list in `replicas` is the preferred leader; this class reorders the lists in place. Only
    `brokers` are given leadership."""

    def __init__(self, replicas: Mapping[TopicPartition, list[int]], brokers: Sequence[int]) -> None:
        self._replicas = replicas
        self._brokers = sorted(brokers)
        self._total: Counter[int] = Counter()
        self._in_topic: dict[str, Counter[int]] = {}
        # By topic and (leader, follower): the partitions whose leadership could pass from one to the other.
        self._common: dict[str, dict[tuple[int, int], dict[TopicPartition, None]]] = {}
        for name in replicas:
            self._count_in(name)

    def choose(self, name: TopicPartition) -> None:
        """Make the partition's least burdened replica its leader."""
        replicas, in_topic = self._replicas[name], self._in_topic[name.topic]
        now = replicas[0]

        def burden(broker: int) -> tuple[int, int, int]:
            own = broker == now  # exclude this partition
            return in_topic[broker] - own, self._total[broker] - own, replicas.index(broker)

        candidates = [broker for broker in replicas if broker in self._brokers]
        if candidates:
            self._have_lead(name, min(candidates, key=burden))

    def even_out(self, topics: Sequence[str]) -> None:
        for topic in topics:
            while self._hand_on(self._in_topic[topic], partial(self._passing, topic)):
                pass
        while self._hand_on(self._led_of(topics), partial(self._passing_of_any, topics)):
            pass

    def _passing(self, topic: str, giver: int, taker: int) -> TopicPartition | None:
        """Return a partition of the topic whose leadership `giver` could pass to `taker`."""
        return next(iter(self._common[topic].get((giver, taker), ())), None)

    def _passing_of_any(self, topics: Sequence[str], giver: int, taker: int) -> TopicPartition | None:
        """Like `_passing`, for any topic that does not become less balanced by it."""
        for topic in topics:
            if self._in_topic[topic][giver] > self._in_topic[topic][taker]:
                name = self._passing(topic, giver, taker)
                if name is not None:
                    return name
        return None

    def _led_of(self, topics: Sequence[str]) -> Counter[int]:
        led: Counter[int] = Counter()
        for topic in topics:
            led.update(self._in_topic[topic])
        return led

    def _hand_on(self, led: Mapping[int, int], passing: Callable[[int, int], TopicPartition | None]) -> bool:
        """Improve the balance by one chain. Return False if there is none. `passing` returns a partition whose
        leadership one broker could pass to another."""
        for first in sorted(self._brokers, key=lambda broker: (-led[broker], -self._total[broker], broker)):
            distance, giver_of = {first: 0}, {first: first}
            waiting = deque([first])
            while waiting:
                giver = waiting.popleft()
                for taker in self._brokers:
                    if taker not in distance and passing(giver, taker) is not None:
                        distance[taker], giver_of[taker] = distance[giver] + 1, giver
                        waiting.append(taker)
            last = min(distance, key=lambda broker: (led[broker], distance[broker], self._total[broker], broker))
            if led[first] - led[last] >= 2:
                self._pass_along(giver_of, last, passing)
                return True
        return False

    def _pass_along(
        self, giver_of: Mapping[int, int], last: int, passing: Callable[[int, int], TopicPartition | None]
    ) -> None:
        chain = [last]
        while giver_of[chain[-1]] != chain[-1]:
            chain.append(giver_of[chain[-1]])
        chosen = [(passing(giver, taker), taker) for taker, giver in pairwise(chain)]
        for name, taker in chosen:
            assert name is not None
            self._have_lead(name, taker)

    def _have_lead(self, name: TopicPartition, leader: int) -> None:
        replicas = self._replicas[name]
        if replicas[0] == leader:
            return
        self._count_out(name)
        replicas.remove(leader)
        replicas.insert(0, leader)
        self._count_in(name)

    # -- counting

    def _count_in(self, name: TopicPartition) -> None:
        leader, *others = self._replicas[name]
        self._total[leader] += 1
        self._in_topic.setdefault(name.topic, Counter())[leader] += 1
        common = self._common.setdefault(name.topic, {})
        for other in others:
            common.setdefault((leader, other), {})[name] = None

    def _count_out(self, name: TopicPartition) -> None:
        leader, *others = self._replicas[name]
        self._total[leader] -= 1
        self._in_topic[name.topic][leader] -= 1
        for other in others:
            del self._common[name.topic][leader, other][name]
