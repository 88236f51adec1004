"""Creation of a topic. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lograft.metadata.config.effective_settings import cluster_setting, new_topic_min_isr
from lograft.metadata.config.topic_config import MIN_ISR, check_topic_config
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.decisions.topics.new_partitions import (
    RoomNeeded,
    assigned_partitions,
    check_partition_count,
    check_replication_factor,
    placed_partitions,
)
from lograft.metadata.decisions.topics.placement import usable_brokers
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.metadata.image.records import (
    ConfigChanged,
    ConfigResource,
    PartitionChanged,
    Record,
    ResourceKind,
    TopicCreated,
)
from lograft.metadata.image.topic_names import check_collision, check_topic_name
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """`topic_id` comes from the sender, so that a retry is recognised.

    `partitions`, `replication_factor`: None for the cluster's default. `assignments`: the brokers of each partition,
    the preferred leader first; if empty, the controller chooses. `is_internal`: one of the cluster's own topics.
    """

    name: str
    topic_id: TopicId
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: Sequence[Sequence[BrokerId]] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The topic. `is_new` False: an earlier attempt of the same request created it."""

    topic_id: TopicId
    name: str
    partitions: int
    replication_factor: int
    is_new: bool


def create_topic(
    image: ClusterImage, request: CreateTopic, rng: Rng, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[CreatedTopic]:
    """Create the topic; do nothing if there is one of that name and id."""
    existing = _created_before(image, request)
    if existing is not None:
        return Decision((), _answer(existing.topic_id, existing.name, existing.partitions, is_new=False))
    check_topic_name(request.name, internal=request.is_internal)
    _check_name_is_free(image, request.name)
    configs = check_topic_config(request.configs)
    partitions = dict(enumerate(_new_partitions(image, request, configs, rng, room)))
    _check_min_isr(configs, partitions[0].replication_factor)
    resource = ConfigResource(ResourceKind.TOPIC, str(request.topic_id))
    records: tuple[Record, ...] = (
        TopicCreated(request.topic_id, request.name),
        *(ConfigChanged(resource, key, value) for key, value in configs.items()),
        *(PartitionChanged(request.topic_id, number, partition) for number, partition in partitions.items()),
    )
    return Decision(records, _answer(request.topic_id, request.name, partitions, is_new=True))


def _answer(topic_id: TopicId, name: str, partitions: Mapping[int, Partition], *, is_new: bool) -> CreatedTopic:
    return CreatedTopic(topic_id, name, len(partitions), partitions[0].replication_factor, is_new)


def _created_before(image: ClusterImage, request: CreateTopic) -> Topic | None:
    """Return the topic that an earlier attempt of the same request created, if any. An id is for one topic, once."""
    topic_id = request.topic_id
    if topic_id.int == 0:
        raise ControllerError(errors_pb2.INVALID_REQUEST, "the topic id is all zeros: make a random UUID")
    # Not UNKNOWN_TOPIC_ID, which is worth a retry: this is final.
    if topic_id in image.deleted_topics:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST,
            f"a topic with the id {topic_id} was created and deleted since: to create it anew, make a new id",
        )
    topic = image.topics.get(topic_id)
    if topic is not None and topic.name != request.name:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST,
            f"the id {topic_id} is that of topic {topic.name!r}: make a new id for {request.name!a}",
        )
    return topic


def _check_name_is_free(image: ClusterImage, name: str) -> None:
    existing = image.topic(name)
    if existing is not None:
        raise ControllerError(
            errors_pb2.TOPIC_ALREADY_EXISTS,
            f"there is a topic {name!r} already, with the id {existing.topic_id}: use it, or give another name",
        )
    check_collision(name, image.colliding_names)


def _new_partitions(
    image: ClusterImage, request: CreateTopic, configs: Mapping[str, str], rng: Rng, room: DiskRoom
) -> list[Partition]:
    def needed(replication_factor: int) -> RoomNeeded:
        least = new_topic_min_isr(image, configs.get(MIN_ISR), replication_factor, is_internal=request.is_internal)
        return RoomNeeded(room, least, request.is_internal)

    if request.assignments:
        _check_consistent("partitions", request.partitions, len(request.assignments))
        _check_consistent("replicas", request.replication_factor, len(request.assignments[0]))
        check_partition_count(len(request.assignments))
        assigned = len(request.assignments[0])
        return assigned_partitions(image, 0, request.assignments, assigned, needed(assigned))
    count = request.partitions
    if count is None:
        count = int(cluster_setting(image, "num.partitions"))
    replication_factor = request.replication_factor
    if replication_factor is None:
        # At least one, so that without any live broker the error names the shortage.
        live = max(1, len(usable_brokers(image)))
        replication_factor = min(int(cluster_setting(image, "default.replication.factor")), live)
    check_partition_count(count)
    check_replication_factor(replication_factor)
    return placed_partitions(image, rng, count, replication_factor, needed=needed(replication_factor))


def _check_consistent(what: str, asked: int | None, assigned: int) -> None:
    if asked is not None and asked != assigned:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST,
            f"{asked} {what} are asked for, and the assignments are for {assigned}: leave one of them out",
        )


def _check_min_isr(configs: Mapping[str, str], replication_factor: int) -> None:
    value = configs.get(MIN_ISR)
    if value is not None and int(value) > replication_factor:
        raise ControllerError(
            errors_pb2.INVALID_CONFIG,
            f"{MIN_ISR} cannot be {value} for a topic of {replication_factor} replicas: give at most that number, "
            "or ask for more replicas",
        )
