"""A whole Raft cluster in one thread: cores, their disks, and a network where every message waits to be delivered.

    cluster = RaftCluster(3)
    cluster.elect(1)                        node 1 times out; everything settles
    cluster.propose(1, b"x")                messages are in flight now
    cluster.drop(to=3)
    cluster.settle()
    assert cluster.committed(2) == [b"x"]

Nothing happens by itself: time moves by `pass_time`, messages by `deliver` and `settle`. `transcript` tells the story.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from support.raft_transcript import describe, describe_entries, describe_role

from lograft.raft.core.configuration import Configuration, ConfigurationChange, Member, configuration
from lograft.raft.core.entries import NEW, NOTHING, Command, Entry, HardState, NewConfiguration, SnapshotMetadata
from lograft.raft.core.messages import AppendRequest, Envelope, InstallSnapshot, Message
from lograft.raft.core.raft_core import RaftCore, RaftLimits, RaftTiming
from lograft.raft.core.raft_log import RaftLog
from lograft.raft.core.ready import Ready
from lograft.raft.core.roles import Leader
from lograft.runtime.rng import Rng

MAX_STEPS = 20_000
SEPARATOR = b"\n"


def member(node_id: int, generation: int = 0) -> Member:
    """The member that a node is; after its disk was lost, it is another, of the next generation."""
    return Member(node_id, UUID(int=generation * 1000 + node_id))


def command(index: int, term: int, data: bytes = b"") -> Entry:
    return Entry(index, term, Command(data))


def log_of_terms(*terms: int) -> list[Entry]:
    """Entries 1, 2, ... of these terms, each with its own command."""
    return [command(index, term, f"{index}.{term}".encode()) for index, term in enumerate(terms, 1)]


class CrashPoint(Enum):
    """Where, in carrying out a Ready, the power fails."""

    BEFORE_SAVE = "before anything is saved"
    AFTER_SAVE = "saved, but nothing that waited for it is sent"
    AFTER_SEND = "saved and sent, but not applied"


@dataclass(slots=True)
class Disk:
    """What survives a crash."""

    hard_state: HardState = NEW
    snapshot: SnapshotMetadata = NOTHING
    snapshot_data: bytes = b""
    entries: list[Entry] = field(default_factory=list)

    def save(self, ready: Ready) -> None:
        """One transaction."""
        if ready.snapshot is not None:
            self.snapshot, self.snapshot_data = ready.snapshot.metadata, ready.snapshot.data
            self.entries = []
        if ready.entries:
            first = ready.entries[0].index
            assert first <= self.snapshot.index + len(self.entries) + 1, "a hole in the stored log"
            del self.entries[first - self.snapshot.index - 1 :]
            self.entries.extend(ready.entries)
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state

    def save_own_snapshot(self, metadata: SnapshotMetadata, data: bytes) -> None:
        del self.entries[: metadata.index - self.snapshot.index]
        self.snapshot, self.snapshot_data = metadata, data

    def has(self, index: int, term: int) -> bool:
        """Is the committed entry (`index`, `term`) here, by itself or folded into the snapshot?"""
        place = index - self.snapshot.index - 1
        return place < 0 or (place < len(self.entries) and self.entries[place].term == term)


@dataclass(slots=True)
class Node:
    """A member, its disk, and, while it is up, its core and state machine."""

    member: Member
    disk: Disk
    rng: Rng
    core: RaftCore | None = None
    state: bytes = b""  # the state machine: every command applied, one a line
    applied_index: int = 0
    applied_now: list[Entry] = field(default_factory=list)  # since the invariants were last looked at
    reads: dict[int, int | None] = field(default_factory=dict)
    incarnation: int = 0


class RaftCluster:
    """Nodes 1..n, all voters unless named in `empty`: those begin with an empty store."""

    def __init__(
        self,
        voters: int = 3,
        *,
        empty: Sequence[int] = (),
        timing: RaftTiming | None = None,
        limits: RaftLimits | None = None,
        seed: int = 1,
    ) -> None:
        self.timing, self.limits = timing or RaftTiming(), limits or RaftLimits()
        self.now_ms = 0
        self.network: list[Envelope] = []
        self.transcript: list[str] = []
        self.watch: Callable[[Node], None] = lambda node: None  # told after each thing a node did
        self._cut: set[tuple[int, int]] = set()
        self._roles: dict[int, str] = {}
        first = configuration(member(node_id) for node_id in range(1, voters + 1) if node_id not in empty)
        self.nodes: dict[int, Node] = {}
        for node_id in sorted({*range(1, voters + 1), *empty}):
            disk = Disk() if node_id in empty else Disk(snapshot=SnapshotMetadata(0, 0, first))
            self.nodes[node_id] = Node(member(node_id), disk, Rng(seed * 1000 + node_id))
            self.restart(node_id)
        self.transcript.clear()

    # -- what is there

    def core(self, node_id: int) -> RaftCore:
        core = self.nodes[node_id].core
        assert core is not None, f"node {node_id} is down"
        return core

    def member(self, node_id: int) -> Member:
        return self.nodes[node_id].member

    @property
    def up(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.core is not None]

    @property
    def leaders(self) -> list[int]:
        return [node_id for node_id in self.up if isinstance(self.core(node_id).role, Leader)]

    def leading(self, node_id: int) -> Leader:
        role = self.core(node_id).role
        assert isinstance(role, Leader), f"node {node_id} is {describe_role(role)}"
        return role

    def committed(self, node_id: int) -> list[bytes]:
        """The commands that the node's state machine has been given."""
        state = self.nodes[node_id].state
        return state.split(SEPARATOR)[1:]

    def terms(self, node_id: int) -> list[int]:
        """The terms of the entries in a node's log."""
        return [entry.term for entry in self.core(node_id).log.between(0, self.core(node_id).log.last_index)]

    def in_flight(self, kind: type | None = None, *, by: int | None = None, to: int | None = None) -> list[Message]:
        return [envelope.message for envelope in self.network if _is_wanted(envelope, kind, by, to)]

    # -- messages

    def deliver(self, kind: type | None = None, *, by: int | None = None, to: int | None = None) -> int:
        """Deliver what is in flight now and matches; the answers are in flight then. How many there were."""
        wanted = [envelope for envelope in self.network if _is_wanted(envelope, kind, by, to)]
        for envelope in wanted:
            self.network.remove(envelope)
            self.deliver_one(envelope)
        return len(wanted)

    def deliver_one(self, envelope: Envelope) -> None:
        """Hand over a message that was taken out of the network."""
        recipient = self.nodes[envelope.recipient.node_id]
        is_there = recipient.core is not None and recipient.member == envelope.recipient and not self._is_cut(envelope)
        self._tell(f"{describe(envelope)}{'' if is_there else ' (nobody there)'}")
        if is_there:
            self.step(recipient.member.node_id, envelope.message)
        self._report_snapshot(envelope, is_delivered=is_there)

    def drop(self, kind: type | None = None, *, by: int | None = None, to: int | None = None) -> int:
        """Lose what is in flight now and matches."""
        wanted = [envelope for envelope in self.network if _is_wanted(envelope, kind, by, to)]
        for envelope in wanted:
            self.network.remove(envelope)
            self.drop_one(envelope)
        return len(wanted)

    def drop_one(self, envelope: Envelope) -> None:
        """Lose a message that was taken out of the network."""
        self._tell(f"{describe(envelope)} (lost)")
        self._report_snapshot(envelope, is_delivered=False)

    def duplicate(self, kind: type | None = None, *, by: int | None = None, to: int | None = None) -> None:
        """All that is in flight now and matches is there twice."""
        self.network += [envelope for envelope in self.network if _is_wanted(envelope, kind, by, to)]

    def settle(self) -> int:
        """Deliver until nothing is in flight; how many messages that took."""
        for count in range(MAX_STEPS):
            if not self.network:
                return count
            self.deliver_one(self.network.pop(0))
        raise AssertionError("the cluster never comes to rest")

    def _report_snapshot(self, envelope: Envelope, *, is_delivered: bool) -> None:
        """A snapshot's sender learns from its transport what became of it."""
        sender = self.nodes[envelope.message.sender.node_id]
        is_up = sender.core is not None and sender.member == envelope.message.sender
        if isinstance(envelope.message, InstallSnapshot) and is_up:
            self.core(sender.member.node_id).snapshot_reported(envelope.recipient, is_delivered)
            self.carry_out(sender.member.node_id)

    # -- the network's faults

    def cut(self, by: int, to: int) -> None:
        """Nothing that `by` sends reaches `to` from now on."""
        self._cut.add((by, to))

    def isolate(self, *node_ids: int) -> None:
        """Cut these off from all others, both ways."""
        for inside in node_ids:
            for outside in self.nodes:
                if outside not in node_ids:
                    self._cut |= {(inside, outside), (outside, inside)}
        for envelope in [envelope for envelope in self.network if self._is_cut(envelope)]:
            self.network.remove(envelope)
            self.drop_one(envelope)

    def heal(self) -> None:
        self._cut.clear()

    def _is_cut(self, envelope: Envelope) -> bool:
        return (envelope.message.sender.node_id, envelope.recipient.node_id) in self._cut

    # -- what a node does

    def step(self, node_id: int, message: Message) -> None:
        self.core(node_id).step(message, self.now_ms)
        self.carry_out(node_id)

    def tick(self, node_id: int) -> None:
        self.core(node_id).tick(self.now_ms)
        self.carry_out(node_id)

    def break_connection(self, node_id: int, to: int) -> None:
        self._tell(f"{node_id} loses its connection to {to}")
        self.core(node_id).connection_broken(self.member(to), self.now_ms)
        self.carry_out(node_id)

    def carry_out(self, node_id: int, crash: CrashPoint | None = None) -> None:
        """Do all that the core wants done; or begin to, and crash."""
        node = self.nodes[node_id]
        core = self.core(node_id)
        for _ in range(MAX_STEPS):
            ready = core.ready()
            if ready is None:
                break
            if crash is not None and self._crash_during(node, ready, crash):
                self.crash(node_id)
                return
            self.carry_out_one(node_id, ready)
        else:
            raise AssertionError(f"node {node_id} is never done")
        self._tell_role(node)
        self.watch(node)

    def carry_out_one(self, node_id: int, ready: Ready) -> None:
        """Do all that one Ready wants done."""
        node = self.nodes[node_id]
        self._send(ready.messages_now)
        node.disk.save(ready)
        self._send_durable(node, ready)
        self._apply(node, ready)
        self.core(node_id).advance(ready)

    def _crash_during(self, node: Node, ready: Ready, crash: CrashPoint) -> bool:
        self._send(ready.messages_now)
        if crash is CrashPoint.BEFORE_SAVE:
            return True
        node.disk.save(ready)
        if crash is CrashPoint.AFTER_SEND:
            self._send_durable(node, ready)
        return True

    def _send_durable(self, node: Node, ready: Ready) -> None:
        self._send(ready.messages)
        for order in ready.snapshots_to_send:
            snapshot = InstallSnapshot(node.member, order.term, node.disk.snapshot, node.disk.snapshot_data)
            self._send([Envelope(order.recipient, snapshot)])

    def _send(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            # A lost snapshot is reported to its sender, but not in the middle of its Ready: when it would be delivered.
            if not self._is_cut(envelope) or isinstance(envelope.message, InstallSnapshot):
                self.network.append(envelope)

    def _apply(self, node: Node, ready: Ready) -> None:
        if ready.snapshot is not None:
            node.state, node.applied_index = ready.snapshot.data, ready.snapshot.metadata.index
        if ready.committed:
            self._tell(f"{node.member.node_id} applies {describe_entries(ready.committed)}")
        for entry in ready.committed:
            assert entry.index == node.applied_index + 1, f"applied {entry.index} after {node.applied_index}"
            node.applied_index = entry.index
            node.applied_now.append(entry)
            if isinstance(entry.payload, Command):
                node.state += SEPARATOR + entry.payload.data
        node.reads.update({read.read_id: read.index for read in ready.reads})

    # -- what people ask of a node

    def propose(self, node_id: int, data: bytes) -> int | None:
        index = self.core(node_id).propose(data)
        self.carry_out(node_id)
        return index

    def change(self, node_id: int, change: ConfigurationChange) -> int | None:
        index = self.core(node_id).change_configuration(change)
        self._tell(f"{node_id} is asked for {type(change).__name__} {change.member.node_id}: {index or 'no'}")
        self.carry_out(node_id)
        return index

    def read(self, node_id: int, read_id: int) -> None:
        self.core(node_id).read_index(read_id)
        self.carry_out(node_id)

    def transfer(self, node_id: int, target: int) -> bool:
        is_begun = self.core(node_id).transfer_leadership(self.member(target))
        self._tell(f"{node_id} is asked to hand over to {target}: {'yes' if is_begun else 'no'}")
        self.carry_out(node_id)
        return is_begun

    def take_snapshot(self, node_id: int) -> None:
        """Fold what the node has applied into a snapshot."""
        node, core = self.nodes[node_id], self.core(node_id)
        metadata = core.snapshot_metadata()
        if metadata.index > core.log.snapshot.index:
            self._tell(f"{node_id} takes a snapshot at {metadata.index}")
            node.disk.save_own_snapshot(metadata, node.state)
            core.snapshot_taken(metadata)
            self.carry_out(node_id)

    # -- crashes

    def crash(self, node_id: int) -> None:
        self._tell(f"{node_id} crashes")
        self._roles.pop(node_id, None)
        self.nodes[node_id].core = None

    def restart(self, node_id: int) -> None:
        node = self.nodes[node_id]
        disk = node.disk
        self._tell(f"{node_id} starts")
        node.incarnation += 1
        node.state, node.applied_index, node.applied_now = disk.snapshot_data, disk.snapshot.index, []
        node.core = RaftCore(
            node.member,
            disk.hard_state,
            RaftLog(disk.snapshot, disk.entries),
            node.rng,
            self.now_ms,
            self.timing,
            self.limits,
        )
        self.carry_out(node_id)

    def wipe(self, node_id: int) -> None:
        """The node comes back with an empty disk, and so as another member."""
        node = self.nodes[node_id]
        generation = node.member.directory_id.int // 1000 + 1
        self.nodes[node_id] = Node(member(node_id, generation), Disk(), node.rng.fork())
        self.restart(node_id)

    def store(self, node_id: int, entries: Sequence[Entry], *, term: int | None = None, commit_index: int = 0) -> None:
        """Give a node a log, as if it had got it before it was last started."""
        disk = self.nodes[node_id].disk
        last_term = entries[-1].term if entries else 0
        disk.entries, disk.hard_state = list(entries), HardState(term or last_term, None, commit_index)
        self.restart(node_id)

    # -- time

    def pass_time(self, ms: int) -> None:
        """Let time pass; everyone ticks when due, every message arrives at once."""
        end_ms = self.now_ms + ms
        self.settle()
        while (due_ms := min((self.core(node_id).deadline_ms for node_id in self.up), default=end_ms + 1)) <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            for node_id in self.up:
                if self.core(node_id).deadline_ms <= self.now_ms:
                    self.tick(node_id)
            self.settle()
        self.now_ms = end_ms

    def elect(self, node_id: int) -> None:
        """`node_id` has heard of no leader for too long, stands, and wins."""
        self.time_out(node_id)
        self.settle()
        self.leading(node_id)

    def time_out(self, node_id: int) -> None:
        """So much time passes that `node_id` stands; it alone notices."""
        self.now_ms = max(self.now_ms + self.timing.election_max_ms, self.core(node_id).deadline_ms)
        self.tick(node_id)

    def elect_somebody(self, within_ms: int) -> int:
        """Let time pass until there is a leader whom a majority follows; who it is."""
        for _ in range(within_ms // 10):
            self.pass_time(10)
            for node_id in self.leaders:
                core = self.core(node_id)
                if core.log.commit_index >= self.leading(node_id).first_index:
                    return node_id
        raise AssertionError(f"no leader within {within_ms} ms\n" + self.story())

    # -- the story

    def story(self, last: int = 80) -> str:
        return "\n".join(self.transcript[-last:])

    def _tell(self, what: str) -> None:
        self.transcript.append(f"{self.now_ms:6} {what}")

    def _tell_role(self, node: Node) -> None:
        assert node.core is not None
        node_id, now = node.member.node_id, f"{describe_role(node.core.role)} of term {node.core.term}"
        if self._roles.get(node_id, now) != now:
            self._tell(f"{node_id} is {now}")
        self._roles[node_id] = now


def _is_wanted(envelope: Envelope, kind: type | None, by: int | None, to: int | None) -> bool:
    return (
        (kind is None or isinstance(envelope.message, kind))
        and by in (None, envelope.message.sender.node_id)
        and to in (None, envelope.recipient.node_id)
    )


def append_request(
    term: int, previous: tuple[int, int], entries: Iterable[Entry] = (), commit_index: int = 0, by: int = 1
) -> AppendRequest:
    return AppendRequest(member(by), term, *previous, tuple(entries), commit_index)


def new_configuration(index: int, term: int, voters: Configuration) -> Entry:
    return Entry(index, term, NewConfiguration(voters))
