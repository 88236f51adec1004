"""The controller's errors on the wire: a stream's status with an `ErrorDetail`. Pure."""

from google.protobuf.message import DecodeError

from lograft.proto import errors_pb2
from lograft.proto.errors import ERRORS, error_detail
from lograft.proto.errors_pb2 import ErrorCode, ErrorDetail
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.network import Status, StreamError

# Trailers travel as HTTP/2 headers, which are limited to a few KiB. A message may quote much of the request.
MAX_MESSAGE_BYTES = 1024

# The meaning of a status without a detail, from the network or from a server without that method.
_CODES: dict[Status, ErrorCode] = {
    Status.INVALID_ARGUMENT: errors_pb2.INVALID_REQUEST,
    Status.UNIMPLEMENTED: errors_pb2.INVALID_REQUEST,
    Status.RESOURCE_EXHAUSTED: errors_pb2.INVALID_REQUEST,
    Status.DEADLINE_EXCEEDED: errors_pb2.TIMED_OUT,
    Status.INTERNAL: errors_pb2.INTERNAL,
}


def detail_of(error: ControllerError, *, leader_address: str | None = None) -> ErrorDetail:
    """Return the detail for one item of an answer."""
    message = error.message.encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
    return error_detail(error.code, message, leader_id=error.leader_id, leader_address=leader_address)


def error_of(detail: ErrorDetail) -> ControllerError:
    """Return the error in `detail`. A code of a later version becomes INTERNAL, because its meaning is unknown."""
    leader_id = detail.leader_id if detail.HasField("leader_id") else None
    if detail.code not in ERRORS or detail.code == errors_pb2.NONE:
        return ControllerError(errors_pb2.INTERNAL, f"error {detail.code}, unknown here: {detail.message}")
    return ControllerError(detail.code, detail.message, leader_id=leader_id)


def to_stream_error(error: ControllerError, *, leader_address: str | None = None) -> StreamError:
    """Return the StreamError with which a handler reports `error`."""
    detail = detail_of(error, leader_address=leader_address)
    return StreamError(Status[ERRORS[error.code].grpc_status], detail.message, detail.SerializeToString())


def to_controller_error(error: StreamError) -> ControllerError:
    """Return why a request failed whose stream ended with `error`.

    Without a detail, and unless the status alone says that nothing was done, the outcome is unknown: CONTROLLER_MOVED.
    """
    detail = read_detail(error)
    if detail is not None:
        return error_of(detail)
    code = _CODES.get(error.status, errors_pb2.CONTROLLER_MOVED)
    if code == errors_pb2.CONTROLLER_MOVED:
        return unknown_outcome(f"the request was lost on its way or back ({error})")
    return ControllerError(code, str(error))


def unknown_outcome(cause: str) -> ControllerError:
    return ControllerError(
        errors_pb2.CONTROLLER_MOVED, f"{cause}: it is not known whether it was carried out; look before you repeat it"
    )


def read_detail(error: StreamError) -> ErrorDetail | None:
    """Return the detail; None if it is missing or malformed."""
    if not error.detail:
        return None
    try:
        return ErrorDetail.FromString(error.detail)
    except DecodeError:
        return None
