"""The partitions that the image assigns to one broker, and the changes that affect its replicas. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from lograft.broker.hosting.topic_log_config import log_config_of
from lograft.broker.replica.context import Assignment
from lograft.metadata.config.effective_settings import cluster_setting, effective_min_isr
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, PartitionKey, TopicId
from lograft.metadata.image.records import (
    BrokerRegistered,
    BrokerStateChanged,
    ConfigChanged,
    PartitionChanged,
    Record,
    ResourceKind,
    TopicDeleted,
)
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.log_config import LogConfig

LAG_TIME_MAX = "replica.lag.time.max.ms"


class AssignedPartitions:
    """The current assignment. A process may act on it only while the image has the process's own registration: not
    before, and not once a later process of the same broker has registered."""

    def __init__(self, broker_id: BrokerId, image: Callable[[], ClusterImage]) -> None:
        self.broker_id = broker_id
        self._image = image
        self._epoch: BrokerEpoch | None = None
        self._configs: dict[TopicId, LogConfig] = {}

    def registered(self, epoch: BrokerEpoch) -> None:
        self._epoch = epoch

    def ended(self) -> None:
        """Stop this process from acting on the image."""
        self._epoch = None

    @property
    def may_act(self) -> bool:
        broker = self._image().brokers.get(self.broker_id)
        return broker is not None and broker.epoch == self._epoch

    def wanted(self, key: PartitionKey) -> Assignment | None:
        """Return the assignment, or None if this broker has no replica or may not act on the image."""
        image = self._image()
        partition = image.partition(*key)
        if partition is None or partition.directory_of(self.broker_id) is None or not self.may_act:
            return None
        return Assignment(
            partition, effective_min_isr(image, key[0], partition), int(cluster_setting(image, LAG_TIME_MAX))
        )

    def name_of(self, key: PartitionKey) -> PartitionName:
        """Return the name of an assigned partition."""
        return PartitionName(self._image().topics[key[0]].name, key[1], key[0])

    def log_config_of(self, key: PartitionKey) -> LogConfig:
        """Return the log configuration of an assigned partition."""
        topic_id = key[0]
        if topic_id not in self._configs:
            self._configs[topic_id] = log_config_of(self._image(), topic_id)
        return self._configs[topic_id]

    def forget(self, changes: "Changes") -> None:
        """Drop the cached configurations that these changes affect."""
        if changes.is_all:
            self._configs.clear()
        for topic_id in changes.topics:
            self._configs.pop(topic_id, None)


@dataclass(slots=True)
class Changes:
    """Changed partitions, topics and brokers. A changed broker may have become eligible for ISRs. `is_all`: everything
    may have changed."""

    keys: dict[PartitionKey, None] = field(default_factory=dict)
    topics: dict[TopicId, None] = field(default_factory=dict)
    brokers: dict[BrokerId, None] = field(default_factory=dict)
    is_all: bool = False

    def note(self, records: Iterable[Record], own: BrokerId) -> None:
        for record in records:
            match record:
                case PartitionChanged(topic_id=topic_id, number=number):
                    self.keys[topic_id, number] = None
                case TopicDeleted(topic_id=topic_id):
                    self.topics[topic_id] = None
                case ConfigChanged(resource=resource):
                    if resource.kind is ResourceKind.TOPIC:
                        self.topics[TopicId(UUID(resource.name))] = None
                    elif resource.kind is ResourceKind.CLUSTER:
                        self.is_all = True
                case BrokerRegistered(broker=broker):
                    self._note_broker(broker.broker_id, own)
                case BrokerStateChanged(broker_id=broker_id):
                    self._note_broker(broker_id, own)

    def _note_broker(self, broker_id: BrokerId, own: BrokerId) -> None:
        if broker_id == own:
            self.is_all = True
        else:
            self.brokers[broker_id] = None
