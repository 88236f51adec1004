"""New partitions: how many, where, and their initial state. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.decisions.topics.placement import DirectoryChoice, check_replica_limit, place
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch, Replica
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

MAX_PARTITIONS_PER_TOPIC = 10_000
MAX_REPLICATION_FACTOR = 2**15 - 1
MAX_REPLICAS_AT_ONCE = 100_000  # so that they fit in one Raft entry


@dataclass(frozen=True, slots=True)
class RoomNeeded:
    """The disk room that new partitions of a topic need, and reported room. `min_isr`: how many replicas a write waits
    for."""

    room: DiskRoom = ROOM_EVERYWHERE
    min_isr: int = 1
    is_internal: bool = False


def placed_partitions(
    image: ClusterImage,
    rng: Rng,
    count: int,
    replication_factor: int,
    existing: Sequence[Partition] = (),
    needed: RoomNeeded | None = None,
) -> list[Partition]:
    """Return `count` new partitions of a topic that has `existing`, on brokers that the controller chooses. Raise
    DISK_FULL if too few disks have room."""
    _check_fits(count * replication_factor)
    needed = needed or RoomNeeded()
    placed = place(image, rng, count, replication_factor, existing, needed.room)
    return [_beginning(image, replicas, needed) for replicas in placed]


def assigned_partitions(
    image: ClusterImage,
    first_number: int,
    assignments: Sequence[Sequence[BrokerId]],
    replication_factor: int,
    needed: RoomNeeded | None = None,
) -> list[Partition]:
    """Return new partitions from `first_number` on, each on the brokers that its assignment names, the preferred leader
    first.

    Raise INVALID_REPLICAS unless every assignment has `replication_factor` distinct, registered brokers. Brokers that
    are not live may be among them and join the ISR later; but one must be live, or the partition would begin without a
    leader. Raise DISK_FULL if too few of their disks have room.
    """
    needed = needed or RoomNeeded()
    for number, assignment in enumerate(assignments, start=first_number):
        _check_assignment(image, number, assignment, replication_factor)
    _check_fits(len(assignments) * replication_factor)
    check_replica_limit(image, (broker_id for assignment in assignments for broker_id in assignment))
    directories = DirectoryChoice(image, needed.room)
    return [
        _beginning(image, tuple(directories.replica_on(broker_id) for broker_id in assignment), needed)
        for assignment in assignments
    ]


def check_partition_count(count: int) -> None:
    """Raise INVALID_PARTITIONS unless a topic may have `count` partitions."""
    if not 1 <= count <= MAX_PARTITIONS_PER_TOPIC:
        raise ControllerError(
            errors_pb2.INVALID_PARTITIONS,
            f"a topic cannot have {count} partitions: ask for 1 to {MAX_PARTITIONS_PER_TOPIC}",
        )


def check_replication_factor(replication_factor: int) -> None:
    """Raise INVALID_REPLICAS unless partitions may have that many replicas, given enough brokers."""
    if not 1 <= replication_factor <= MAX_REPLICATION_FACTOR:
        raise ControllerError(
            errors_pb2.INVALID_REPLICAS,
            f"a partition cannot have {replication_factor} replicas: ask for at least 1, and at most as many as there "
            "are brokers",
        )


def _beginning(image: ClusterImage, replicas: tuple[Replica, ...], needed: RoomNeeded) -> Partition:
    """Return the initial state. Empty logs are equal: all active replicas that can take records are in sync, and the
    first of them leads. An internal topic is never refused: without it, no group could commit."""
    active = [replica for replica in replicas if _is_active(image, replica.broker_id)]
    able = [one for one in active if needed.room.takes_records(one, is_internal=needed.is_internal)]
    if needed.is_internal and len(able) < needed.min_isr:
        able = active
    if len(able) < min(needed.min_isr, len(active)):
        raise _no_room(replicas, able, needed.min_isr)
    isr = tuple(replica.broker_id for replica in able)
    return Partition(replicas, isr, leader=isr[0], leader_epoch=LeaderEpoch(0), partition_epoch=PartitionEpoch(0))


def _no_room(replicas: Sequence[Replica], able: Sequence[Replica], min_isr: int) -> ControllerError:
    return ControllerError(
        errors_pb2.DISK_FULL,
        f"a partition on brokers {_listed([one.broker_id for one in replicas])} could take no records: "
        f"{len(able)} of them have room on their disks ({_listed([one.broker_id for one in able]) or 'none'}), and a "
        f"write needs {min_isr}; make room on the others, or add brokers",
    )


def _is_active(image: ClusterImage, broker_id: BrokerId) -> bool:
    """Return whether the broker gets replicas; one that is shutting down does not."""
    return image.brokers[broker_id].state is BrokerState.ACTIVE


def _check_assignment(
    image: ClusterImage, number: int, assignment: Sequence[BrokerId], replication_factor: int
) -> None:
    named = f"the assignment of partition {number}"
    if not assignment:
        raise _refused(f"{named} names no broker: name at least one")
    if len(assignment) != replication_factor:
        raise _refused(
            f"{named} names {len(assignment)} brokers, and it is {replication_factor} for the topic's partitions: "
            "name equally many for each"
        )
    if len(set(assignment)) < len(assignment):
        raise _refused(f"{named} names a broker twice ({_listed(assignment)}): name each once")
    unknown = [broker_id for broker_id in assignment if broker_id not in image.brokers]
    if unknown:
        raise _refused(
            f"{named} names {_listed(unknown)}, not registered: the brokers are {_listed(sorted(image.brokers))}"
        )
    homeless = [broker_id for broker_id in assignment if not image.brokers[broker_id].directories]
    if homeless:
        raise _refused(f"{named} names {_listed(homeless)}, without a directory that works: name others, or repair it")
    if not any(_is_active(image, broker_id) for broker_id in assignment):
        raise _refused(
            f"{named} names no live broker ({_listed(assignment)}), so nobody could lead it: name one that is live, or "
            "start one of these"
        )


def _check_fits(replicas: int) -> None:
    if replicas > MAX_REPLICAS_AT_ONCE:
        raise ControllerError(
            errors_pb2.INVALID_PARTITIONS,
            f"{replicas} replicas are too many to create at once: ask for fewer partitions or replicas, "
            f"{MAX_REPLICAS_AT_ONCE} replicas in all, and add partitions later",
        )


def _refused(message: str) -> ControllerError:
    return ControllerError(errors_pb2.INVALID_REPLICAS, message)


def _listed(broker_ids: Sequence[BrokerId]) -> str:
    return ", ".join(str(broker_id) for broker_id in broker_ids)
