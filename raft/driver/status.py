"""A node's view of itself, for people and metrics. Pure."""

from typing import assert_never

from lograft.raft.core import leader as leading
from lograft.raft.core.configuration import Member
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.roles import Candidate, Follower, Leader, PreCandidate
from lograft.raft.interfaces import RaftStatus


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
        silences_ms={
            member: core.now_ms - peer.contact_ms for member, peer in progress.items() if member != core.member
        },
        unreachable=_unreachable(core),
    )


def _unreachable(core: RaftCore) -> tuple[Member, ...]:
    role = core.role
    if not isinstance(role, Leader):
        return ()
    return tuple(member for member in role.progress if not leading.is_heard(core, role, member))


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
