"""Why the controller refuses: one class, the cause is its code. Pure."""

from lograft.proto.errors import ERRORS
from lograft.proto.errors_pb2 import ErrorCode


class ControllerError(Exception):
    """A request is refused, or could not be finished. `code` is a `lograft.v1.ErrorCode`; the message names cause and
    remedy. Unless `outcome_unknown`, nothing was changed and nothing will be."""

    def __init__(self, code: ErrorCode, message: str, *, leader_id: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.leader_id = leader_id

    @property
    def retriable(self) -> bool:
        return ERRORS[self.code].retriable

    @property
    def outcome_unknown(self) -> bool:
        return ERRORS[self.code].outcome_unknown
