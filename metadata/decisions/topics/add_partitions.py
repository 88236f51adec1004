"""More partitions for a topic. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lograft.metadata.config.effective_settings import min_isr_of, topic_setting
from lograft.metadata.config.topic_config import MIN_ISR
from lograft.metadata.decisions.checks import check_may_change, known_topic
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.decisions.topics.new_partitions import (
    RoomNeeded,
    assigned_partitions,
    check_partition_count,
    placed_partitions,
)
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.metadata.image.records import PartitionChanged
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """`total`: the number of partitions that the topic gets, so that a retry adds none. `assignments`: the brokers of
    each new one, the preferred leader first; if empty, the controller chooses."""

    topic_id: TopicId
    total: int
    assignments: Sequence[Sequence[BrokerId]] = ()
    is_internal_request: bool = False


@dataclass(frozen=True, slots=True)
class AddedPartitions:
    """The topic now has `total` partitions; `added` of them are new."""

    topic_id: TopicId
    name: str
    total: int
    added: int


def add_partitions(
    image: ClusterImage, request: AddPartitions, rng: Rng, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[AddedPartitions]:
    """Extend the topic to `total` partitions. New ones have as many replicas as partition 0 has, or will have once it
    is reassigned."""
    topic = known_topic(image, request.topic_id)
    check_may_change(topic, is_internal_request=request.is_internal_request)
    check_partition_count(request.total)
    present = len(topic.partitions)
    if request.total < present:
        raise ControllerError(
            errors_pb2.INVALID_PARTITIONS,
            f"topic {topic.name!r} has {present} partitions, and a topic cannot lose partitions: ask for more than "
            f"{present}, or create another topic with {request.total}",
        )
    added = _new_partitions(image, topic, request, rng, room) if request.total > present else []
    records = tuple(
        PartitionChanged(topic.topic_id, number, partition) for number, partition in enumerate(added, start=present)
    )
    return Decision(records, AddedPartitions(topic.topic_id, topic.name, request.total, len(added)))


def _new_partitions(
    image: ClusterImage, topic: Topic, request: AddPartitions, rng: Rng, room: DiskRoom
) -> list[Partition]:
    present = len(topic.partitions)
    wanted = request.total - present
    replication_factor = topic.partitions[0].replication_factor
    least = min_isr_of(topic_setting(image, topic.topic_id, MIN_ISR), replication_factor)
    needed = RoomNeeded(room, least, topic.is_internal)
    if not request.assignments:
        return placed_partitions(image, rng, wanted, replication_factor, tuple(topic.partitions.values()), needed)
    if len(request.assignments) != wanted:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST,
            f"topic {topic.name!r} has {present} partitions, so {wanted} new ones make {request.total}, and the "
            f"assignments are for {len(request.assignments)}: give one for each new partition",
        )
    return assigned_partitions(image, present, request.assignments, replication_factor, needed)
