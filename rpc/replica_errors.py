"""Why a replica refuses, or cannot say what became of a request: one class, the cause is its code. Pure."""

from lograft.proto.errors import ERRORS
from lograft.proto.errors_pb2 import ErrorCode


class ReplicaError(Exception):
    """`code` is a `lograft.v1.ErrorCode`; the message names cause and remedy. `leader_id` and `leader_epoch`: who leads
    the partition, as far as this broker knows. Unless `outcome_unknown`, nothing was changed and nothing will be."""

    def __init__(
        self, code: ErrorCode, message: str, *, leader_id: int | None = None, leader_epoch: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch

    @property
    def retriable(self) -> bool:
        return ERRORS[self.code].retriable

    @property
    def outcome_unknown(self) -> bool:
        return ERRORS[self.code].outcome_unknown
