"""One decision on many partitions: a single operation for all possible changes, and a result for each
partition. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import Partition, PartitionKey, TopicId
from lograft.metadata.image.records import PartitionChanged
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

# So that the operation fits in one Raft entry of 8 MiB, whatever the replication factor: a partition is one and each of
# its replicas is one, of about 60 bytes at most.
MAX_PARTS_IN_ONE_OPERATION = 100_000
# Changes of all partitions are made bit by bit, each under 0.1 s, so that other requests need not wait.
PARTS_AT_A_TIME = 5_000

Change: TypeAlias = Callable[[TopicId, int, Partition], Partition]
"""What a partition becomes, or itself; or it raises `ControllerError`."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """`error` None: the partition is as requested."""

    topic_id: TopicId
    number: int
    error: ControllerError | None


def change_each(
    image: ClusterImage, keys: Iterable[PartitionKey], change: Change, *, bit_by_bit: bool = False
) -> Decision[tuple[PartitionResult, ...]]:
    """Change each of these partitions, or refuse it on its own.

    If they are too many for one operation, refuse all; or, with `bit_by_bit`, leave the rest without a result: ask
    again until there are no records.
    """
    changes: list[PartitionChanged] = []
    results: list[PartitionResult] = []
    parts, parts_at_once = 0, min(PARTS_AT_A_TIME, MAX_PARTS_IN_ONE_OPERATION)
    for topic_id, number in dict.fromkeys(keys):
        if bit_by_bit and parts >= parts_at_once:
            break
        try:
            before = known_partition(image, topic_id, number)
            after = change(topic_id, number, before)
        except ControllerError as error:
            results.append(PartitionResult(topic_id, number, error))
            continue
        results.append(PartitionResult(topic_id, number, None))
        if after is not before:
            changes.append(PartitionChanged(topic_id, number, after))
            parts += 1 + len(after.replicas)
    if parts > MAX_PARTS_IN_ONE_OPERATION and not bit_by_bit:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST,
            f"{len(changes)} partitions with {parts - len(changes)} replicas are too many to change at once: "
            f"name fewer; up to {MAX_PARTS_IN_ONE_OPERATION} partitions and replicas together can be",
        )
    return Decision(tuple(changes), tuple(results))


def known_partition(image: ClusterImage, topic_id: TopicId, number: int) -> Partition:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise ControllerError(
            errors_pb2.UNKNOWN_TOPIC_ID,
            f"there is no topic with id {topic_id}: it was deleted, or never was; check the id",
        )
    partition = topic.partitions.get(number)
    if partition is None:
        raise ControllerError(
            errors_pb2.UNKNOWN_PARTITION,
            f"topic {topic.name} has no partition {number}: its partitions are 0 to {len(topic.partitions) - 1}",
        )
    return partition


def name_of(image: ClusterImage, topic_id: TopicId, number: int) -> str:
    """Return the partition's name for people."""
    return f"{image.topics[topic_id].name}-{number}"
