"""The cluster's own topics, each created when a broker first needs it. Pure."""

from collections.abc import Callable, Mapping

from lograft.metadata.config.effective_settings import cluster_setting
from lograft.metadata.config.internal_topic_config import LARGEST_BATCH_BYTES
from lograft.metadata.decisions.checks import check_broker_epoch
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.topics.create_topic import CreateTopic, create_topic
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

CONSUMER_OFFSETS = "__consumer_offsets"
"""The topic of committed offsets and of group members."""


def create_internal_topic(
    image: ClusterImage,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    name: str,
    topic_id: TopicId,
    rng: Rng,
    room: DiskRoom = ROOM_EVERYWHERE,
) -> Decision[None]:
    """Create the topic `name` unless it exists. Raise NOT_ENOUGH_BROKERS while there are fewer brokers than it has
    replicas."""
    check_broker_epoch(image, broker_id, broker_epoch)
    make = _INTERNAL_TOPICS.get(name)
    if make is None:
        raise ControllerError(errors_pb2.INVALID_TOPIC, f"{name!a} is none of the cluster's own topics")
    if image.topic(name) is not None:
        return Decision((), None)
    return Decision(create_topic(image, make(image, topic_id), rng, room).records, None)


def _consumer_offsets(image: ClusterImage, topic_id: TopicId) -> CreateTopic:
    """Set values that keep commits safe, too, for brokers of a version without `internal_setting`."""
    return CreateTopic(
        CONSUMER_OFFSETS,
        topic_id,
        partitions=int(cluster_setting(image, "offsets.topic.num.partitions")),
        replication_factor=int(cluster_setting(image, "offsets.topic.replication.factor")),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "max.message.bytes": str(LARGEST_BATCH_BYTES),
            "segment.bytes": cluster_setting(image, "offsets.topic.segment.bytes"),
            "unclean.leader.election.enable": "false",
        },
        is_internal=True,
    )


_INTERNAL_TOPICS: Mapping[str, Callable[[ClusterImage, TopicId], CreateTopic]] = {CONSUMER_OFFSETS: _consumer_offsets}
