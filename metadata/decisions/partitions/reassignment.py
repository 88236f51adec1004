"""A partition moves to other brokers: replicas are added, catch up, and then others leave. Pure.

A request names the `target`: the replicas in their final order. Until it is reached the partition has its original
replicas and the added ones, and can be redirected or sent back at any time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lograft.metadata.config.effective_settings import (
    cluster_setting,
    conditions_for,
    effective_min_isr,
    is_cordoned,
    is_internal,
)
from lograft.metadata.decisions.bulk_change import PartitionResult, change_each, name_of
from lograft.metadata.decisions.checks import check_registered
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.decisions.topics.placement import MAX_REPLICAS_PER_BROKER, DirectoryChoice
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, Replica, TopicId
from lograft.metadata.image.partition_transition import Conditions, settle
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

_WHY_NOT = {
    BrokerState.FENCED: "is not running",
    BrokerState.SHUTTING_DOWN: "is shutting down",
    BrokerState.ACTIVE: "has no data directory left",
}


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A request for one partition. `target` None: cancel the reassignment under way."""

    topic_id: TopicId
    number: int
    target: tuple[BrokerId, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentProgress:
    """A reassignment under way: it completes when all of `adding` are in sync, and enough of the target."""

    topic_id: TopicId
    number: int
    replicas: tuple[BrokerId, ...]
    target: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    added_in_sync: tuple[BrokerId, ...]


def reassign(
    image: ClusterImage, requests: Sequence[Reassignment], disk_room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[tuple[PartitionResult, ...]]:
    """Begin, redirect or cancel each reassignment; all possible ones in one operation."""
    wanted = {(request.topic_id, request.number): request.target for request in requests}
    if len(wanted) < len(requests):
        raise ControllerError(
            errors_pb2.INVALID_REQUEST, "a partition is in the request twice: which target is meant is not clear"
        )
    room = _Room(image, disk_room)

    def change(topic_id: TopicId, number: int, before: Partition) -> Partition:
        target = wanted[topic_id, number]
        name = name_of(image, topic_id, number)
        if target is None:
            return _cancel(image, topic_id, name, before)
        return _begin(image, room, topic_id, name, before, target)

    return change_each(image, wanted, change)


def complete_if_due(
    image: ClusterImage,
    topic_id: TopicId,
    before: Partition,
    settled: Partition,
    brokers: Mapping[BrokerId, Broker] | None = None,
) -> Partition:
    """Return what `before` becomes in one step when it becomes `settled`: that, or, if this completes a reassignment,
    exactly the target in its order.

    `brokers`: as they are after this operation, if it changes them.
    """
    if not settled.is_reassigning or any(broker not in settled.isr for broker in settled.adding):
        return settled
    replica_of = {replica.broker_id: replica for replica in settled.replicas}
    finished = replace(settled, replicas=tuple(replica_of[broker] for broker in settled.target), target=(), adding=())
    conditions = Conditions(
        brokers if brokers is not None else image.brokers, effective_min_isr(image, topic_id, finished)
    )
    if len([broker for broker in settled.target if broker in settled.isr]) < conditions.min_isr:
        return settled
    return settle(before, finished, conditions)


def complete_due(image: ClusterImage) -> Decision[int]:
    """Complete every reassignment that can be completed. Return how many.

    Most complete together with the change that makes it possible. A lower `min.insync.replicas` makes it possible, too,
    which a timer finds. If any were completed, ask again: it works bit by bit.
    """

    def change(topic_id: TopicId, _: int, before: Partition) -> Partition:
        return complete_if_due(image, topic_id, before, before)

    under_way = ((topic_id, number) for topic_id, number, _ in image.reassigning())
    decision = change_each(image, under_way, change, bit_by_bit=True)
    return Decision(decision.records, len(decision.records))


def list_reassignments(image: ClusterImage, topic_ids: Iterable[TopicId] | None) -> list[ReassignmentProgress]:
    """Return the reassignments under way of these topics (unknown ids are ignored); None: of all."""
    wanted = dict.fromkeys(topic_ids) if topic_ids is not None else None
    return [_progress(*one) for one in image.reassigning() if wanted is None or one[0] in wanted]


def _progress(topic_id: TopicId, number: int, partition: Partition) -> ReassignmentProgress:
    return ReassignmentProgress(
        topic_id=topic_id,
        number=number,
        replicas=partition.replica_ids,
        target=partition.target,
        adding=partition.adding,
        removing=partition.removing,
        added_in_sync=tuple(broker for broker in partition.adding if broker in partition.isr),
    )


def _begin(
    image: ClusterImage, room: "_Room", topic_id: TopicId, name: str, before: Partition, target: tuple[BrokerId, ...]
) -> Partition:
    _check_target(image, room, name, before, target, is_internal=is_internal(image, topic_id))
    if is_internal(image, topic_id):
        _check_internal_factor(image, image.topics[topic_id].name, before, target)
    replica_of = {replica.broker_id: replica for replica in before.replicas}
    for broker in target:
        if broker not in replica_of:
            replica_of[broker] = room.take(broker)
    adding = tuple(broker for broker in target if broker not in before.original)
    if adding or len(target) < len(before.original):
        replicas = tuple(replica_of[broker] for broker in (*before.original, *adding))
        wanted = replace(before, replicas=replicas, target=target, adding=adding)
    else:
        # Only the order differs: there is no replica to wait for.
        wanted = replace(before, replicas=tuple(replica_of[broker] for broker in target), target=(), adding=())
    _check_keeps_a_copy(name, before, wanted)
    settled = settle(before, wanted, conditions_for(image, topic_id, wanted))
    return complete_if_due(image, topic_id, before, settled)


def _cancel(image: ClusterImage, topic_id: TopicId, name: str, before: Partition) -> Partition:
    if not before.is_reassigning:
        raise ControllerError(errors_pb2.NO_REASSIGNMENT, f"{name} is not being reassigned: there is nothing to cancel")
    replicas = tuple(replica for replica in before.replicas if replica.broker_id in before.original)
    wanted = replace(before, replicas=replicas, target=(), adding=())
    _check_keeps_a_copy(name, before, wanted)
    return settle(before, wanted, conditions_for(image, topic_id, wanted))


def _check_target(
    image: ClusterImage, room: "_Room", name: str, before: Partition, target: tuple[BrokerId, ...], *, is_internal: bool
) -> None:
    if not target:
        raise ControllerError(errors_pb2.INVALID_REPLICAS, f"{name} cannot be left without replicas: name at least one")
    if len(dict.fromkeys(target)) < len(target):
        raise ControllerError(
            errors_pb2.INVALID_REPLICAS, f"{name} cannot have two replicas on one broker ({_named(target)})"
        )
    for broker_id in target:
        broker = check_registered(image, broker_id)
        if broker_id in before.replica_ids:
            continue
        if broker.state is not BrokerState.ACTIVE or not broker.directories:
            raise ControllerError(
                errors_pb2.INVALID_REASSIGNMENT,
                f"broker {broker_id} {_WHY_NOT[broker.state]}, and cannot get a replica of {name}: "
                "start it again first, or name another",
            )
        if not room.on_disks.has_place_on(broker, is_internal=is_internal):
            raise ControllerError(
                errors_pb2.INVALID_REASSIGNMENT,
                f"broker {broker_id} has no data directory with room, and a replica of {name} would never catch up "
                "there: make room on its disks first, or name another",
            )
        if room.is_full(broker_id):
            raise ControllerError(
                errors_pb2.INVALID_REPLICAS,
                f"broker {broker_id} would have more than {MAX_REPLICAS_PER_BROKER} replicas with that of {name}: "
                "name another",
            )


def _check_internal_factor(image: ClusterImage, topic: str, before: Partition, target: tuple[BrokerId, ...]) -> None:
    """Raise INVALID_REPLICAS if an internal topic would lose replicas that the cluster has brokers for."""
    configured = int(cluster_setting(image, "offsets.topic.replication.factor"))
    usable = sum(not is_cordoned(image, broker_id) for broker_id in image.brokers)
    least = min(configured, usable)
    if len(target) < min(before.replication_factor, least):
        raise ControllerError(
            errors_pb2.INVALID_REPLICAS,
            f"topic {topic} is the cluster's own and needs {least} replicas of each partition, not {len(target)}, or "
            f"what consumer groups committed could be lost: offsets.topic.replication.factor is {configured}, and "
            f"brokers that take replicas: {usable}. To take a broker out of service, run `lograft drain broker ID`; if "
            "the others are too few, `lograft config set broker/ID placement.enable=false` first",
        )


def _check_keeps_a_copy(name: str, before: Partition, wanted: Partition) -> None:
    """Raise unless a replica with every acknowledged record stays, if there is any."""
    eligible = tuple(replica.broker_id for replica in before.elr)
    if before.isr and not _any_of(before.isr, wanted.replica_ids):
        raise ControllerError(
            errors_pb2.INVALID_REASSIGNMENT,
            f"only {_named(before.isr)} is in sync of {name}, and would leave: "
            f"wait until one of {_named(wanted.replica_ids)} is, or keep {_named(before.isr)}",
        )
    if not before.isr and eligible and not _any_of(eligible, wanted.replica_ids):
        raise ControllerError(
            errors_pb2.INVALID_REASSIGNMENT,
            f"only {_named(eligible)}, which is away, has all that was acknowledged of {name}, and would leave: "
            "start it, or give its records up by an unclean election first",
        )


def _any_of(brokers: Collection[BrokerId], others: Collection[BrokerId]) -> bool:
    return any(broker in others for broker in brokers)


def _named(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(str(broker) for broker in brokers)


class _Room:
    """Where added replicas go, counting those that the same operation adds."""

    def __init__(self, image: ClusterImage, on_disks: DiskRoom) -> None:
        self.on_disks = on_disks
        self._image = image
        self._directories = DirectoryChoice(image, on_disks)
        self._added: Counter[BrokerId] = Counter()

    def is_full(self, broker_id: BrokerId) -> bool:
        return self._image.replica_count(broker_id) + self._added[broker_id] >= MAX_REPLICAS_PER_BROKER

    def take(self, broker_id: BrokerId) -> Replica:
        self._added[broker_id] += 1
        return self._directories.replica_on(broker_id)
