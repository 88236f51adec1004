"""Exceptions raised by the clients: `LograftError`, and one class per cause.

A class is named after its code: UNKNOWN_TOPIC is `UnknownTopic`. The first group comes from servers, with the meanings
in `lograft.proto.errors`; the second is raised by the client itself. Pure.
"""

from typing import Any, ClassVar

from google.protobuf.message import DecodeError

from lograft.proto.errors import ERRORS
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.runtime.network import Status, StreamError


class LograftError(Exception):
    """A request was refused or failed.

    `retriable`: the same request may succeed later. `outcome_unknown`: it may have been carried out anyway; if
    False, nothing was done. `message` names the cause and, where there is one, the remedy. For OFFSET_OUT_OF_RANGE,
    the existing offsets are [`valid_start`, `valid_end`).
    """

    code: ClassVar[str] = "INTERNAL"
    retriable: ClassVar[bool] = False
    outcome_unknown: bool = True

    def __init__(
        self,
        message: str,
        *,
        outcome_unknown: bool | None = None,
        leader_id: int | None = None,
        leader_address: str | None = None,
        leader_epoch: int | None = None,
        valid_start: int | None = None,
        valid_end: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if outcome_unknown is not None:
            self.outcome_unknown = outcome_unknown
        self.leader_id = leader_id
        self.leader_address = leader_address
        self.leader_epoch = leader_epoch
        self.valid_start = valid_start
        self.valid_end = valid_end

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


_CLASSES: dict[str, type[LograftError]] = {}


class ServerError(LograftError):
    """A refusal by a server: a subclass for each known code, this class for codes of later versions."""

    def __init_subclass__(cls) -> None:
        """Derive the code from the class name, and its meaning from the table of errors."""
        cls.code = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in cls.__name__)[1:]
        meaning = next(row for row in ERRORS.values() if row.name == cls.code)
        cls.retriable, cls.outcome_unknown = meaning.retriable, meaning.outcome_unknown
        cls.__doc__ = f"{meaning.meaning[0].upper()}{meaning.meaning[1:]}."
        _CLASSES[cls.code] = cls


# fmt: off
class Internal(ServerError): ...
class InvalidRequest(ServerError): ...
class TimedOut(ServerError): ...
class Unavailable(ServerError): ...
class StorageFailed(ServerError): ...
class DiskFull(ServerError): ...
class Loading(ServerError): ...
class NotController(ServerError): ...
class NotLeader(ServerError): ...
class LeaderNotAvailable(ServerError): ...
class FencedLeaderEpoch(ServerError): ...
class UnknownLeaderEpoch(ServerError): ...
class StaleBrokerEpoch(ServerError): ...
class UnknownTopic(ServerError): ...
class UnknownTopicId(ServerError): ...
class UnknownPartition(ServerError): ...
class TopicAlreadyExists(ServerError): ...
class InvalidTopic(ServerError): ...
class InvalidConfig(ServerError): ...
class OffsetOutOfRange(ServerError): ...
class OffsetNotAvailable(ServerError): ...
class LogTruncated(ServerError): ...
class NotEnoughReplicas(ServerError): ...
class NotEnoughReplicasAfterAppend(ServerError): ...
class CorruptBatch(ServerError): ...
class BatchTooLarge(ServerError): ...
class InvalidRecord(ServerError): ...
class InvalidTimestamp(ServerError): ...
class UnsupportedFormat(ServerError): ...
class UnknownProducerId(ServerError): ...
class OutOfOrderSequence(ServerError): ...
class DuplicateSequence(ServerError): ...
class InvalidProducerEpoch(ServerError): ...
class StalePartitionEpoch(ServerError): ...
class IneligibleReplica(ServerError): ...
class UnknownBroker(ServerError): ...
class DuplicateBroker(ServerError): ...
class WrongCluster(ServerError): ...
class UnsupportedFeatureLevel(ServerError): ...
class InvalidPartitions(ServerError): ...
class InvalidReplicas(ServerError): ...
class NotEnoughBrokers(ServerError): ...
class InvalidReassignment(ServerError): ...
class NoReassignment(ServerError): ...
class ElectionNotNeeded(ServerError): ...
class PreferredLeaderNotAvailable(ServerError): ...
class EligibleLeaderNotAvailable(ServerError): ...
class BrokerInUse(ServerError): ...
class ControllerMoved(ServerError): ...
class InvalidQuorumChange(ServerError): ...
class QuorumChangeNotNow(ServerError): ...
class NotCoordinator(ServerError): ...
class InvalidGroup(ServerError): ...
class GroupNotFound(ServerError): ...
class GroupNotEmpty(ServerError): ...
class GroupFull(ServerError): ...
class GroupSubscribedToTopic(ServerError): ...
class UnknownMember(ServerError): ...
class FencedMemberEpoch(ServerError): ...
class FencedInstanceId(ServerError): ...
class PartitionNotOwned(ServerError): ...
class UnknownAssignor(ServerError): ...
# fmt: on


# -- the client's own


class NoBrokerAvailable(LograftError):
    """No broker could be reached in time; nothing was done."""

    code = "NO_BROKER_AVAILABLE"
    retriable = True
    outcome_unknown = False


class ConnectionLost(LograftError):
    """The connection was lost before the answer arrived."""

    code = "CONNECTION_LOST"
    retriable = True


class BufferFull(LograftError):
    """The producer's buffer stayed full for `max_block_ms`, so the record was not accepted. When sending many records,
    the first ones may have been accepted: `taken` has their `Deliveries`."""

    code = "BUFFER_FULL"
    retriable = True
    outcome_unknown = False

    def __init__(self, message: str, *, taken: Any = None, outcome_unknown: bool | None = None) -> None:
        super().__init__(message, outcome_unknown=outcome_unknown)
        self.taken = taken


class DeliveryTimedOut(LograftError):
    """A record was not acknowledged within `delivery_timeout_ms`. `outcome_unknown` says whether it may be stored."""

    code = "DELIVERY_TIMED_OUT"
    retriable = True


class ClientClosed(LograftError):
    """The client is closed, or was never started; nothing was done."""

    code = "CLIENT_CLOSED"
    outcome_unknown = False


class InvalidArgument(LograftError, ValueError):
    """An argument is invalid: the message names it and the values it accepts."""

    code = "INVALID_ARGUMENT"
    outcome_unknown = False


class WakeupError(LograftError):
    """`wakeup` interrupted the call; nothing is wrong, and no record is lost."""

    code = "WAKEUP"
    retriable = True
    outcome_unknown = False


class NotAssigned(LograftError):
    """The partition is not assigned to the consumer: assign it first."""

    code = "NOT_ASSIGNED"
    outcome_unknown = False


class SerializationError(LograftError, ValueError):
    """A key or a value (`part`) could not be serialized; the record was not accepted."""

    code = "SERIALIZATION_ERROR"
    outcome_unknown = False

    def __init__(self, message: str, *, part: str = "value", outcome_unknown: bool | None = None) -> None:
        super().__init__(message, outcome_unknown=outcome_unknown)
        self.part = part


class DeserializationError(LograftError, ValueError):
    """A key or a value (`part`) of the record at `topic`, `partition`, `offset` cannot be deserialized: `seek` past it,
    or use another deserializer."""

    code = "DESERIALIZATION_ERROR"
    outcome_unknown = False

    def __init__(self, message: str, *, topic: str, partition: int, offset: int, part: str) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.part = part


class CommitFailed(LograftError):
    """The offsets were not committed: the partitions no longer belong to this consumer, so their new owners may have
    committed later ones. If `outcome_unknown`, an earlier attempt without an answer may have committed them.

    Call `poll` to get the consumer's new partitions. Their new owner reads records again that were read but not
    committed.
    """

    code = "COMMIT_FAILED"
    outcome_unknown = False


# -- from the wire


def error_of(detail: ErrorDetail) -> LograftError:
    """Return the exception for `detail`."""
    meaning = ERRORS.get(detail.code)
    of_class: type[LograftError] = ServerError
    message = detail.message
    if meaning is not None and meaning.name in _CLASSES:
        of_class = _CLASSES[meaning.name]
    else:
        message = f"error {detail.code}, unknown to this version: {message}"
    return of_class(
        message,
        leader_id=detail.leader_id if detail.HasField("leader_id") else None,
        leader_address=detail.leader_address if detail.HasField("leader_address") else None,
        leader_epoch=detail.leader_epoch if detail.HasField("leader_epoch") else None,
        valid_start=detail.valid_start if detail.HasField("valid_start") else None,
        valid_end=detail.valid_end if detail.HasField("valid_end") else None,
    )


def is_worth_retrying(error: BaseException) -> bool:
    """Return True for an error after which the same request may succeed later."""
    return isinstance(error, LograftError) and error.retriable


# The meaning of a status without an error detail: it comes from the network, or from a server that is not lograft.
_BY_STATUS: dict[Status, type[LograftError]] = {
    Status.INVALID_ARGUMENT: InvalidRequest,
    Status.UNIMPLEMENTED: InvalidRequest,
    Status.RESOURCE_EXHAUSTED: InvalidRequest,
    Status.DEADLINE_EXCEEDED: TimedOut,
    Status.INTERNAL: Internal,
}


def error_of_stream(error: StreamError, *, was_sent: bool = True) -> LograftError:
    """Return the exception for a call whose stream ended with `error`. `was_sent`: the request may have reached the
    server."""
    if error.detail:
        try:
            return error_of(ErrorDetail.FromString(error.detail))
        except DecodeError:
            pass
    of_class = _BY_STATUS.get(error.status)
    if of_class is not None:
        return of_class(str(error))
    return ConnectionLost(str(error)) if was_sent else Unavailable(str(error))
