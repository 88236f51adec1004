"""What fields of requests hold, read with care: anyone may have sent them. Pure."""

from uuid import UUID

from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

_UUID_BYTES = 16


def read_uuid(data: bytes, field: str) -> UUID:
    if len(data) != _UUID_BYTES:
        raise ControllerError(
            errors_pb2.INVALID_REQUEST, f"{field} is a UUID of {_UUID_BYTES} bytes, not {len(data)} of them"
        )
    return UUID(bytes=data)
