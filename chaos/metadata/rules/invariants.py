"""The invariants of the metadata, checked at every operation that any replica applies. Pure.

The first replica to apply an operation has it checked: the image before, the records, the image after. All other
replicas, controllers and brokers alike, must reach the same image at the same index.
"""

from bisect import bisect_right
from collections.abc import Callable

from lograft.chaos.metadata.rules.facts import Facts, PartitionKey
from lograft.chaos.metadata.rules.partition_rules import Change, check_change, check_state, require
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, TopicId
from lograft.metadata.image.records import (
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    ConfigChanged,
    PartitionChanged,
    Record,
    TopicCreated,
    TopicDeleted,
)

Judged = Callable[[int, tuple[Record, ...], ClusterImage, ClusterImage], None]

_WHOLE_COMPARISON_EVERY = 25
_SAME = "the same image at the same index"


class MetadataInvariants:
    """Report every event to it. It raises `InvariantBroken` when two reports contradict each other.

    `image` is the latest that any replica has. `judged` is called once for each operation, after it passed the checks.
    """

    def __init__(self, facts: Facts, judged: Judged = lambda index, records, old, new: None) -> None:
        self.facts = facts
        self.image = ClusterImage()
        self.index = 0
        self.operations: dict[int, tuple[Record, ...]] = {}
        self._judged = judged
        self._images: dict[int, ClusterImage] = {0: ClusterImage()}
        self._indexes = [0]
        self._replicas: dict[str, int] = {}  # the index each process has reached
        self._leaders: dict[tuple[PartitionKey, LeaderEpoch], BrokerId | None] = {}
        self._last_broker_epoch = BrokerEpoch(0)
        self.created: dict[TopicId, str] = {}
        self.deleted: dict[TopicId, None] = {}
        self.config_values: dict[str, int] = {}  # every value of any setting, and the image sequence that set it first

    # -- events of the simulation

    def applied(self, process: str, index: int, records: tuple[Record, ...], image: ClusterImage) -> None:
        """Check the operation at `index`, applied by `process` (one life of one node), and the resulting `image`."""
        self._advance(process, index, index - 1)
        if index > self.index:
            self._judge(process, index, records)
        place, ours = f"{process} at {index}", self.operations.get(index)
        require(ours == records, "one operation an index", place, records, "not", ours)
        count = self._images[index].sequence
        require(image.sequence == count, _SAME, place, f"counts {image.sequence}, not {count}")
        if image.sequence % _WHOLE_COMPARISON_EVERY == 0:
            self._compare(process, index, image)
        else:
            self._compare_changed(process, index, records, image)

    def restored(self, process: str, index: int, image: ClusterImage) -> None:
        """Check a complete image that `process` took, as of the last operation up to `index`."""
        self._advance(process, index, index)
        self.check_same(process, index, image)

    def check_same(self, process: str, index: int, image: ClusterImage) -> None:
        """Check the image of a replica that has applied everything up to `index`."""
        self._compare(process, self._indexes[bisect_right(self._indexes, index) - 1], image)

    def _advance(self, process: str, index: int, at_most: int) -> None:
        before = self._replicas.get(process, 0)
        require(before <= at_most, "nobody goes back", f"{process} is at {index} after {before}")
        self._replicas[process] = index

    # -- agreement

    def _compare(self, process: str, index: int, image: ClusterImage) -> None:
        ours = self._images[index]
        require(image == ours, _SAME, f"{process} at {index}:", _Difference(image, ours))

    def _compare_changed(self, process: str, index: int, records: tuple[Record, ...], image: ClusterImage) -> None:
        """Compare only what these records changed. The rest is compared occasionally."""
        ours = self._images[index]
        for record in records:
            if isinstance(record, PartitionChanged):
                same = image.partition(record.topic_id, record.number) == ours.partition(record.topic_id, record.number)
            elif isinstance(record, BrokerRegistered | BrokerStateChanged | BrokerUnregistered):
                broker_id = record.broker.broker_id if isinstance(record, BrokerRegistered) else record.broker_id
                same = image.brokers.get(broker_id) == ours.brokers.get(broker_id)
            else:
                same = image == ours
            require(same, _SAME, f"{process} at {index}:", _Difference(image, ours))

    # -- checks of an operation

    def _judge(self, process: str, index: int, records: tuple[Record, ...]) -> None:
        old, new = self.image, self.image.copy()
        require(bool(records), "an operation changes something", f"{process} at {index}")
        for record in records:
            self._check_record(record, new)
            new.apply(record)
        new.sequence += 1
        self.index, self.image = index, new
        self.operations[index] = records
        self._images[index] = new
        self._indexes.append(index)
        changed = self._changed(records)
        for key in changed:
            self._check_partition(key, old, new)
        for topic in new.topics.values():
            require(bool(topic.partitions), "a topic has partitions", f"at {index}:", topic)
            for number, partition in topic.partitions.items():
                check_state(new, (topic.topic_id, number), partition)
        self._judged(index, records, old, new)

    def _changed(self, records: tuple[Record, ...]) -> list[PartitionKey]:
        keys = [(record.topic_id, record.number) for record in records if isinstance(record, PartitionChanged)]
        require(len(dict.fromkeys(keys)) == len(keys), "one change a partition an operation", records)
        return keys

    def _check_record(self, record: Record, image: ClusterImage) -> None:
        """Check one record. `image` is the state just before it, within its operation."""
        match record:
            case BrokerRegistered(broker=broker):
                self._check_registration(broker, image.brokers.get(broker.broker_id))
            case BrokerStateChanged(broker_id=broker_id, epoch=epoch):
                require(image.brokers[broker_id].epoch == epoch, "a state is of an incarnation", record)
            case BrokerUnregistered(broker_id=broker_id):
                require(self.facts.unregistrations[broker_id] > 0, "nobody is forgotten unasked", record)
                require(not image.brokers[broker_id].is_live, "who is there is not forgotten", record)
            case TopicCreated(topic_id=topic_id, name=name):
                require(topic_id not in self.created, "nothing is created twice", record)
                require(name not in image.topic_ids, "a name is for one topic", record)
                self.created[topic_id] = name
            case TopicDeleted(topic_id=topic_id):
                require(topic_id in image.topics, "what is deleted was there", record)
                self.deleted[topic_id] = None
            case ConfigChanged(value=value):
                if value is not None:
                    self.config_values.setdefault(value, image.sequence)

    def _check_registration(self, broker: Broker, old: Broker | None) -> None:
        if old is not None and broker.incarnation == old.incarnation and broker.epoch == old.epoch:
            fewer = all(directory in old.directories for directory in broker.directories)
            require(fewer, "a process loses directories, and gets none", broker, "was", old)
            require(broker.state is old.state, "a lost directory does not fence", broker, "was", old)
            return
        require(broker.epoch > self._last_broker_epoch, "broker epochs only grow", broker, "was", old)
        require(broker.state is BrokerState.FENCED, "a new process is fenced", broker)
        if old is not None:
            is_later = self.facts.starts[broker.incarnation] > self.facts.starts[old.incarnation]
            require(is_later, "only a later process replaces one", broker, "was", old)
        self._last_broker_epoch = broker.epoch

    def _check_partition(self, key: PartitionKey, old: ClusterImage, new: ClusterImage) -> None:
        before, after = old.partition(*key), new.partition(*key)
        if after is None:
            return
        if before is None:
            self._check_placed(key, after, new)
        else:
            check_change(Change(key, before, after, old, new, self.facts))
        leader = self._leaders.setdefault((key, after.leader_epoch), after.leader)
        place = f"in {after.leader_epoch}:"
        require(leader == after.leader, "one leader an epoch", key, place, after.leader, leader)

    def _check_placed(self, key: PartitionKey, placed: Partition, image: ClusterImage) -> None:
        require(not placed.elr and not placed.target, "a new partition is whole", key, placed)
        require(placed.leader_epoch == 0, "a new partition is in its first epoch", key, placed)
        live = tuple(one for one in placed.replica_ids if image.brokers[one].state is BrokerState.ACTIVE)
        require(placed.isr == live, "all who are there start in sync", key, placed)
        require(placed.leader == live[0], "the first who is there starts as leader", key, placed)
        if key[0] in self.facts.chosen_topics:
            return
        require(live == placed.replica_ids, "placed on active brokers", key, placed)
        racks = _racks(image)
        if racks is not None:
            spread = len({image.brokers[broker].rack for broker in placed.replica_ids})
            is_wide = spread == min(len(racks), len(placed.replicas))
            require(is_wide, "spread over racks", key, placed, racks)


def _racks(image: ClusterImage) -> list[str] | None:
    """Return the racks that replicas can be placed on, or None if some broker has no rack."""
    racks = [
        broker.rack for broker in image.brokers.values() if broker.state is BrokerState.ACTIVE and broker.directories
    ]
    named = [rack for rack in racks if rack is not None]
    return sorted(dict.fromkeys(named)) if len(named) == len(racks) else None


class _Difference:
    """Describes the differences between an image and ours."""

    def __init__(self, image: ClusterImage, ours: ClusterImage) -> None:
        self._image = image
        self._ours = ours

    def __str__(self) -> str:
        image, ours = self._image, self._ours
        parts = []
        for name in ("sequence", "last_broker_epoch", "next_producer_id", "feature_level", "configs"):
            if getattr(image, name) != getattr(ours, name):
                parts.append(f"{name} {getattr(image, name)}, not {getattr(ours, name)}")
        if list(image.deleted_topics) != list(ours.deleted_topics):
            parts.append(f"deleted {list(image.deleted_topics)}, not {list(ours.deleted_topics)}")
        for broker_id in sorted({*image.brokers, *ours.brokers}):
            if image.brokers.get(broker_id) != ours.brokers.get(broker_id):
                parts.append(f"{image.brokers.get(broker_id)}, not {ours.brokers.get(broker_id)}")
        for topic_id in sorted({*image.topics, *ours.topics}):
            if image.topics.get(topic_id) != ours.topics.get(topic_id):
                parts.append(f"{image.topics.get(topic_id)}, not {ours.topics.get(topic_id)}")
        return "; ".join(parts)
