"""What the driver (`node.py`) needs around it: a store, a transport, a state machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import NEW, NOTHING, Entry, HardState, SnapshotMetadata
from lograft.raft.core.messages import Envelope, Message
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.store_starts import StoreStart, StoreStarts


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """Whose store it is. Written once, durable before the node says a word to anyone."""

    cluster_id: str
    node_id: int
    directory_id: UUID

    @property
    def member(self) -> Member:
        return Member(self.node_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class StoredState:
    """All that a store holds, but for the snapshot's data. Empty: nothing was ever saved in it."""

    identity: StoreIdentity
    hard_state: HardState = NEW
    snapshot: SnapshotMetadata = NOTHING
    entries: tuple[Entry, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.hard_state == NEW and self.snapshot == NOTHING and not self.entries


@dataclass(frozen=True, slots=True)
class Snapshot:
    metadata: SnapshotMetadata
    data: bytes


class Store(Protocol):
    """One node's durable part. Each call is one transaction, durable when it returns; they happen in order."""

    @property
    def identity(self) -> StoreIdentity: ...

    @property
    def starts(self) -> StoreStarts:
        """How often it was opened, this time included: durable since then."""
        ...

    @property
    def seen_starts(self) -> Mapping[Member, StoreStart]:
        """The latest openings of other members' stores that were noted here, as of the start."""
        ...

    async def note_start(self, member: Member, start: StoreStart) -> None:
        """That opening of another member's store was heard of."""
        ...

    async def load(self) -> StoredState:
        """What is there, as of the start."""
        ...

    async def initialise(self, voters: Configuration) -> None:
        """The first voters, in an empty store: a snapshot of nothing, at index 0, in term 0."""
        ...

    async def save(self, hard_state: HardState | None, entries: Sequence[Entry], snapshot: Snapshot | None) -> None:
        """One Ready. A leader's snapshot takes the place of the whole log; entries replace all from the first on."""
        ...

    async def save_own_snapshot(self, snapshot: Snapshot) -> None:
        """A snapshot of this node's own state machine: entries up to it go, later ones stay."""
        ...

    async def read_snapshot(self) -> Snapshot | None:
        """The latest snapshot, if there is one beyond index 0."""
        ...

    async def close(self) -> None: ...


class Inbox(Protocol):
    """Where the transport delivers; all of it returns at once."""

    def receive(self, message: Message) -> None: ...

    def connection_broken(self, member: Member) -> None:
        """The connection to `member` was there and is gone."""
        ...

    def snapshot_reported(self, recipient: Member, is_delivered: bool) -> None: ...


class Transport(Protocol):
    """Carries messages to other nodes. Anything may be lost; nothing blocks; nothing is delivered to another member."""

    def start(self, inbox: Inbox) -> None:
        """Deliver to `inbox` from now on."""
        ...

    def set_addresses(self, addresses: Mapping[int, str]) -> None:
        """Where the nodes are, by node id."""
        ...

    def send(self, envelope: Envelope) -> None:
        """Queue a message; dropped if the queue to that peer is full or it cannot be reached."""
        ...

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        """Send a snapshot beside the messages, in chunks; the inbox is told what became of it."""
        ...

    async def close(self) -> None: ...


class StateMachine(Protocol):
    """What the log is for. Deterministic: the same commands in the same order give the same state everywhere."""

    def apply(self, index: int, data: bytes) -> Any:
        """Carry out a committed command; the result goes to whoever proposed it here."""
        ...

    def snapshot(self) -> bytes | Callable[[], bytes]:
        """The whole state, as of the last command applied; or what makes it, beside the loop, from an unchanging image.

        Called on the loop, so it must be quick.
        """
        ...

    def restore(self, data: bytes) -> None:
        """Take the state of a snapshot in the place of one's own."""
        ...


@dataclass(frozen=True, slots=True)
class RaftStatus:
    """A node's view, for people and metrics.

    A leader's view has each other member: `match_indexes`, up to where it is known to have the log; `silences_ms`, how
    long ago it last answered, or if it never did, how long the leader has listened; `unreachable`, the members that
    have been silent for longer than an election timeout.
    """

    member: Member
    role: str
    term: int
    leader: Member | None
    commit_index: int
    applied_index: int
    last_index: int
    snapshot_index: int
    configuration: Configuration
    match_indexes: Mapping[Member, int] = field(default_factory=dict)
    silences_ms: Mapping[Member, int] = field(default_factory=dict)
    unreachable: tuple[Member, ...] = ()
