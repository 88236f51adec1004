"""Is there such a topic, and may it be changed? Pure."""

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
    """INVALID_TOPIC if a user would delete, or change the shape of, one of the cluster's own topics."""
    if topic.is_internal and not is_internal_request:
        raise ControllerError(
            errors_pb2.INVALID_TOPIC,
            f"topic {topic.name!r} is the cluster's own, which depends on it as it is: name another topic",
        )


def check_broker_epoch(image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch) -> Broker:
    """The broker, whose latest registration got `epoch`. Else UNKNOWN_BROKER or STALE_BROKER_EPOCH: what a process asks
    after another one has registered in its place has no effect."""
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
