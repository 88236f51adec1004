"""The preconditions that every store checks, on LMDB or simulated. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lograft.raft.core.configuration import Configuration
from lograft.raft.core.entries import Entry, HardState, SnapshotMetadata
from lograft.raft.interfaces import StoredState
from lograft.raft.store.errors import StoreNotEmpty


@dataclass(slots=True)
class StoreShape:
    """The extent of a store's log as of the last call: entries (snapshot_index, last_index]."""

    is_empty: bool
    snapshot_index: int
    last_index: int

    def initialise(self, voters: Configuration) -> None:
        """Check that the first voters may be written."""
        assert voters.voters, "a first configuration without voters"
        if not self.is_empty:
            raise StoreNotEmpty("the store is not empty: it keeps the voters it knows")
        self.is_empty = False

    def save(self, hard_state: HardState | None, entries: Sequence[Entry], snapshot: SnapshotMetadata | None) -> bool:
        """Check what one Ready writes. Return False if nothing in it concerns the store."""
        if snapshot is not None:
            assert snapshot.index > self.snapshot_index, f"snapshot {snapshot.index} after {self.snapshot_index}"
            self.snapshot_index = self.last_index = snapshot.index
        if entries:
            first = entries[0].index
            assert self.snapshot_index < first <= self.last_index + 1, f"entry {first} does not follow {self}"
            assert all(entry.index == index for index, entry in enumerate(entries, first)), "a gap between entries"
            self.last_index = entries[-1].index
        has_news = hard_state is not None or bool(entries) or snapshot is not None
        self.is_empty = self.is_empty and not has_news
        return has_news

    def save_own_snapshot(self, metadata: SnapshotMetadata) -> bool:
        """Check a snapshot of the node's own. Return False if a newer one is there already."""
        assert metadata.index <= self.last_index, f"a snapshot at {metadata.index} of a log that ends at {self}"
        if metadata.index <= self.snapshot_index:
            return False  # a leader's snapshot overtook it
        self.snapshot_index = metadata.index
        return True


def shape_of(state: StoredState) -> StoreShape:
    last_index = state.entries[-1].index if state.entries else state.snapshot.index
    return StoreShape(state.is_empty, state.snapshot.index, last_index)
