"""Requests and answers of the `Admin` service, translated to and from decisions. Pure."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from lograft.metadata.config.config_resource import find_resource
from lograft.metadata.decisions.checks import known_topic
from lograft.metadata.decisions.describe_configs import ConfigSource, ConfigValue
from lograft.metadata.decisions.partitions.reassignment import ReassignmentProgress
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.request_limits import read_uuid

_KINDS: dict[int, ResourceKind] = {
    pb.ConfigResource.TOPIC: ResourceKind.TOPIC,
    pb.ConfigResource.BROKER: ResourceKind.BROKER,
    pb.ConfigResource.CLUSTER: ResourceKind.CLUSTER,
}
_SOURCES: dict[ConfigSource, Any] = {
    ConfigSource.DEFAULT: pb.ConfigValue.DEFAULT,
    ConfigSource.CLUSTER: pb.ConfigValue.CLUSTER,
    ConfigSource.BROKER: pb.ConfigValue.BROKER,
    ConfigSource.TOPIC: pb.ConfigValue.TOPIC,
}


def refused(message: str) -> ControllerError:
    return ControllerError(errors_pb2.INVALID_REQUEST, message)


# -- topics


def read_optional_uuid(data: bytes, field: str) -> UUID | None:
    """Return the UUID, or None if it is left out."""
    return read_uuid(data, field) if data else None


def read_topic_id(data: bytes) -> TopicId | None:
    found = read_optional_uuid(data, "topic_id")
    return TopicId(found) if found is not None else None


def find_topic_id(image: ClusterImage, reference: pb.TopicReference) -> TopicId:
    """Return the id of the topic that a request names by name, by id, or by both. A topic named by id need
    not exist."""
    topic_id = read_topic_id(reference.topic_id)
    if topic_id is None:
        return _id_of_name(image, reference.name)
    topic = image.topics.get(topic_id)
    if topic is not None and reference.name and topic.name != reference.name:
        raise refused(
            f"the topic of id {topic_id} is {topic.name!r}, not {reference.name!a}: "
            "give its name or its id, or both of the same topic"
        )
    return topic_id


def _id_of_name(image: ClusterImage, name: str) -> TopicId:
    if not name:
        raise refused("no topic is named: give its name or its id")
    topic_id = image.topic_ids.get(name)
    if topic_id is None:
        raise ControllerError(errors_pb2.UNKNOWN_TOPIC, f"there is no topic {name!a}: create it, or check the name")
    return topic_id


def name_topic(image: ClusterImage, topic_id: TopicId) -> pb.TopicReference:
    """Return a reference to the topic by both name and id."""
    topic = image.topics.get(topic_id)
    return pb.TopicReference(name=topic.name if topic is not None else "", topic_id=topic_id.bytes)


# -- configuration


def find_config_resource(image: ClusterImage, resource: pb.ConfigResource) -> ConfigResource:
    kind = _KINDS.get(resource.kind)
    if kind is None:
        raise refused("a configuration is of a topic, of a broker or of the cluster: say which by `kind`")
    if kind is ResourceKind.TOPIC:
        reference = pb.TopicReference(name=resource.name, topic_id=resource.topic_id)
        return ConfigResource(kind, str(known_topic(image, find_topic_id(image, reference)).topic_id))
    if resource.topic_id:
        raise refused(f"a topic id with the configuration of a {kind.name.lower()}: leave it out")
    return find_resource(image, kind, resource.name)


def name_resource(image: ClusterImage, resource: ConfigResource) -> pb.ConfigResource:
    if resource.kind is ResourceKind.TOPIC:
        reference = name_topic(image, TopicId(UUID(resource.name)))
        return pb.ConfigResource(kind=pb.ConfigResource.TOPIC, name=reference.name, topic_id=reference.topic_id)
    kind = pb.ConfigResource.BROKER if resource.kind is ResourceKind.BROKER else pb.ConfigResource.CLUSTER
    return pb.ConfigResource(kind=kind, name=resource.name)


def read_changes(item: pb.AlterConfigsRequest.Item) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for change in item.changes:
        if change.key in changes:
            raise refused(f"{change.key!a} is there twice: which value is meant is not clear")
        changes[change.key] = change.value if change.HasField("value") else None
    return changes


def describe_value(value: ConfigValue) -> pb.ConfigValue:
    return pb.ConfigValue(
        key=value.key,
        value=value.value,
        source=_SOURCES[value.source],
        default_value=value.default,
        description=value.description,
        kind=value.kind,
        accepts=value.accepts,
        is_of_topics=value.is_of_topics,
        setting=value.setting,
    )


# -- partitions


def read_brokers(ids: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker_id) for broker_id in ids)


def name_partition(image: ClusterImage, topic_id: TopicId, number: int) -> pb.PartitionReference:
    return pb.PartitionReference(topic=name_topic(image, topic_id), partition=number)


def describe_progress(image: ClusterImage, progress: ReassignmentProgress) -> pb.Reassignment:
    return pb.Reassignment(
        partition=name_partition(image, progress.topic_id, progress.number),
        replicas=progress.replicas,
        target=progress.target,
        adding=progress.adding,
        adding_in_sync=progress.added_in_sync,
        removing=progress.removing,
    )
