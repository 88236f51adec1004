"""Checks that decisions share: the topic exists and may change, the request is from the broker's present
process. Pure."""

from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def known_topic(image: ClusterImage, topic_id: TopicId) -> Topic:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise ControllerError(
            errors_pb2.UNKNOWN_TOPIC_ID,
            f"there is no topic with the id {topic_id}: it was deleted, or never was; ask for the topic's id again",
        )
    return topic


def check_may_change(topic: Topic, *, is_internal_request: bool) -> None:
    """Raise INVALID_TOPIC if a user tries to delete, or to change the shape of, one of the cluster's own topics."""
    if topic.is_internal and not is_internal_request:
        raise ControllerError(
            errors_pb2.INVALID_TOPIC,
            f"topic {topic.name!r} is the cluster's own, which depends on it as it is: name another topic",
        )


def check_broker_epoch(image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch) -> Broker:
    """Return the broker if `epoch` is its latest registration's. Raise UNKNOWN_BROKER or STALE_BROKER_EPOCH otherwise:
    requests of a process that another one has replaced have no effect."""
    broker = check_registered(image, broker_id)
    if epoch != broker.epoch:
        raise ControllerError(
            errors_pb2.STALE_BROKER_EPOCH,
            f"broker {broker_id} asks with epoch {epoch}, but its latest registration has epoch {broker.epoch}: "
            "another process took over; stop this one, or let it register again",
        )
    return broker


def check_registered(image: ClusterImage, broker_id: BrokerId) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ControllerError(
            errors_pb2.UNKNOWN_BROKER,
            f"broker {broker_id} is not registered: it registers when it starts; check the id",
        )
    return broker
