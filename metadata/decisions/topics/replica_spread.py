"""The brokers of a topic's replicas: spread evenly, over racks first. Pure.

Each replica goes to the rack that has the fewest of its partition, among those to the one with the fewest of the topic
for its size, then the fewest of the whole cluster; and in the rack likewise to the broker with the fewest of the topic,
then of the cluster. So a topic is spread evenly whatever else there is, and its free choices even the cluster out. If
the cluster's balance came first, a new, empty broker would get all of the next topic.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition
from lograft.runtime.rng import Rng


class Spread:
    """Deals the replicas of one topic out to `brokers`, partition by partition.

    `existing`: the partitions that the topic has. If only some of the brokers name their rack, racks are ignored: those
    of the others are unknown, not one more rack.
    """

    def __init__(
        self, image: ClusterImage, brokers: Sequence[Broker], rng: Rng, existing: Iterable[Partition] = ()
    ) -> None:
        self._heeds_racks = all(broker.rack is not None for broker in brokers)
        self._brokers = image.brokers
        in_topic = Counter(broker for partition in existing for broker in partition.final_replicas)
        by_rack: dict[str | None, list[BrokerId]] = {}
        for broker in brokers:
            by_rack.setdefault(self._rack_of(broker.broker_id), []).append(broker.broker_id)
        in_cluster = {broker.broker_id: image.replica_count(broker.broker_id) for broker in brokers}
        self._racks = [_Rack(name, members, in_topic, in_cluster, rng) for name, members in by_rack.items()]

    def choose(self, count: int, kept: Collection[BrokerId] = ()) -> list[BrokerId]:
        """Return brokers for `count` more replicas of a partition that has replicas on `kept`."""
        in_partition = Counter(self._rack_of(broker_id) for broker_id in kept)
        queue = [(in_partition[rack.name], rack.load, number) for number, rack in enumerate(self._racks)]
        heapify(queue)
        chosen: list[BrokerId] = []
        while len(chosen) < count:
            assert queue, f"{count} replicas beside {kept} are more than there are brokers"
            held, _, number = heappop(queue)
            rack = self._racks[number]
            broker_id = rack.take(kept)
            if broker_id is not None:
                chosen.append(broker_id)
                heappush(queue, (held + 1, rack.load, number))
        for rack in self._racks:
            rack.end_partition()
        return chosen

    def _rack_of(self, broker_id: BrokerId) -> str | None:
        broker = self._brokers.get(broker_id) if self._heeds_racks else None
        return broker.rack if broker is not None else None


class _Rack:
    """Brokers of one rack, in the order in which they get replicas."""

    def __init__(
        self,
        name: str | None,
        members: Sequence[BrokerId],
        in_topic: Mapping[BrokerId, int],
        in_cluster: Mapping[BrokerId, int],
        rng: Rng,
    ) -> None:
        self.name = name
        self._rng = rng
        self._size = len(members)
        self._in_topic = sum(in_topic[broker_id] for broker_id in members)
        self._in_cluster = sum(in_cluster[broker_id] for broker_id in members)
        self._rank = rng.random()
        # (replicas of the topic, of the cluster, dice, broker): the dice make equal brokers meet in ever new company.
        self._queue = [(in_topic[broker_id], in_cluster[broker_id], rng.random(), broker_id) for broker_id in members]
        heapify(self._queue)
        self._passed: list[tuple[int, int, float, BrokerId]] = []

    @property
    def load(self) -> tuple[float, float, float]:
        return self._in_topic / self._size, self._in_cluster / self._size, self._rank

    def take(self, kept: Collection[BrokerId]) -> BrokerId | None:
        """Return the next broker without a replica of the partition, or None. `kept` have one already."""
        while self._queue:
            entry = heappop(self._queue)
            in_topic, in_cluster, _, broker_id = entry
            if broker_id in kept:
                self._passed.append(entry)
                continue
            self._passed.append((in_topic + 1, in_cluster + 1, self._rng.random(), broker_id))
            self._in_topic += 1
            self._in_cluster += 1
            return broker_id
        return None

    def end_partition(self) -> None:
        """Begin another partition."""
        for entry in self._passed:
            heappush(self._queue, entry)
        self._passed.clear()
