"""Configurable resources: topics, brokers, and the cluster. Pure."""

from collections.abc import Mapping
from uuid import UUID

from lograft.metadata.config.cluster_config import BROKER_CONFIG, CLUSTER_CONFIG
from lograft.metadata.config.config_key import ConfigKey
from lograft.metadata.config.topic_config import TOPIC_CONFIG
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.metadata.image.partition import TopicId
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

KEYS: Mapping[ResourceKind, Mapping[str, ConfigKey]] = {
    ResourceKind.TOPIC: TOPIC_CONFIG,
    ResourceKind.BROKER: BROKER_CONFIG,
    ResourceKind.CLUSTER: CLUSTER_CONFIG,
}

OWNERS: Mapping[ResourceKind, str] = {
    ResourceKind.TOPIC: "a topic",
    ResourceKind.BROKER: "a broker",
    ResourceKind.CLUSTER: "the cluster",
}


def find_resource(
    image: ClusterImage, kind: ResourceKind, name: str, topic_id: TopicId | None = None
) -> ConfigResource:
    """Return the resource that people call `name`: a topic's name, a broker's id, or empty for the cluster.

    `topic_id` selects a topic if its name is empty; otherwise the named topic must have this id.
    """
    if kind is ResourceKind.TOPIC:
        return ConfigResource(kind, str(_find_topic(image, name, topic_id).topic_id))
    resource = ConfigResource(kind, name)
    check_resource(image, resource)
    return resource


def check_resource(image: ClusterImage, resource: ConfigResource) -> None:
    """Raise UNKNOWN_TOPIC, UNKNOWN_BROKER or INVALID_REQUEST unless the resource exists."""
    name = resource.name
    if resource.kind is ResourceKind.TOPIC:
        topic_of(image, resource)
    elif resource.kind is ResourceKind.BROKER:
        known = [str(broker_id) for broker_id in sorted(image.brokers)]
        if name not in known:
            remedy = f"the brokers are {', '.join(known)}" if known else "start a broker first"
            raise ControllerError(errors_pb2.UNKNOWN_BROKER, f"no broker {name!a} is registered: {remedy}")
    elif name:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST, f"the cluster has no name in a configuration: leave {name!a} out"
        )


def topic_of(image: ClusterImage, resource: ConfigResource) -> Topic:
    """Return the topic that the resource configures. Raise UNKNOWN_TOPIC if it does not exist."""
    assert resource.kind is ResourceKind.TOPIC
    try:
        topic = image.topics.get(TopicId(UUID(resource.name)))
    except ValueError:
        topic = None
    # An id has other spellings, too, under which nobody would find the settings.
    if topic is None or str(topic.topic_id) != resource.name:
        raise ControllerError(
            errors_pb2.UNKNOWN_TOPIC, f"there is no topic of id {resource.name!a}: it was deleted, or was never created"
        )
    return topic


def _find_topic(image: ClusterImage, name: str, topic_id: TopicId | None) -> Topic:
    if topic_id is not None and not name:
        return topic_of(image, ConfigResource(ResourceKind.TOPIC, str(topic_id)))
    topic = image.topic(name)
    if topic is None:
        raise ControllerError(errors_pb2.UNKNOWN_TOPIC, f"there is no topic {name!a}: create it, or check the name")
    if topic_id is not None and topic.topic_id != topic_id:
        raise ControllerError(
            errors_pb2.UNKNOWN_TOPIC,
            f"topic {name} is another one now, of id {topic.topic_id} and not {topic_id}: describe it, then ask again",
        )
    return topic
