"""Interfaces of the driver (`driver/raft_node.py`): store, transport, inbox, state machine."""

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
    """The owner of a store. Written once, and durable before the node sends its first message."""

    cluster_id: str
    node_id: int
    directory_id: UUID

    @property
    def member(self) -> Member:
        return Member(self.node_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class StoredState:
    """Everything in a store except the snapshot's data. Empty if nothing was ever saved."""

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
    """One node's durable state. Each call is one transaction, durable when the call returns; calls take effect in
    order."""

    @property
    def identity(self) -> StoreIdentity: ...

    @property
    def starts(self) -> StoreStarts:
        """The openings of this store, including the present one, which is durable."""
        ...

    @property
    def seen_starts(self) -> Mapping[Member, StoreStart]:
        """The latest opening noted of each other member's store, as of the start of this process."""
        ...

    async def note_start(self, member: Member, start: StoreStart) -> None:
        """Note an opening of another member's store."""
        ...

    async def load(self) -> StoredState:
        """Return the content as of the start of this process."""
        ...

    async def initialise(self, voters: Configuration) -> None:
        """Write the first voters into an empty store: a snapshot of nothing, at index 0, in term 0."""
        ...

    async def save(self, hard_state: HardState | None, entries: Sequence[Entry], snapshot: Snapshot | None) -> None:
        """Save one Ready. A leader's snapshot replaces the whole log; entries replace everything from the first one
        on."""
        ...

    async def save_own_snapshot(self, snapshot: Snapshot) -> None:
        """Save a snapshot of this node's own state machine: delete entries up to it, keep later ones."""
        ...

    async def read_snapshot(self) -> Snapshot | None:
        """Return the latest snapshot, if there is one beyond index 0."""
        ...

    async def close(self) -> None: ...


class Inbox(Protocol):
    """Receiver of the transport's deliveries. No call blocks."""

    def receive(self, message: Message) -> None: ...

    def connection_broken(self, member: Member) -> None:
        """Report that an established connection to `member` broke."""
        ...

    def snapshot_reported(self, recipient: Member, is_delivered: bool) -> None: ...


class Transport(Protocol):
    """Carries messages to other nodes. May lose any message; never blocks; never delivers to another member."""

    def start(self, inbox: Inbox) -> None:
        """Deliver to `inbox` from now on."""
        ...

    def set_addresses(self, addresses: Mapping[int, str]) -> None:
        """Set the address of each node, by node id."""
        ...

    def send(self, envelope: Envelope) -> None:
        """Queue a message; dropped if the queue to that peer is full or it cannot be reached."""
        ...

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        """Send a snapshot in chunks on a stream of its own, and report the outcome to the inbox."""
        ...

    async def close(self) -> None: ...


class StateMachine(Protocol):
    """The replicated state machine. Must be deterministic: the same commands in the same order give the same state
    everywhere."""

    def apply(self, index: int, data: bytes) -> Any:
        """Apply a committed command. The node passes the result to the local proposer, if any."""
        ...

    def snapshot(self) -> bytes | Callable[[], bytes]:
        """Return the state as of the last applied command, or a function that serializes an immutable image of it off
        the loop.

        Runs on the loop, so it must be quick.
        """
        ...

    def restore(self, data: bytes) -> None:
        """Replace the state with that of a snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class RaftStatus:
    """A node's view, for people and metrics.

    On a leader, the mappings hold each other member: `match_indexes`, the last index it is known to have;
    `silences_ms`, the time since its last answer (or since the leader began to listen); `unreachable`, members silent
    for longer than an election timeout.
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
