"""The leader of each partition, chosen so that every broker leads as many as the others. Pure.

Taking the least burdened replica of each partition in turn does not suffice: the last partitions may have replicas only
on brokers that lead their share. Then leadership is handed on: a broker takes the new partition and passes another one,
which it leads, to a further replica of that, and so on until the chain reaches a broker that leads less than its share.

Such a chain exists if replicas are spread evenly. Of as many consecutive partitions as there are brokers, each with f
replicas, no broker then has more than f; so any k of these partitions have replicas on at least k brokers, and by
Hall's theorem each of them can have a leader of its own.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from lograft.metadata.image.partition import BrokerId
from lograft.runtime.rng import Rng


def choose_leaders(
    replicas: Sequence[Sequence[BrokerId]],
    led_in_topic: Mapping[BrokerId, int],
    led_in_cluster: Mapping[BrokerId, int],
    rng: Rng,
) -> list[BrokerId]:
    """Return one of `replicas` for each partition. The mappings contain every broker that shares the burden."""
    burdens = _Burdens(replicas, led_in_topic, led_in_cluster, rng)
    for number in range(len(replicas)):
        burdens.add(number)
    return burdens.leaders()


class _Burdens:
    """The partitions that each broker leads. `_led` has their numbers, the latest last: that is the one it hands on. So
    a search looks at each broker at most once, and at one partition of it."""

    def __init__(
        self,
        replicas: Sequence[Sequence[BrokerId]],
        led_in_topic: Mapping[BrokerId, int],
        led_in_cluster: Mapping[BrokerId, int],
        rng: Rng,
    ) -> None:
        self._replicas = replicas
        self._in_topic = dict(led_in_topic)
        self._in_cluster = dict(led_in_cluster)
        self._rank = {broker_id: rng.random() for broker_id in led_in_topic}
        self._led: dict[BrokerId, list[int]] = {broker_id: [] for broker_id in led_in_topic}
        self._total = sum(led_in_topic.values())

    def add(self, number: int) -> None:
        """Choose a leader for this partition."""
        share = self._total // len(self._led)
        least = min(self._replicas[number], key=self._burden)
        giver: dict[BrokerId, BrokerId | None] = dict.fromkeys(self._replicas[number])
        taker = least if self._in_topic[least] <= share else self._find_taker(giver, least, share)
        self._in_topic[taker] += 1
        self._in_cluster[taker] += 1
        self._total += 1
        self._hand_on(giver, taker, number)

    def leaders(self) -> list[BrokerId]:
        leader_of = {number: broker_id for broker_id, numbers in self._led.items() for number in numbers}
        return [leader_of[number] for number in range(len(self._replicas))]

    def _burden(self, broker_id: BrokerId) -> tuple[int, int, float]:
        return self._in_topic[broker_id], self._in_cluster[broker_id], self._rank[broker_id]

    def _find_taker(self, giver: dict[BrokerId, BrokerId | None], least: BrokerId, share: int) -> BrokerId:
        """Return the broker that can take one more, by the shortest chain; else the reachable one that leads the
        fewest. Note in `giver` from which broker each would get one."""
        waiting = deque(giver)
        while waiting:
            broker_id = waiting.popleft()
            if not self._led[broker_id]:
                continue
            for other in self._replicas[self._led[broker_id][-1]]:
                if other in giver:
                    continue
                giver[other] = broker_id
                if self._in_topic[other] <= share:
                    return other
                if self._in_topic[other] < self._in_topic[least]:
                    least = other
                waiting.append(other)
        return least

    def _hand_on(self, giver: Mapping[BrokerId, BrokerId | None], taker: BrokerId, number: int) -> None:
        at = taker
        while (source := giver[at]) is not None:
            self._led[at].append(self._led[source].pop())
            at = source
        self._led[at].append(number)
