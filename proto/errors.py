"""The meaning of each error code: the one table that servers, clients and documents follow. Pure."""

from dataclasses import dataclass

from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorCode, ErrorDetail


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """One row of the table.

    `retriable`: the same request may succeed later, perhaps on another node. `outcome_unknown`: the request may have
    been carried out, so a retry must be recognisable (the same sequence, the same id). `grpc_status` is the status of a
    call that fails with it.
    """

    name: str
    retriable: bool
    outcome_unknown: bool
    grpc_status: str
    meaning: str


_YES, _NO = True, False
_ROWS: tuple[tuple[str, bool, bool, str, str], ...] = (
    # name, retriable, outcome unknown, gRPC status, meaning
    ("NONE", _NO, _NO, "OK", "no error"),
    ("INTERNAL", _NO, _YES, "INTERNAL", "a bug in the server, which stops itself"),
    ("INVALID_REQUEST", _NO, _NO, "INVALID_ARGUMENT", "the request makes no sense; nothing was done"),
    ("TIMED_OUT", _YES, _YES, "DEADLINE_EXCEEDED", "the request's time was over before its outcome was known"),
    ("UNAVAILABLE", _YES, _NO, "UNAVAILABLE", "the node is starting, stopping or not connected; nothing was done"),
    ("STORAGE_FAILED", _YES, _YES, "UNAVAILABLE", "the replica's disk failed; another replica takes over"),
    ("DISK_FULL", _NO, _NO, "RESOURCE_EXHAUSTED", "a disk has only its reserve left; nothing was stored"),
    ("LOADING", _YES, _NO, "UNAVAILABLE", "the coordinator is still reading its state"),
    ("NOT_CONTROLLER", _YES, _NO, "UNAVAILABLE", "another node is the active controller"),
    ("NOT_LEADER", _YES, _YES, "UNAVAILABLE", "another node leads the partition, or leadership was lost meanwhile"),
    ("LEADER_NOT_AVAILABLE", _YES, _NO, "UNAVAILABLE", "the partition has no leader at the moment, or hands over"),
    ("FENCED_LEADER_EPOCH", _YES, _NO, "FAILED_PRECONDITION", "the request's leader epoch is old: ask for the leader"),
    ("UNKNOWN_LEADER_EPOCH", _YES, _NO, "UNAVAILABLE", "the request's leader epoch is newer than this node knows"),
    ("STALE_BROKER_EPOCH", _NO, _NO, "FAILED_PRECONDITION", "a newer process of the same broker has registered"),
    ("UNKNOWN_TOPIC", _NO, _NO, "NOT_FOUND", "there is no topic of that name"),
    ("UNKNOWN_TOPIC_ID", _YES, _NO, "NOT_FOUND", "the topic of that id is deleted, or not known here yet"),
    ("UNKNOWN_PARTITION", _NO, _NO, "NOT_FOUND", "the topic has no such partition"),
    ("TOPIC_ALREADY_EXISTS", _NO, _NO, "ALREADY_EXISTS", "there is another topic of that name"),
    ("INVALID_TOPIC", _NO, _NO, "INVALID_ARGUMENT", "the name, partitions or replicas of the topic are not acceptable"),
    ("INVALID_CONFIG", _NO, _NO, "INVALID_ARGUMENT", "a configuration key is unknown, or its value not acceptable"),
    ("OFFSET_OUT_OF_RANGE", _NO, _NO, "OUT_OF_RANGE", "the offset is before the log's start or after its end"),
    ("OFFSET_NOT_AVAILABLE", _YES, _NO, "UNAVAILABLE", "a new leader does not know yet how far the log is committed"),
    ("LOG_TRUNCATED", _NO, _NO, "DATA_LOSS", "the record before the offset is no longer in the log"),
    ("NOT_ENOUGH_REPLICAS", _YES, _NO, "UNAVAILABLE", "too few replicas are in sync; nothing was appended"),
    ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", _YES, _YES, "UNAVAILABLE", "appended, but too few replicas are in sync"),
    ("CORRUPT_BATCH", _NO, _NO, "DATA_LOSS", "the batch is not what its CRC was computed over, or malformed"),
    ("BATCH_TOO_LARGE", _NO, _NO, "INVALID_ARGUMENT", "the batch is over max.message.bytes"),
    ("INVALID_RECORD", _NO, _NO, "INVALID_ARGUMENT", "a record the topic does not take, such as no key when compacted"),
    ("INVALID_TIMESTAMP", _NO, _NO, "INVALID_ARGUMENT", "a timestamp too far ahead of the broker's clock"),
    ("UNSUPPORTED_FORMAT", _NO, _NO, "INVALID_ARGUMENT", "a batch layout or compression this broker does not know"),
    ("UNKNOWN_PRODUCER_ID", _NO, _NO, "FAILED_PRECONDITION", "the producer's state has expired: begin a new epoch"),
    ("OUT_OF_ORDER_SEQUENCE", _NO, _NO, "FAILED_PRECONDITION", "a batch before this one is missing"),
    ("DUPLICATE_SEQUENCE", _NO, _NO, "ALREADY_EXISTS", "stored already, too long ago for its offset to be known"),
    ("INVALID_PRODUCER_EPOCH", _NO, _NO, "FAILED_PRECONDITION", "a newer producer has taken over this producer id"),
    ("STALE_PARTITION_EPOCH", _NO, _NO, "FAILED_PRECONDITION", "the partition has changed since: look again"),
    ("INELIGIBLE_REPLICA", _NO, _NO, "FAILED_PRECONDITION", "a broker named for the ISR may not be in it now"),
    ("UNKNOWN_BROKER", _NO, _NO, "NOT_FOUND", "no broker of that id is registered"),
    ("DUPLICATE_BROKER", _YES, _NO, "ALREADY_EXISTS", "another live process has this broker id"),
    ("WRONG_CLUSTER", _NO, _NO, "FAILED_PRECONDITION", "the node belongs to another cluster: its cluster id differs"),
    ("UNSUPPORTED_FEATURE_LEVEL", _NO, _NO, "FAILED_PRECONDITION", "the node does not know the feature level in force"),
    ("INVALID_PARTITIONS", _NO, _NO, "INVALID_ARGUMENT", "the number of partitions is not acceptable"),
    ("INVALID_REPLICAS", _NO, _NO, "INVALID_ARGUMENT", "the replication factor or assignment is not acceptable"),
    ("NOT_ENOUGH_BROKERS", _YES, _NO, "UNAVAILABLE", "fewer brokers are live than the replication factor asks for"),
    ("INVALID_REASSIGNMENT", _NO, _NO, "INVALID_ARGUMENT", "the replicas to move to are not acceptable"),
    ("NO_REASSIGNMENT", _NO, _NO, "NOT_FOUND", "no reassignment of the partition is under way"),
    ("ELECTION_NOT_NEEDED", _NO, _NO, "FAILED_PRECONDITION", "the partition has that leader already"),
    ("PREFERRED_LEADER_NOT_AVAILABLE", _YES, _NO, "UNAVAILABLE", "the preferred leader is not live or not in sync"),
    ("ELIGIBLE_LEADER_NOT_AVAILABLE", _YES, _NO, "UNAVAILABLE", "no live replica may lead the partition"),
    ("BROKER_IN_USE", _NO, _NO, "FAILED_PRECONDITION", "the broker is live or has replicas: drain and stop it first"),
    ("CONTROLLER_MOVED", _YES, _YES, "UNAVAILABLE", "the controller moved before the outcome was known"),
    ("INVALID_QUORUM_CHANGE", _NO, _NO, "INVALID_ARGUMENT", "the change of the quorum's members is not acceptable"),
    ("QUORUM_CHANGE_NOT_NOW", _YES, _NO, "UNAVAILABLE", "another change is under way, or the quorum is not ready"),
    ("NOT_COORDINATOR", _YES, _NO, "UNAVAILABLE", "another broker coordinates the group"),
    ("INVALID_GROUP", _NO, _NO, "INVALID_ARGUMENT", "the group's name, or what its member says, is not acceptable"),
    ("GROUP_NOT_FOUND", _NO, _NO, "NOT_FOUND", "there is no group of that name"),
    ("GROUP_NOT_EMPTY", _NO, _NO, "FAILED_PRECONDITION", "the group has members: stop them first"),
    ("GROUP_FULL", _NO, _NO, "FAILED_PRECONDITION", "the group has as many members as it may have"),
    ("GROUP_SUBSCRIBED_TO_TOPIC", _NO, _NO, "FAILED_PRECONDITION", "members of the group read the topic"),
    ("UNKNOWN_MEMBER", _NO, _NO, "FAILED_PRECONDITION", "the group has no such member, or no longer: join again"),
    ("FENCED_MEMBER_EPOCH", _NO, _NO, "FAILED_PRECONDITION", "the member's epoch is not that of the group: join again"),
    ("FENCED_INSTANCE_ID", _NO, _NO, "FAILED_PRECONDITION", "another member has joined with the same instance id"),
    ("PARTITION_NOT_OWNED", _NO, _NO, "FAILED_PRECONDITION", "the partition is not the member's, or no longer"),
    ("UNKNOWN_ASSIGNOR", _NO, _NO, "INVALID_ARGUMENT", "there is no assignor of that name"),
)

ERRORS: dict[int, ErrorMeaning] = {getattr(errors_pb2, row[0]): ErrorMeaning(*row) for row in _ROWS}
"""The meaning of every code."""


def error_detail(
    code: ErrorCode | int,
    message: str,
    *,
    leader_id: int | None = None,
    leader_address: str | None = None,
    leader_epoch: int | None = None,
    valid_start: int | None = None,
    valid_end: int | None = None,
) -> ErrorDetail:
    """Return an ErrorDetail, with `retriable` from the table."""
    return ErrorDetail(
        code=errors_pb2.ErrorCode.Name(code),
        message=message,
        retriable=ERRORS[code].retriable,
        leader_id=leader_id,
        leader_address=leader_address,
        leader_epoch=leader_epoch,
        valid_start=valid_start,
        valid_end=valid_end,
    )
