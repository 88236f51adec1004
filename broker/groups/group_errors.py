"""Why a group does not do what it is asked. Pure."""

from lograft.rpc.coded_error import ReplicaError


class GroupError(ReplicaError):
    """`code` is one of `lograft.v1.ErrorCode`. Nothing was done."""
