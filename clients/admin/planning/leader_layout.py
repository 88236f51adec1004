"""Which replica of each partition is to lead, while a plan is being made. Pure.

Leadership is handed on from a broker with many to one with two fewer, through others if those two have no partition in
common: a chain of brokers, each of which leads a partition that the next one has, too. When there is no such chain left
in a topic, it cannot be more even. All topics together are evened out as far as none of them gets less even by it.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from lograft.clients.types import TopicPartition


class LeaderLayout:
    """The first of `replicas`, lists that are changed here, is to lead. Only `brokers` are handed anything."""

    def __init__(self, replicas: Mapping[TopicPartition, list[int]], brokers: Sequence[int]) -> None:
        self._replicas = replicas
        self._brokers = sorted(brokers)
        self._total: Counter[int] = Counter()
        self._in_topic: dict[str, Counter[int]] = {}
        # By topic, who leads and who else has it: the partitions that one could hand to the other.
        self._common: dict[str, dict[tuple[int, int], dict[TopicPartition, None]]] = {}
        for name in replicas:
            self._count_in(name)

    def choose(self, name: TopicPartition) -> None:
        """Have the one lead that leads least, of the partition's replicas."""
        replicas, in_topic = self._replicas[name], self._in_topic[name.topic]
        now = replicas[0]

        def burden(broker: int) -> tuple[int, int, int]:
            own = broker == now  # this very partition does not count
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
        """What of the topic one could hand to the other."""
        return next(iter(self._common[topic].get((giver, taker), ())), None)

    def _passing_of_any(self, topics: Sequence[str], giver: int, taker: int) -> TopicPartition | None:
        """The same, of a topic that stays as even as it is."""
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
        """Make it more even by one chain; whether there was any. `passing`: what one could hand to the other."""
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
