"""A node's view of itself, for people and metrics. Pure."""

from typing import assert_never

from lograft.raft.core import RaftCore
from lograft.raft.ports import RaftStatus
from lograft.raft.roles import Candidate, Follower, Leader, PreCandidate


def status_of(core: RaftCore, applied_index: int) -> RaftStatus:
    role = core.role
    progress = role.progress if isinstance(role, Leader) else {}
    return RaftStatus(
        member=core.member,
        role=_role_name(core),
        term=core.term,
        leader=core.leader,
        commit_index=core.log.commit_index,
        applied_index=applied_index,
        last_index=core.log.last_index,
        snapshot_index=core.log.snapshot.index,
        configuration=core.configuration,
        match_indexes={member: peer.match_index for member, peer in progress.items()},
    )


def _role_name(core: RaftCore) -> str:
    match core.role:
        case Leader():
            return "leader"
        case Candidate():
            return "candidate"
        case PreCandidate():
            return "pre-candidate"
        case Follower():
            return "follower" if core.is_voter else "learner"
        case _:
            assert_never(core.role)
