"""The durable state of a bare simulated Raft node: the store's contract, without a store."""

from collections.abc import Sequence

from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import NEW, NOTHING, Entry, HardState, SnapshotMetadata
from lograft.raft.core.raft_log import RaftLog
from lograft.raft.interfaces import Snapshot


class CoreDisk:
    """A disk on which each call is one transaction: it happens completely, or a crash preceded it."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.hard_state: HardState = NEW
        self.snapshot = Snapshot(NOTHING, b"")
        self._entries: list[Entry] = []

    @property
    def is_empty(self) -> bool:
        return self.hard_state == NEW and self.snapshot.metadata == NOTHING and not self._entries

    @property
    def first_index(self) -> int:
        return self.snapshot.metadata.index + 1

    @property
    def last_index(self) -> int:
        return self.snapshot.metadata.index + len(self._entries)

    def term_at(self, index: int) -> int | None:
        """Return the term of the entry at `index`, or None if it is missing or folded into the snapshot."""
        metadata = self.snapshot.metadata
        if index == metadata.index:
            return metadata.term
        return self._entries[index - self.first_index].term if self.first_index <= index <= self.last_index else None

    def log(self) -> RaftLog:
        return RaftLog(self.snapshot.metadata, self._entries)

    def initialise(self, voters: Configuration) -> None:
        assert self.is_empty
        self.snapshot = Snapshot(SnapshotMetadata(0, 0, voters), b"")

    def save(self, hard_state: HardState | None, entries: Sequence[Entry], snapshot: Snapshot | None) -> None:
        if hard_state is not None:
            self.hard_state = hard_state
        if snapshot is not None:
            self.snapshot, self._entries = snapshot, []
        if entries:
            assert self.first_index <= entries[0].index <= self.last_index + 1
            del self._entries[entries[0].index - self.first_index :]
            self._entries.extend(entries)

    def save_own_snapshot(self, snapshot: Snapshot) -> None:
        assert self.term_at(snapshot.metadata.index) == snapshot.metadata.term
        del self._entries[: snapshot.metadata.index - self.snapshot.metadata.index]
        self.snapshot = snapshot
