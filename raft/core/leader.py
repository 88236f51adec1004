"""A leader's work: replicate, commit, prove that it still leads, hand over. Pure.

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
    """Begin to lead: with an entry of our own term, since only such can be committed by counting.

    The first voters are not in the log but in each founder's store. The first leader writes them down, for whoever was
    not there.
    """
    assert isinstance(core.role, Candidate)
    role = Leader(first_index=core.log.last_index + 1, heartbeat_due_ms=core.now_ms)
    core.role = role
    _track_members(core, role)
    _append(core, NewConfiguration(core.configuration) if core.configuration_index == 0 else NoOperation())


# -- the application's wishes


def propose(core: RaftCore, data: bytes) -> int | None:
    role = core.role
    assert len(data) <= core.limits.max_entry_bytes
    if not isinstance(role, Leader) or role.transfer is not None:
        return None
    return _append(core, Command(data))


def change_configuration(core: RaftCore, change: ConfigurationChange) -> int | None:
    """One change at a time, and only once this term has committed something: else majorities might not meet."""
    role = core.role
    if not isinstance(role, Leader) or role.transfer is not None:
        return None
    if core.configuration_index > core.log.commit_index or core.log.commit_index < role.first_index:
        return None
    new = changed(core.configuration, change)
    if isinstance(change, PromoteLearner) and not _is_caught_up(core, role, change.member):
        return None
    if not _hears_majority(core, role, new):
        return None  # it could not be committed, and until it is, nothing else can
    index = _append(core, NewConfiguration(new))
    _track_members(core, role)
    _answer_reads(core, role)  # fewer voters may have to be heard now, and those left may have nothing more to say
    return index


def _is_caught_up(core: RaftCore, role: Leader, member: Member) -> bool:
    """A voter that lags, or is away, would hold up commits as soon as another one fails."""
    return role.progress[member].match_index >= core.log.commit_index and is_heard(core, role, member)


def transfer(core: RaftCore, target: Member) -> bool:
    role = core.role
    if not isinstance(role, Leader) or target == core.member or target not in core.configuration.voters:
        return False
    role.transfer = Transfer(target, core.now_ms + core.timing.election_max_ms)
    _finish_transfer(core, role)
    return True


def _finish_transfer(core: RaftCore, role: Leader) -> None:
    """Once the target has everything, ask it to stand."""
    if role.transfer is not None and role.progress[role.transfer.target].match_index == core.log.last_index:
        core.send(role.transfer.target, TimeoutNow(core.member, core.term))


def _append(core: RaftCore, payload: Payload) -> int:
    index = core.log.last_index + 1
    core.append(Entry(index, core.term, payload))
    return index


def _track_members(core: RaftCore, role: Leader) -> None:
    """Keep progress of exactly the members there are."""
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
        # Others may have elected someone else long ago, and whoever still asks us would wait in vain.
        core.become_follower(core.term)
        return
    # Not put off by rounds in between, for reads: what is above must be looked at in time.
    role.heartbeat_due_ms = core.now_ms + until_beat_ms(core.now_ms, core.timing.heartbeat_ms)
    _begin_round(core, role)


def _hears_majority(core: RaftCore, role: Leader, configuration: Configuration) -> bool:
    return configuration.is_majority(lambda voter: is_heard(core, role, voter))


def is_heard(core: RaftCore, role: Leader, member: Member) -> bool:
    """Return whether it answered within an election timeout, or the leader has not listened for that long yet."""
    oldest_ms = core.now_ms - core.timing.election_max_ms
    return member == core.member or role.progress[member].contact_ms >= oldest_ms


def _begin_round(core: RaftCore, role: Leader) -> None:
    """Send heartbeats: they keep followers quiet, and their answers prove that we lead."""
    role.round += 1
    role.is_round_wanted = False
    for peer in core.peers:
        progress = role.progress[peer]
        # What the peer is not known to have cannot be committed there.
        commit_index = min(core.log.commit_index, progress.match_index)
        core.send_now(peer, Heartbeat(core.member, core.term, commit_index, role.round))
        progress.heartbeat_sent(role.round)


# -- replication


def flush(core: RaftCore, role: Leader) -> None:
    """Before a Ready: send what there is to send, all that came together in one message per peer."""
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
        # That something is committed waits until it is applied here: whoever proposed it may have more to say, and
        # then the news needs no message of its own.
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
                if core.role is role:  # it may have ended our office
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
    """Go on after the snapshot if it was delivered, else from where the peer was; in both cases not before the next
    heartbeat, by when its own answer may have come: a peer that is away is not worth a loop."""
    progress = core.role.progress.get(recipient) if isinstance(core.role, Leader) else None
    if progress is not None and isinstance(progress.state, ReceiveSnapshot):
        progress.probe_from(progress.state.index + 1 if is_delivered else progress.match_index + 1)
        progress.state = Probe(is_waiting=True)


# -- commitment


def acknowledge_own(core: RaftCore, role: Leader) -> None:
    """Our own disk counts like any other: when it has the entries, not before."""
    if core.member in role.progress:
        own = role.progress[core.member]
        own.match_index = core.log.stable_index
        own.next_index = core.log.stable_index + 1
    _commit(core, role)


def _commit(core: RaftCore, role: Leader) -> None:
    """Commit what a majority has, if it is of our term: older entries are committed with it, never by counting."""
    index = core.configuration.reached_by_majority(lambda voter: role.progress[voter].match_index)
    if index < role.first_index or not core.log.commit_to(index):
        return
    _serve_early_reads(core, role)
    if core.configuration_index <= core.log.commit_index and core.member not in core.configuration.members:
        _leave_office(core, role)


def _leave_office(core: RaftCore, role: Leader) -> None:
    """We led until our own removal was committed. Whoever has the most is asked to stand: why should all wait?"""
    heir = max(core.configuration.voters, key=lambda voter: role.progress[voter].match_index)
    core.send(heir, TimeoutNow(core.member, core.term))
    core.become_follower(core.term)


# -- reads (dissertation §6.4; never by lease)


def read_for(core: RaftCore, reader: Member, read_id: int) -> None:
    """A read may be answered as of the commit index now, once a majority has answered a heartbeat sent after now."""
    role = core.role
    if not isinstance(role, Leader):
        _answer_read(core, reader, read_id, None)
    elif core.log.commit_index < role.first_index:
        role.early_reads.append((reader, read_id))  # what is committed is not known yet
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
    """Leadership is lost: whoever waits must ask elsewhere."""
    waiting = [*role.early_reads, *((read.reader, read.read_id) for read in role.reads)]
    for reader, read_id in waiting:
        _answer_read(core, reader, read_id, None)
