"""The effects the core asks its driver for. Pure."""

from dataclasses import dataclass

from lograft.raft.core.configuration import Member
from lograft.raft.core.entries import Entry, HardState, SnapshotMetadata
from lograft.raft.core.messages import Envelope, InstallSnapshot


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """A read may be answered once the state machine has applied `index`. None: this node cannot answer; ask again."""

    read_id: int
    index: int | None


@dataclass(frozen=True, slots=True)
class SnapshotToSend:
    """`recipient` needs the node's latest snapshot. Report the outcome to the core (`snapshot_reported`)."""

    recipient: Member
    term: int
    metadata: SnapshotMetadata


@dataclass(frozen=True, slots=True)
class Ready:
    """Carry out in this order: send `messages_now`; make hard state, snapshot and entries durable in one transaction;
    send `messages` and snapshots; restore the snapshot, apply `committed`; answer `reads`; then `advance`.

    Entries replace whatever the store has at and after the first one's index.
    """

    hard_state: HardState | None
    snapshot: InstallSnapshot | None
    entries: tuple[Entry, ...]
    messages_now: tuple[Envelope, ...]  # do not depend on data that is not durable yet
    messages: tuple[Envelope, ...]
    snapshots_to_send: tuple[SnapshotToSend, ...]
    committed: tuple[Entry, ...]
    reads: tuple[ReadAnswer, ...]

    @property
    def must_persist(self) -> bool:
        return self.hard_state is not None or self.snapshot is not None or bool(self.entries)

    @property
    def is_empty(self) -> bool:
        is_quiet = not (self.messages_now or self.messages or self.snapshots_to_send)
        return is_quiet and not (self.must_persist or self.committed or self.reads)
