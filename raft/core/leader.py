"""The leader: replicate, commit, prove leadership, hand it over. Pure.

Raft §5.3, §5.4.2; dissertation §3.10, §4, §6.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lograft.raft.core.configuration import Configuration, ConfigurationChange, Member, PromoteLearner, changed
from lograft.raft.core.entries import Command, Entry, NewConfiguration, NoOperation, Payload
from lograft.raft.core.messages import (
    AppendRefusal,
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    ReadIndexResponse,
    TimeoutNow,
)
from lograft.raft.core.peer_progress import PeerProgress, Probe, ReceiveSnapshot
from lograft.raft.core.roles import Candidate, Leader, PendingRead, Transfer
from lograft.runtime.clock import until_beat_ms

if TYPE_CHECKING:
    from lograft.raft.core.raft_core import RaftCore


def take_office(core: RaftCore) -> None:
    """Become leader, and append an entry of the new term: only such an entry can be committed by counting.

    The first voters are in each founder's store, not in the log. The first leader appends them, for members that join
    later.
    """
    assert isinstance(core.role, Candidate)
    role = Leader(first_index=core.log.last_index + 1, heartbeat_due_ms=core.now_ms)
    core.role = role
    _track_members(core, role)
    _append(core, NewConfiguration(core.configuration) if core.configuration_index == 0 else NoOperation())


# -- requests of the application


def propose(core: RaftCore, data: bytes) -> int | None:
    role = core.role
    assert len(data) <= core.limits.max_entry_bytes
    if not isinstance(role, Leader) or role.transfer is not None:
        return None
    return _append(core, Command(data))


def change_configuration(core: RaftCore, change: ConfigurationChange) -> int | None:
    """Append a configuration change. Allow one at a time, and only after a commit in this term: else majorities might
    not intersect."""
    role = core.role
    if not isinstance(role, Leader) or role.transfer is not None:
        return None
    if core.configuration_index > core.log.commit_index or core.log.commit_index < role.first_index:
        return None
    new = changed(core.configuration, change)
    if isinstance(change, PromoteLearner) and not _is_caught_up(core, role, change.member):
        return None
    if not _hears_majority(core, role, new):
        return None  # it could never be committed, and would block all later entries
    index = _append(core, NewConfiguration(new))
    _track_members(core, role)
    _answer_reads(core, role)  # the new majority may have answered already
    return index


def _is_caught_up(core: RaftCore, role: Leader, member: Member) -> bool:
    """Return True if the learner is close enough to vote: a voter that lags would delay commits as soon as another one
    fails."""
    return role.progress[member].match_index >= core.log.commit_index and is_heard(core, role, member)


def transfer(core: RaftCore, target: Member) -> bool:
    role = core.role
    if not isinstance(role, Leader) or target == core.member or target not in core.configuration.voters:
        return False
    role.transfer = Transfer(target, core.now_ms + core.timing.election_max_ms)
    _finish_transfer(core, role)
    return True


def _finish_transfer(core: RaftCore, role: Leader) -> None:
    """Ask the target to stand once it has the whole log."""
    if role.transfer is not None and role.progress[role.transfer.target].match_index == core.log.last_index:
        core.send(role.transfer.target, TimeoutNow(core.member, core.term))


def _append(core: RaftCore, payload: Payload) -> int:
    index = core.log.last_index + 1
    core.append(Entry(index, core.term, payload))
    return index


def _track_members(core: RaftCore, role: Leader) -> None:
    """Track progress of exactly the current members."""
    known = role.progress
    role.progress = {
        member: known.get(member) or PeerProgress(core.log.last_index + 1, contact_ms=core.now_ms)
        for member in core.configuration.members
    }


# -- time


def tick(core: RaftCore, role: Leader) -> None:
    if core.now_ms < role.heartbeat_due_ms:
        return
    if role.transfer is not None and core.now_ms >= role.transfer.deadline_ms:
        role.transfer = None
    if not _hears_majority(core, role, core.configuration):
        # The others may have elected another leader long ago; requests to this node would wait in vain.
        core.become_follower(core.term)
        return
    # Rounds for reads do not postpone this deadline: check-quorum must run in time.
    role.heartbeat_due_ms = core.now_ms + until_beat_ms(core.now_ms, core.timing.heartbeat_ms)
    _begin_round(core, role)


def _hears_majority(core: RaftCore, role: Leader, configuration: Configuration) -> bool:
    return configuration.is_majority(lambda voter: is_heard(core, role, voter))


def is_heard(core: RaftCore, role: Leader, member: Member) -> bool:
    """Return True if the member answered within an election timeout, or the leader has not listened that long yet."""
    oldest_ms = core.now_ms - core.timing.election_max_ms
    return member == core.member or role.progress[member].contact_ms >= oldest_ms


def _begin_round(core: RaftCore, role: Leader) -> None:
    """Send heartbeats. They keep followers from standing, and the answers prove leadership."""
    role.round += 1
    role.is_round_wanted = False
    for peer in core.peers:
        progress = role.progress[peer]
        # A peer cannot commit what it is not known to have.
        commit_index = min(core.log.commit_index, progress.match_index)
        core.send_now(peer, Heartbeat(core.member, core.term, commit_index, role.round))
        progress.heartbeat_sent(role.round)


# -- replication


def flush(core: RaftCore, role: Leader) -> None:
    """Send pending entries before a Ready, in one message per peer."""
    if role.is_round_wanted:
        _begin_round(core, role)
    for peer in core.peers:
        _send_entries(core, role.progress[peer], peer)


def _send_entries(core: RaftCore, progress: PeerProgress, peer: Member) -> None:
    limits, log = core.limits, core.log
    while not progress.is_paused(limits.max_in_flight, limits.max_in_flight_bytes):
        if log.term_at(progress.next_index - 1) is None:
            progress.state = ReceiveSnapshot(log.snapshot.index)
            core.send_snapshot(peer)
            return
        entries = log.between(progress.next_index - 1, log.last_index, limits.max_append_bytes)
        is_probe = isinstance(progress.state, Probe)
        # Announce a commit only after this node has applied it: its proposer may append more, and then the announcement
        # needs no message of its own.
        is_news = progress.sent_commit_index < log.commit_index and log.applied_index == log.commit_index
        if not entries and not is_probe and not is_news:
            return
        _request(core, progress, peer, entries)
        if not entries:
            return


def _request(core: RaftCore, progress: PeerProgress, peer: Member, entries: tuple[Entry, ...]) -> None:
    previous_index = progress.next_index - 1
    previous_term = core.log.term_at(previous_index)
    assert previous_term is not None
    commit_index = core.log.commit_index
    core.send_now(peer, AppendRequest(core.member, core.term, previous_index, previous_term, entries, commit_index))
    progress.sent(previous_index + len(entries), sum(entry.size_bytes for entry in entries), commit_index)


def hear_follower(core: RaftCore, message: AppendResponse | AppendRefusal | HeartbeatResponse) -> None:
    role = core.role
    if not isinstance(role, Leader) or message.term < core.term or message.sender not in role.progress:
        return
    progress = role.progress[message.sender]
    progress.contact_ms = core.now_ms
    match message:
        case AppendResponse():
            if progress.acknowledge(message.match_index):
                _commit(core, role)
                if core.role is role:  # applying may have ended this leadership
                    _finish_transfer_to(core, role, message.sender)
        case AppendRefusal():
            _find_agreement(core, progress, message)
        case HeartbeatResponse():
            progress.heartbeat_answered(message.round)
            _answer_reads(core, role)


def _finish_transfer_to(core: RaftCore, role: Leader, member: Member) -> None:
    if role.transfer is not None and role.transfer.target == member:
        _finish_transfer(core, role)


def _find_agreement(core: RaftCore, progress: PeerProgress, refusal: AppendRefusal) -> None:
    is_stale = refusal.previous_index <= progress.match_index
    if isinstance(progress.state, Probe):
        is_stale = is_stale or refusal.previous_index != progress.next_index - 1
    if is_stale or isinstance(progress.state, ReceiveSnapshot):
        return
    agreed_index, _ = core.log.find_agreement(refusal.hint_index, refusal.hint_term)
    progress.probe_from(min(refusal.previous_index, agreed_index + 1))


def snapshot_reported(core: RaftCore, recipient: Member, is_delivered: bool) -> None:
    """Continue after the snapshot if it was delivered, else from the peer's previous position. Wait for the next
    heartbeat in both cases, by which time the peer's own answer may have arrived: do not loop over an unreachable
    peer."""
    progress = core.role.progress.get(recipient) if isinstance(core.role, Leader) else None
    if progress is not None and isinstance(progress.state, ReceiveSnapshot):
        progress.probe_from(progress.state.index + 1 if is_delivered else progress.match_index + 1)
        progress.state = Probe(is_waiting=True)


# -- commitment


def acknowledge_own(core: RaftCore, role: Leader) -> None:
    """Count this node's own disk like any other: only once it holds the entries."""
    if core.member in role.progress:
        own = role.progress[core.member]
        own.match_index = core.log.stable_index
        own.next_index = core.log.stable_index + 1
    _commit(core, role)


def _commit(core: RaftCore, role: Leader) -> None:
    """Commit what a majority has, if it is of this term; entries of older terms are committed with it, never by
    counting."""
    index = core.configuration.reached_by_majority(lambda voter: role.progress[voter].match_index)
    if index < role.first_index or not core.log.commit_to(index):
        return
    _serve_early_reads(core, role)
    if core.configuration_index <= core.log.commit_index and core.member not in core.configuration.members:
        _leave_office(core, role)


def _leave_office(core: RaftCore, role: Leader) -> None:
    """Step down: this node's own removal is committed. Ask the most advanced voter to stand, so that nobody waits for a
    timeout."""
    heir = max(core.configuration.voters, key=lambda voter: role.progress[voter].match_index)
    core.send(heir, TimeoutNow(core.member, core.term))
    core.become_follower(core.term)


# -- reads (dissertation §6.4; never by lease)


def read_for(core: RaftCore, reader: Member, read_id: int) -> None:
    """Queue a read at the present commit index, to be answered once a majority answers a heartbeat sent from now on."""
    role = core.role
    if not isinstance(role, Leader):
        _answer_read(core, reader, read_id, None)
    elif core.log.commit_index < role.first_index:
        role.early_reads.append((reader, read_id))  # the commit index is not known yet
    else:
        role.reads.append(PendingRead(reader, read_id, core.log.commit_index, role.round + 1))
        role.is_round_wanted = True
        _answer_reads(core, role)


def _serve_early_reads(core: RaftCore, role: Leader) -> None:
    early, role.early_reads = role.early_reads, []
    for reader, read_id in early:
        read_for(core, reader, read_id)


def _answer_reads(core: RaftCore, role: Leader) -> None:
    proven = core.configuration.reached_by_majority(
        lambda voter: role.round + 1 if voter == core.member else role.progress[voter].acknowledged_round
    )
    answered = [read for read in role.reads if read.round <= proven]
    role.reads = role.reads[len(answered) :]  # rounds never fall from one read to the next
    for read in answered:
        _answer_read(core, read.reader, read.read_id, read.index)


def _answer_read(core: RaftCore, reader: Member, read_id: int, index: int | None) -> None:
    if reader == core.member:
        core.answer_read(read_id, index)
    else:
        core.send(reader, ReadIndexResponse(core.member, core.term, read_id, index))


def refuse_reads(core: RaftCore, role: Leader) -> None:
    """Fail pending reads: leadership is lost, so the readers must ask the new leader."""
    waiting = [*role.early_reads, *((read.reader, read.read_id) for read in role.reads)]
    for reader, read_id in waiting:
        _answer_read(core, reader, read_id, None)
