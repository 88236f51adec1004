"""The image as messages of the `Cluster` service. Pure.

Messages carry current values, so repeated changes coalesce.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lograft.metadata.config.effective_settings import is_cordoned
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.metadata.image.partition import Partition
from lograft.metadata.image.recent_changes import ChangedKeys
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.proto import cluster_pb2 as pb
from lograft.proto import errors_pb2
from lograft.proto.errors import error_detail

_STATES: dict[BrokerState, Any] = {
    BrokerState.FENCED: pb.Broker.FENCED,
    BrokerState.ACTIVE: pb.Broker.ACTIVE,
    BrokerState.SHUTTING_DOWN: pb.Broker.SHUTTING_DOWN,
}


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Which topics a client wants to hear of: the named ones, or all; internal ones only on request."""

    names: Mapping[str, None] = field(default_factory=dict)
    include_internal: bool = False

    def has(self, topic: Topic) -> bool:
        if self.names:
            return topic.name in self.names
        return self.include_internal or not topic.is_internal


def describe_cluster(
    image: ClusterImage, index: int, choice: TopicChoice, cluster_id: str, controller_id: int | None
) -> pb.ClusterDescription:
    """Return all brokers and the chosen topics, and the names that were not found."""
    description = pb.ClusterDescription(cluster_id=cluster_id, controller_id=controller_id, metadata_index=index)
    for broker_id in sorted(image.brokers):
        _fill_broker(description.brokers.add(), image, image.brokers[broker_id])
    for name in choice.names or sorted(image.topic_ids):
        topic = image.topic(name)
        if topic is None:
            message = f"there is no topic {name!r}: create it, or check the name"
            description.topics.add(name=name, error=error_detail(errors_pb2.UNKNOWN_TOPIC, message))
        elif choice.has(topic):
            _fill_topic(description.topics.add(), image, topic, topic.partitions)
    return description


def describe_change(image: ClusterImage, index: int, choice: TopicChoice, touched: ChangedKeys) -> pb.ClusterChange:
    """Return the current values of all changed keys."""
    change = pb.ClusterChange(metadata_index=index)
    for broker_id in touched.brokers:
        broker = image.brokers.get(broker_id)
        if broker is None:
            change.removed_brokers.append(broker_id)
        else:
            _fill_broker(change.brokers.add(), image, broker)
    for topic_id, numbers in touched.topics.items():
        topic = image.topics.get(topic_id)
        if topic is None:
            # The deleted topic's name is gone, so the choice cannot be checked.
            change.deleted_topics.append(topic_id.bytes)
        elif choice.has(topic):
            _fill_topic(change.topics.add(), image, topic, numbers)
    return change


def is_news(change: pb.ClusterChange) -> bool:
    """Return whether the message says more than that the stream is alive."""
    return bool(
        change.brokers
        or change.removed_brokers
        or change.topics
        or change.deleted_topics
        or change.HasField("description")
        or change.HasField("controller_id")
    )


def _fill_broker(target: pb.Broker, image: ClusterImage, broker: Broker) -> None:
    target.is_cordoned = is_cordoned(image, broker.broker_id)
    target.id = broker.broker_id
    target.address = broker.address
    if broker.rack is not None:
        target.rack = broker.rack
    target.state = _STATES[broker.state]
    target.epoch = broker.epoch
    target.directories.extend([directory.bytes for directory in broker.directories])
    if broker.version is not None:
        target.version = broker.version


def _fill_topic(target: pb.Topic, image: ClusterImage, topic: Topic, numbers: Iterable[int]) -> None:
    target.id = topic.topic_id.bytes
    target.name = topic.name
    target.is_internal = topic.is_internal
    target.configs.update(image.config_of(ConfigResource(ResourceKind.TOPIC, str(topic.topic_id))))
    add = target.partitions.add
    for number in sorted(numbers):
        _fill_partition(add(), number, topic.partitions[number])


def _fill_partition(target: pb.Partition, number: int, partition: Partition) -> None:
    """Fill field by field: a cluster has many partitions, and the constructor takes twice as long."""
    target.number = number
    if partition.leader is not None:
        target.leader = partition.leader
    target.leader_epoch = partition.leader_epoch
    target.partition_epoch = partition.partition_epoch
    target.replicas.extend([replica.broker_id for replica in partition.replicas])
    target.isr.extend(partition.isr)
    if partition.elr:
        target.elr.extend([replica.broker_id for replica in partition.elr])
    if partition.is_reassigning:
        target.adding.extend(partition.adding)
        target.removing.extend(partition.removing)
    if partition.unclean_epoch is not None:
        target.unclean_epoch = partition.unclean_epoch
