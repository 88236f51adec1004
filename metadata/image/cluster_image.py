"""The image: the cluster's metadata after a number of operations. Pure.

One mutable object with immutable leaves: applying a record costs what the record changes, whatever the cluster's size;
`copy` costs a few dictionaries, and shares the leaves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never
from uuid import UUID

from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Partition, Replica, TopicId
from lograft.metadata.image.records import (
    BrokerEpochsUsed,
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    ConfigChanged,
    ConfigResource,
    FeatureLevelChanged,
    Operation,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)
from lograft.metadata.image.topic_names import collision_key

REMEMBERED_DELETED_TOPICS = 1000

NO_CONFIG: Mapping[str, str] = {}


@dataclass(slots=True)
class Topic:
    """Partitions by number, without gaps."""

    topic_id: TopicId
    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")

    def copy(self) -> "Topic":
        return Topic(self.topic_id, self.name, dict(self.partitions))


class ClusterImage:
    """All metadata. Read freely; change it only by `apply`."""

    def __init__(self) -> None:
        self.sequence = 0
        self.brokers: dict[BrokerId, Broker] = {}
        self.last_broker_epoch = BrokerEpoch(0)
        # Of each data directory, the broker epoch in which what it has last counted. One that was used only before that
        # is a copy from the past. Kept while any broker, replica or ELR entry names the directory.
        self.confirmed: dict[UUID, BrokerEpoch] = {}
        self.topics: dict[TopicId, Topic] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.colliding_names: dict[str, str] = {}  # each topic's name, by its `collision_key`
        self.deleted_topics: dict[TopicId, None] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.next_producer_id = 0
        self.feature_level = 0
        # Which partitions have a replica on a broker: what a change of that broker concerns.
        self._hosted: dict[BrokerId, dict[tuple[TopicId, int], None]] = {}
        self._in_directory: dict[Replica, int] = {}
        self._led: dict[BrokerId, int] = {}
        self._leaderless: dict[tuple[TopicId, int], None] = {}
        self._reassigning: dict[tuple[TopicId, int], None] = {}

    # -- reading

    def topic(self, name: str) -> Topic | None:
        topic_id = self.topic_ids.get(name)
        return self.topics[topic_id] if topic_id is not None else None

    def partition(self, topic_id: TopicId, number: int) -> Partition | None:
        topic = self.topics.get(topic_id)
        return topic.partitions.get(number) if topic is not None else None

    def hosted_by(self, broker_id: BrokerId) -> Iterator[tuple[TopicId, int, Partition]]:
        """Yield every partition with a replica on the broker."""
        for topic_id, number in self._hosted.get(broker_id, {}):
            yield topic_id, number, self.topics[topic_id].partitions[number]

    def leaderless(self) -> Iterator[tuple[TopicId, int, Partition]]:
        for topic_id, number in self._leaderless:
            yield topic_id, number, self.topics[topic_id].partitions[number]

    def reassigning(self) -> Iterator[tuple[TopicId, int, Partition]]:
        for topic_id, number in self._reassigning:
            yield topic_id, number, self.topics[topic_id].partitions[number]

    def replica_count(self, broker_id: BrokerId) -> int:
        return len(self._hosted.get(broker_id, ()))

    def replicas_in(self, broker_id: BrokerId, directory_id: UUID) -> int:
        return self._in_directory.get(Replica(broker_id, directory_id), 0)

    def leader_count(self, broker_id: BrokerId) -> int:
        return self._led.get(broker_id, 0)

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def config_of(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the values that are set on the resource itself."""
        return self.configs.get(resource, NO_CONFIG)

    def copy(self) -> "ClusterImage":
        """Return an image that later changes to this one do not affect."""
        other = ClusterImage()
        other.sequence = self.sequence
        other.brokers = dict(self.brokers)
        other.last_broker_epoch = self.last_broker_epoch
        other.confirmed = dict(self.confirmed)
        other.topics = {topic_id: topic.copy() for topic_id, topic in self.topics.items()}
        other.topic_ids = dict(self.topic_ids)
        other.colliding_names = dict(self.colliding_names)
        other.deleted_topics = dict(self.deleted_topics)
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.next_producer_id = self.next_producer_id
        other.feature_level = self.feature_level
        other._hosted = {broker_id: dict(hosted) for broker_id, hosted in self._hosted.items()}
        other._in_directory = dict(self._in_directory)
        other._led = dict(self._led)
        other._leaderless = dict(self._leaderless)
        other._reassigning = dict(self._reassigning)
        return other

    def __eq__(self, other: object) -> bool:
        """Compare the metadata, not the operations that led to it."""
        if not isinstance(other, ClusterImage):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[object, ...]:
        return (
            self.sequence, self.brokers, self.last_broker_epoch, self.confirmed, self.topics,
            list(self.deleted_topics), self.configs, self.next_producer_id, self.feature_level,
        )  # fmt: skip

    # -- changing

    def apply_operation(self, operation: Operation) -> bool:
        """Apply the operation. Return False, changing nothing, if it was decided on another state."""
        if operation.base_sequence != self.sequence:
            return False
        for record in operation.records:
            self.apply(record)
        self.sequence += 1
        return True

    def apply(self, record: Record) -> None:
        """Apply one record of an operation or of a snapshot."""
        match record:
            case PartitionChanged(topic_id=topic_id, number=number, partition=partition):
                self._put_partition(topic_id, number, partition)
            case BrokerRegistered(broker=broker):
                self.brokers[broker.broker_id] = broker
                self._hosted.setdefault(broker.broker_id, {})
                self.last_broker_epoch = max(self.last_broker_epoch, broker.epoch)
                self._forget_confirmed()
            case BrokerStateChanged(broker_id=broker_id, epoch=epoch, state=state):
                assert self.brokers[broker_id].epoch == epoch, (
                    f"broker {broker_id} is in {self.brokers[broker_id].epoch}"
                )
                self.brokers[broker_id] = replace(self.brokers[broker_id], state=state)
                if state is BrokerState.ACTIVE and self.brokers[broker_id].names_used_epochs:
                    self.confirmed.update(dict.fromkeys(self.brokers[broker_id].directories, epoch))
            case BrokerUnregistered(broker_id=broker_id):
                assert not self._hosted.pop(broker_id, None), f"broker {broker_id} has replicas"
                del self.brokers[broker_id]
                self.configs.pop(ConfigResource(ResourceKind.BROKER, str(broker_id)), None)
                self._forget_confirmed()
            case BrokerEpochsUsed(last=last, confirmed=confirmed):
                self.last_broker_epoch = max(self.last_broker_epoch, last)
                self.confirmed.update(confirmed)
            case TopicCreated(topic_id=topic_id, name=name):
                assert topic_id not in self.topics, f"topic {topic_id} exists"
                assert collision_key(name) not in self.colliding_names, f"topic {name}, or one like it, exists"
                self.topics[topic_id] = Topic(topic_id, name)
                self.topic_ids[name] = topic_id
                self.colliding_names[collision_key(name)] = name
            case TopicDeleted(topic_id=topic_id):
                self._delete_topic(topic_id)
            case ConfigChanged():
                self._change_config(record)
            case ProducerIdsAllocated(next_id=next_id):
                assert next_id >= self.next_producer_id
                self.next_producer_id = next_id
            case FeatureLevelChanged(level=level):
                self.feature_level = level
            case _:
                assert_never(record)

    def _forget_confirmed(self) -> None:
        """Forget confirmed epochs of directories that nothing names: if such a directory returns, its replicas count
        for nothing anyway."""
        listed = {directory for broker in self.brokers.values() for directory in broker.directories}
        unlisted = {directory: None for directory in self.confirmed if directory not in listed}
        for replica in self._in_directory if unlisted else ():
            unlisted.pop(replica.directory_id, None)
        if unlisted:  # only now is it worth a look at every partition
            for topic in self.topics.values():
                for partition in topic.partitions.values():
                    for eligible in partition.elr:
                        unlisted.pop(eligible.directory_id, None)
        for directory in unlisted:
            del self.confirmed[directory]

    def _put_partition(self, topic_id: TopicId, number: int, partition: Partition) -> None:
        partitions = self.topics[topic_id].partitions
        before = partitions.get(number)
        if before is None:
            assert number == len(partitions), f"partition {number} after {len(partitions)}"
        else:
            assert partition.partition_epoch > before.partition_epoch, f"{topic_id}-{number} goes back"
        partitions[number] = partition
        self._index((topic_id, number), before, partition)

    def _index(self, key: tuple[TopicId, int], before: Partition | None, after: Partition | None) -> None:
        old_replicas = before.replicas if before is not None else ()
        new_replicas = after.replicas if after is not None else ()
        if old_replicas != new_replicas:
            for replica in old_replicas:
                self._hosted[replica.broker_id].pop(key, None)
                self._count_in_directory(replica, -1)
            for replica in new_replicas:
                self._hosted.setdefault(replica.broker_id, {})[key] = None
                self._count_in_directory(replica, +1)
        if before is not None and before.leader is not None:
            self._led[before.leader] -= 1
        if after is not None and after.leader is not None:
            self._led[after.leader] = self._led.get(after.leader, 0) + 1
        if after is not None and after.leader is None:
            self._leaderless[key] = None
        else:
            self._leaderless.pop(key, None)
        if after is not None and after.is_reassigning:
            self._reassigning[key] = None
        else:
            self._reassigning.pop(key, None)

    def _count_in_directory(self, replica: Replica, change: int) -> None:
        count = self._in_directory.get(replica, 0) + change
        if count:
            self._in_directory[replica] = count
        else:
            del self._in_directory[replica]

    def _delete_topic(self, topic_id: TopicId) -> None:
        topic = self.topics.pop(topic_id, None)
        if topic is not None:
            del self.topic_ids[topic.name]
            del self.colliding_names[collision_key(topic.name)]
            for number, partition in topic.partitions.items():
                self._index((topic_id, number), partition, None)
            self.configs.pop(ConfigResource(ResourceKind.TOPIC, str(topic_id)), None)
        self.deleted_topics[topic_id] = None
        if len(self.deleted_topics) > REMEMBERED_DELETED_TOPICS:
            del self.deleted_topics[next(iter(self.deleted_topics))]

    def _change_config(self, record: ConfigChanged) -> None:
        values = self.configs.setdefault(record.resource, {})
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if not values:
            del self.configs[record.resource]
