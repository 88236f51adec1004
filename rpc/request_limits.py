"""Check the fields of untrusted requests: timeouts, item counts, UUIDs. Pure."""

from uuid import UUID

from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.tasks.deadline import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS

MAX_ITEMS = 10_000
_UUID_BYTES = 16


def check_timeout(timeout_ms: int) -> int:
    """Return how long the sender of a request waits, in milliseconds; 0 is the default."""
    if not 0 <= timeout_ms <= MAX_TIMEOUT_MS:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST,
            f"timeout_ms cannot be {timeout_ms}: give 1 to {MAX_TIMEOUT_MS}, or 0 for {DEFAULT_TIMEOUT_MS}",
        )
    return timeout_ms or DEFAULT_TIMEOUT_MS


def check_item_count(count: int, what: str) -> None:
    if count > MAX_ITEMS:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST,
            f"{count} {what} are too many for one request: ask for at most {MAX_ITEMS} at a time",
        )


def read_uuid(data: bytes, field: str) -> UUID:
    if len(data) != _UUID_BYTES:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST, f"{field} is a UUID of {_UUID_BYTES} bytes, not {len(data)} of them"
        )
    return UUID(bytes=data)
