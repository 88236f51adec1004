"""A follower's answers to its leader (Raft §5.3, §7). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lograft.raft.core import election
from lograft.raft.core.messages import (
    AppendRefusal,
    AppendRequest,
    AppendResponse,
    FromLeader,
    Heartbeat,
    HeartbeatResponse,
    InstallSnapshot,
    TimeoutNow,
)
from lograft.raft.core.roles import Follower

if TYPE_CHECKING:
    from lograft.raft.core.raft_core import RaftCore


def hear_leader(core: RaftCore, message: FromLeader) -> None:
    """Handle a leader's message. Answer a leader of an older term with this node's term, so that it steps down."""
    if message.term < core.term:
        core.send(message.sender, AppendResponse(core.member, core.term, match_index=0))
        return
    assert core.leader in (None, message.sender), f"two leaders in term {core.term}: {core.leader} and {message.sender}"
    _follow(core, message)
    match message:
        case AppendRequest():
            _append(core, message)
        case Heartbeat():
            core.log.commit_to(min(message.commit_index, core.log.last_index))
            core.send(message.sender, HeartbeatResponse(core.member, core.term, message.round))
        case InstallSnapshot():
            _install(core, message)
        case TimeoutNow():
            if core.is_voter:
                election.stand(core, is_transfer=True)


def _follow(core: RaftCore, message: FromLeader) -> None:
    """Postpone the next election. Every message of the leader does, whether this node can comply or not."""
    if isinstance(core.role, Follower) and core.role.leader == message.sender:
        core.role.contact_ms = core.now_ms
        core.reset_election_timer()
    else:
        core.become_follower(core.term, message.sender)
    core.quick_elections_left = 0


def _append(core: RaftCore, request: AppendRequest) -> None:
    log = core.log
    if request.previous_index < log.commit_index:
        # Everything up to our commit index agrees with every future leader.
        core.send(request.sender, AppendResponse(core.member, core.term, log.commit_index))
        return
    if not log.matches(request.previous_index, request.previous_term):
        hint_index, hint_term = log.find_agreement(request.previous_index, request.previous_term)
        refusal = AppendRefusal(core.member, core.term, request.previous_index, hint_index, hint_term)
        core.send(request.sender, refusal)
        return
    core.merge(request.entries)
    last_new_index = request.previous_index + len(request.entries)
    log.commit_to(min(request.commit_index, last_new_index))
    core.send(request.sender, AppendResponse(core.member, core.term, last_new_index))


def _install(core: RaftCore, message: InstallSnapshot) -> None:
    """Install the snapshot, unless this node's log already contains everything in it."""
    metadata = message.metadata
    if metadata.index > core.log.commit_index:
        if core.log.matches(metadata.index, metadata.term):
            core.log.commit_to(metadata.index)  # the entries are here, and now known to be committed
        else:
            core.restore(message)
    core.send(message.sender, AppendResponse(core.member, core.term, core.log.commit_index))
