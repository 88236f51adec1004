"""Changes of the ISR that leaders request: the one way to join it, and the usual way to leave it. Pure.

Compare-and-set on the broker epoch, the leader epoch and the partition epoch: a leader that does not know the
partition's latest state changes nothing. The answer names the resulting state; the leader acts on it once its own image
contains it, in order with every change of the minimum ISR.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from lograft.metadata.config.effective_settings import conditions_for
from lograft.metadata.decisions.checks import check_broker_epoch
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.reassignment import complete_if_due
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Partition,
    PartitionEpoch,
    Replica,
    TopicId,
)
from lograft.metadata.image.partition_transition import settle
from lograft.metadata.image.records import PartitionChanged, Record
from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorCode
from lograft.rpc.coded_error import ControllerError


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A proposed member of the ISR, as its leader knows it: the broker epoch and the directory that its subscription
    named."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    directory_id: UUID


@dataclass(frozen=True, slots=True)
class Alteration:
    """The ISR that the leader of one partition asks for, and the state that it knows."""

    topic_id: TopicId
    number: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True)
class Altered:
    """The result of one alteration: the partition as it is now, or an error."""

    topic_id: TopicId
    number: int
    outcome: Partition | ControllerError


def alter_partitions(
    image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch, alterations: Sequence[Alteration]
) -> Decision[tuple[Altered, ...]]:
    """Make all possible changes in one operation. Return an answer for each."""
    check_broker_epoch(image, broker_id, epoch)
    records: list[Record] = []
    answers: list[Altered] = []
    seen: dict[tuple[TopicId, int], None] = {}
    for alteration in alterations:
        key = (alteration.topic_id, alteration.number)
        outcome: Partition | ControllerError
        try:
            if key in seen:
                raise _refusal(errors_pb2.INVALID_REQUEST, alteration, "is in the request twice")
            seen[key] = None
            outcome = _alter(image, broker_id, alteration)
        except ControllerError as error:
            outcome = error
        else:
            records.append(PartitionChanged(*key, outcome))
        answers.append(Altered(*key, outcome))
    return Decision(tuple(records), tuple(answers))


def _alter(image: ClusterImage, broker_id: BrokerId, alteration: Alteration) -> Partition:
    topic_id, before = alteration.topic_id, _find(image, alteration)
    _check_epochs(before, broker_id, alteration)
    _check_members(image, before, broker_id, alteration)
    directories = {member.broker_id: member.directory_id for member in alteration.isr}
    replicas = tuple(
        Replica(one.broker_id, directories.get(one.broker_id, one.directory_id)) for one in before.replicas
    )
    wanted = replace(before, replicas=replicas, isr=tuple(directories))
    after = settle(before, wanted, conditions_for(image, topic_id, before))
    if after is before:
        # A leader that asks for the present ISR wants to be sure that none of its earlier requests takes effect later.
        return replace(before, partition_epoch=PartitionEpoch(before.partition_epoch + 1))
    return complete_if_due(image, topic_id, before, after)


def _find(image: ClusterImage, alteration: Alteration) -> Partition:
    if alteration.topic_id not in image.topics:
        raise _refusal(errors_pb2.UNKNOWN_TOPIC_ID, alteration, "is of a topic that was deleted, or never was")
    partition = image.partition(alteration.topic_id, alteration.number)
    if partition is None:
        raise _refusal(errors_pb2.UNKNOWN_PARTITION, alteration, "does not exist")
    return partition


def _check_epochs(before: Partition, broker_id: BrokerId, alteration: Alteration) -> None:
    if alteration.leader_epoch < before.leader_epoch:
        raise _refusal(
            errors_pb2.FENCED_LEADER_EPOCH,
            alteration,
            f"is in leader epoch {before.leader_epoch} by now, not {alteration.leader_epoch}",
        )
    if alteration.leader_epoch > before.leader_epoch:
        raise _refusal(errors_pb2.UNKNOWN_LEADER_EPOCH, alteration, f"is only in leader epoch {before.leader_epoch}")
    if before.leader != broker_id:
        raise _refusal(errors_pb2.INVALID_REQUEST, alteration, f"is led by {before.leader}, not by broker {broker_id}")
    if alteration.partition_epoch != before.partition_epoch:
        raise _refusal(
            errors_pb2.STALE_PARTITION_EPOCH,
            alteration,
            f"is in partition epoch {before.partition_epoch}, not {alteration.partition_epoch}",
        )


def _check_members(image: ClusterImage, before: Partition, leader: BrokerId, alteration: Alteration) -> None:
    members = [member.broker_id for member in alteration.isr]
    if len(dict.fromkeys(members)) != len(members):
        raise _refusal(errors_pb2.INVALID_REQUEST, alteration, f"cannot have a broker twice in its ISR ({members})")
    if leader not in members:
        raise _refusal(errors_pb2.INVALID_REQUEST, alteration, f"needs its leader {leader} in its ISR ({members})")
    for member in alteration.isr:
        if member.broker_id not in before.replica_ids:
            raise _refusal(
                errors_pb2.INVALID_REQUEST,
                alteration,
                f"has no replica on broker {member.broker_id} ({before.replica_ids})",
            )
        _check_member(image, before, member, alteration)


def _check_member(image: ClusterImage, before: Partition, member: IsrMember, alteration: Alteration) -> None:
    """Raise unless the member counts: a process that has died since the leader heard of it, or that is shutting down,
    does not."""
    broker_id, broker = member.broker_id, image.brokers.get(member.broker_id)
    if broker is None or broker.epoch != member.broker_epoch:
        known = f"epoch {broker.epoch}" if broker is not None else "no registration"
        raise _ineligible(alteration, f"broker {broker_id} has {known}, not epoch {member.broker_epoch}")
    if member.directory_id not in broker.directories:
        raise _ineligible(alteration, f"broker {broker_id} has no data directory {member.directory_id}")
    if broker_id in before.isr:
        if before.directory_of(broker_id) != member.directory_id:
            raise _ineligible(alteration, f"the replica on broker {broker_id} is in sync in another data directory")
    elif broker.state is not BrokerState.ACTIVE:
        state = "shutting down" if broker.is_live else "fenced"
        raise _ineligible(alteration, f"broker {broker_id} is {state}")


def _ineligible(alteration: Alteration, message: str) -> ControllerError:
    return _refusal(errors_pb2.INELIGIBLE_REPLICA, alteration, f"cannot have this ISR: {message}")


def _refusal(code: ErrorCode, alteration: Alteration, message: str) -> ControllerError:
    return ControllerError(code, f"partition {alteration.number} of topic {alteration.topic_id} {message}")
