"""Errors that carry a code of the public protocol. Pure."""

from lograft.proto.errors import ERRORS
from lograft.proto.errors_pb2 import ErrorCode


class CodedError(Exception):
    """Refuse a request, or report that it could not be finished.

    `code` is a `lograft.v1.ErrorCode`; the message names cause and remedy. Unless `outcome_unknown`, the request
    changed nothing and never will. `leader_id` names the leader, as far as this node knows.
    """

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


class ControllerError(CodedError):
    """The controller refuses a request, or could not finish it. `leader_id`: the active controller."""


class ReplicaError(CodedError):
    """A replica refuses a request, or cannot tell its outcome.

    `leader_id` and `leader_epoch` name the partition's leader, as far as this broker knows.
    """

    def __init__(
        self, code: ErrorCode, message: str, *, leader_id: int | None = None, leader_epoch: int | None = None
    ) -> None:
        super().__init__(code, message, leader_id=leader_id)
        self.leader_epoch = leader_epoch
