"""The Raft core: one node's state and decisions. No IO, no clock but `now_ms`, no randomness but the injected `Rng`.

    core.step(message, now_ms)      a message arrived
    core.tick(now_ms)               time passed; call at `core.deadline_ms` at the latest
    core.propose(data)              the application appends a command
    core.ready() -> Ready           effects to carry out; then core.advance(ready)

The papers: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (§5, §6, §7), and Ongaro's
dissertation (§3.10 transfer, §4 membership, §6.4 reads, §9.6 pre-vote). Elections are in `election.py`, the follower's
part in `follower.py`, the leader's in `leader.py`. Pure.
"""

from dataclasses import dataclass
from typing import assert_never

from lograft.raft.core import election
from lograft.raft.core import follower as following
from lograft.raft.core import leader as leading
from lograft.raft.core.configuration import Configuration, ConfigurationChange, Member
from lograft.raft.core.entries import Entry, HardState, SnapshotMetadata
from lograft.raft.core.messages import (
    AppendRefusal,
    AppendRequest,
    AppendResponse,
    Envelope,
    Heartbeat,
    HeartbeatResponse,
    InstallSnapshot,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from lograft.raft.core.raft_log import ConfigurationHistory, RaftLog
from lograft.raft.core.ready import ReadAnswer, Ready, SnapshotToSend
from lograft.raft.core.roles import Follower, Leader, Role
from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class RaftTiming:
    """Milliseconds."""

    heartbeat_ms: int = 150
    election_min_ms: int = 500
    election_max_ms: int = 1000
    # After the connection to the leader broke, stand soon, but not all nodes at once, and only a few times.
    quick_election_min_ms: int = 10
    quick_election_max_ms: int = 150
    quick_elections: int = 3


@dataclass(frozen=True, slots=True)
class RaftLimits:
    """Bounds on what may be in flight."""

    max_entry_bytes: int = 8 * 1024 * 1024
    max_append_bytes: int = 1024 * 1024
    max_in_flight: int = 64
    max_in_flight_bytes: int = 16 * 1024 * 1024
    max_applied_bytes: int = 4 * 1024 * 1024


class RaftCore:
    """One node's consensus state.

    Invariants: `term` never falls; `vote` changes only with the term, or from None; a node leads only in a term it
    was elected in; `configuration` is the latest in the log, committed or not.
    """

    def __init__(
        self,
        member: Member,
        hard_state: HardState,
        log: RaftLog,
        rng: Rng,
        now_ms: int,
        timing: RaftTiming | None = None,
        limits: RaftLimits | None = None,
    ) -> None:
        self.member = member
        self.timing = timing or RaftTiming()
        self.limits = limits or RaftLimits()
        self.rng = rng
        self.now_ms = now_ms
        self.log = log
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.log.commit_to(min(hard_state.commit_index, log.last_index))
        self.role: Role = Follower()
        self.election_due_ms = 0
        self.quick_elections_left = 0
        self._configurations = ConfigurationHistory(log)
        self._saved = self._hard_state()
        self._received_snapshot: InstallSnapshot | None = None
        self._outbox_now: list[Envelope] = []
        self._outbox: list[Envelope] = []
        self._snapshots_to_send: list[SnapshotToSend] = []
        self._reads: list[ReadAnswer] = []
        self.reset_election_timer()

    # -- state

    @property
    def configuration(self) -> Configuration:
        return self._configurations.latest

    @property
    def configuration_index(self) -> int:
        """The log index of the configuration in force."""
        return self._configurations.latest_index

    @property
    def is_voter(self) -> bool:
        return self.member in self.configuration.voters

    @property
    def may_stand(self) -> bool:
        """True for a voter, and for a removed voter until its removal is committed, which may need its candidacy
        (dissertation §4.2.2)."""
        if self.configuration_index <= self.log.commit_index:
            return self.is_voter
        return self._configurations.is_lately_voter(self.member)

    @property
    def is_initialised(self) -> bool:
        """An empty store never votes: it cannot know what it once promised."""
        return bool(self.configuration.voters)

    @property
    def leader(self) -> Member | None:
        """The leader, as far as this node knows."""
        match self.role:
            case Leader():
                return self.member
            case Follower(leader=leader):
                return leader
            case _:
                return None

    @property
    def peers(self) -> list[Member]:
        return [member for member in self.configuration.members if member != self.member]

    @property
    def deadline_ms(self) -> int:
        """The latest time at which `tick` must run."""
        if isinstance(self.role, Leader):
            return self.role.heartbeat_due_ms
        return self.election_due_ms

    # -- what happens

    def step(self, message: Message, now_ms: int) -> None:
        """Handle a message from another node."""
        self._move_time(now_ms)
        match message:
            case PreVoteRequest():
                election.answer_pre_vote(self, message)
            case VoteRequest() if election.protects_leader(self, message):
                pass  # a node that lost touch: its term must not depose a leader that others follow
            case PreVoteResponse(is_granted=True):
                election.count_pre_vote(self, message)
            case _:
                if message.term > self.term:
                    self.become_follower(message.term)
                self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        """Handle a message whose term is at most this node's."""
        match message:
            case VoteRequest():
                election.answer_vote(self, message)
            case VoteResponse():
                election.count_vote(self, message)
            case PreVoteResponse():
                election.count_pre_vote(self, message)
            case AppendRequest() | Heartbeat() | InstallSnapshot() | TimeoutNow():
                following.hear_leader(self, message)
            case AppendResponse() | AppendRefusal() | HeartbeatResponse():
                leading.hear_follower(self, message)
            case ReadIndexRequest():
                leading.read_for(self, message.sender, message.read_id)
            case ReadIndexResponse():
                self.answer_read(message.read_id, message.index)
            case PreVoteRequest():
                raise AssertionError("handled before")
            case _:
                assert_never(message)

    def tick(self, now_ms: int) -> None:
        """Act on timeouts."""
        self._move_time(now_ms)
        if isinstance(self.role, Leader):
            leading.tick(self, self.role)
        elif self.now_ms >= self.election_due_ms:
            election.time_out(self)

    def connection_broken(self, member: Member, now_ms: int) -> None:
        """React to a broken connection to `member`: its process died, or the network failed."""
        self._move_time(now_ms)
        match self.role:
            case Follower(leader=leader) if leader == member:
                election.lose_touch(self)
            case Leader(progress=progress) if member in progress:
                progress[member].connection_broken()

    # -- what the application asks for

    def propose(self, data: bytes) -> int | None:
        """Append a command and return its index, which with this term identifies it; None if this node does not lead or
        is handing over."""
        return leading.propose(self, data)

    def change_configuration(self, change: ConfigurationChange) -> int | None:
        """Append a new configuration. Return None as `propose` does, or while an earlier change is not committed."""
        return leading.change_configuration(self, change)

    def read_index(self, read_id: int) -> None:
        """Ask for the index of a linearizable read; the answer comes with a `Ready`."""
        match self.role:
            case Leader():
                leading.read_for(self, self.member, read_id)
            case Follower(leader=Member() as leader):
                self.send(leader, ReadIndexRequest(self.member, self.term, read_id))
            case _:
                self.answer_read(read_id, None)

    def transfer_leadership(self, target: Member) -> bool:
        """Hand leadership to `target`. Return False if this node does not lead, or `target` cannot."""
        return leading.transfer(self, target)

    def snapshot_metadata(self) -> SnapshotMetadata:
        """Return the metadata of a snapshot of the state machine taken now. The latest configuration may be newer."""
        index = self.log.applied_index
        term = self.log.term_at(index)
        assert term is not None, f"applied {index} is not in the log"
        return SnapshotMetadata(index, term, self._configurations.at(index))

    def snapshot_taken(self, metadata: SnapshotMetadata) -> None:
        """Drop entries up to `metadata`: the store now holds a snapshot of this node's own state machine there."""
        self.log.compact(metadata)
        self._configurations = ConfigurationHistory(self.log)

    def snapshot_reported(self, recipient: Member, is_delivered: bool) -> None:
        """Note the outcome of sending a snapshot."""
        leading.snapshot_reported(self, recipient, is_delivered)

    # -- roles

    def become_follower(self, term: int, leader: Member | None = None) -> None:
        """Become follower: of a later term, of this term's leader, or after losing leadership."""
        assert term >= self.term
        if isinstance(self.role, Leader):
            leading.refuse_reads(self, self.role)
        if term > self.term:
            self.term, self.vote = term, None
        self.role = Follower(leader, self.now_ms)
        self.reset_election_timer()

    def reset_election_timer(self) -> None:
        low, high = self.timing.election_min_ms, self.timing.election_max_ms
        self.election_due_ms = self.now_ms + self.rng.randint(low, high)

    # -- for the roles' use

    def append(self, entry: Entry) -> None:
        """Append to the log as leader."""
        self.log.append(entry)
        self._configurations.replace_from(entry.index, [entry])

    def merge(self, entries: tuple[Entry, ...]) -> None:
        """Append to the log as follower; replace conflicting entries, configurations included."""
        new_from = self.log.merge(entries)
        if new_from is not None:
            self._configurations.replace_from(new_from, entries)

    def restore(self, message: InstallSnapshot) -> None:
        """Replace the log with a leader's snapshot."""
        self.log.restore(message.metadata)
        self._configurations = ConfigurationHistory(self.log)
        self._received_snapshot = message

    def send(self, recipient: Member, message: Message) -> None:
        """Send after this node's decisions so far are durable."""
        self._outbox.append(Envelope(recipient, message))

    def send_now(self, recipient: Member, message: Message) -> None:
        """Send at once: the message does not depend on the sender's disk."""
        self._outbox_now.append(Envelope(recipient, message))

    def send_snapshot(self, recipient: Member) -> None:
        self._snapshots_to_send.append(SnapshotToSend(recipient, self.term, self.log.snapshot))

    def answer_read(self, read_id: int, index: int | None) -> None:
        self._reads.append(ReadAnswer(read_id, index))

    # -- the exchange with the shell

    def ready(self) -> Ready | None:
        """Return the effects to carry out now, or None."""
        if isinstance(self.role, Leader):
            leading.flush(self, self.role)
        log = self.log
        entries = log.between(log.stable_index, log.last_index)
        hard_state = self._hard_state()
        has_promised = (hard_state.term, hard_state.vote) != (self._saved.term, self._saved.vote)
        # The commit index is saved only along with other changes: a restarted node finds it again.
        is_saved = has_promised or entries or self._received_snapshot is not None
        if has_promised:
            # A leader elected by its own vote alone must not be heard before that vote is durable.
            self._outbox, self._outbox_now = [*self._outbox_now, *self._outbox], []
        applied_from = max(log.applied_index, log.snapshot.index)
        ready = Ready(
            hard_state=hard_state if is_saved and hard_state != self._saved else None,
            snapshot=self._received_snapshot,
            entries=entries,
            messages_now=tuple(self._outbox_now),
            messages=tuple(self._outbox),
            snapshots_to_send=tuple(self._snapshots_to_send),
            committed=log.between(applied_from, log.commit_index, self.limits.max_applied_bytes),
            reads=tuple(self._reads),
        )
        self._outbox_now, self._outbox, self._snapshots_to_send, self._reads = [], [], [], []
        return None if ready.is_empty else ready

    def advance(self, ready: Ready) -> None:
        """Note that `ready` is carried out: durable, sent, applied. The caller must not have stepped the core since."""
        if ready.hard_state is not None:
            self._saved = ready.hard_state
        if ready.snapshot is not None:
            self._received_snapshot = None
            self.log.applied_index = ready.snapshot.metadata.index
        if ready.entries:
            self.log.stable_index = ready.entries[-1].index
        if ready.committed:
            self.log.applied_index = ready.committed[-1].index
        if isinstance(self.role, Leader):
            leading.acknowledge_own(self, self.role)

    def _hard_state(self) -> HardState:
        return HardState(self.term, self.vote, self.log.commit_index)

    def _move_time(self, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)
