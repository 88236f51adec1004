"""The replicated log as the core holds it: everything since the last snapshot, in memory. Pure."""

from collections.abc import Iterable, Sequence

from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import NOTHING, Entry, NewConfiguration, SnapshotMetadata


class RaftLog:
    """Entries (snapshot.index, last_index].

    Invariants: applied_index <= commit_index <= last_index; nothing at or below commit_index is ever replaced;
    everything at or below stable_index is on this node's disk.
    """

    def __init__(self, snapshot: SnapshotMetadata = NOTHING, entries: Iterable[Entry] = ()) -> None:
        self.snapshot = snapshot
        self._entries = list(entries)
        self.stable_index = self.last_index
        self.commit_index = snapshot.index
        self.applied_index = snapshot.index
        assert all(entry.index == snapshot.index + 1 + place for place, entry in enumerate(self._entries))

    @property
    def last_index(self) -> int:
        return self.snapshot.index + len(self._entries)

    @property
    def last_term(self) -> int:
        return self._entries[-1].term if self._entries else self.snapshot.term

    def term_at(self, index: int) -> int | None:
        """Return the term of the entry at `index`; None if it is compacted away or not there yet."""
        if index == self.snapshot.index:
            return self.snapshot.term
        if self.snapshot.index < index <= self.last_index:
            return self._entries[index - self.snapshot.index - 1].term
        return None

    def matches(self, index: int, term: int) -> bool:
        return self.term_at(index) == term

    def is_up_to_date(self, last_index: int, last_term: int) -> bool:
        """Return True if a log that ends there is at least as complete as this one (Raft §5.4.1)."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def between(self, after: int, up_to: int, max_bytes: int | None = None) -> tuple[Entry, ...]:
        """Return entries (after, up_to], at most `max_bytes` of them, but at least one if there is one."""
        assert self.snapshot.index <= after
        start, end = after - self.snapshot.index, up_to - self.snapshot.index
        if max_bytes is None:
            return tuple(self._entries[start:end])
        size = 0
        for place in range(start, end):
            size += self._entries[place].size_bytes
            if size > max_bytes and place > start:
                return tuple(self._entries[start:place])
        return tuple(self._entries[start:end])

    def append(self, entry: Entry) -> None:
        """Append as a leader: never replaces an entry."""
        assert entry.index == self.last_index + 1
        assert entry.term >= self.last_term
        self._entries.append(entry)

    def merge(self, entries: Sequence[Entry]) -> int | None:
        """Append as a follower, after a point of agreement; replace conflicting entries and all that follow them.

        Return the first new index, or None if nothing was new.
        """
        for place, entry in enumerate(entries):
            if not self.matches(entry.index, entry.term):
                self._truncate_from(entry.index)
                for following in entries[place:]:
                    self.append(following)
                return entry.index
        return None

    def _truncate_from(self, index: int) -> None:
        assert index > self.commit_index, f"entry {index} is committed, as is all up to {self.commit_index}"
        del self._entries[index - self.snapshot.index - 1 :]
        self.stable_index = min(self.stable_index, index - 1)

    def commit_to(self, index: int) -> bool:
        """Commit up to `index`. Return False if it was committed already."""
        if index <= self.commit_index:
            return False
        assert index <= self.last_index, f"commit {index} is beyond the log's end {self.last_index}"
        self.commit_index = index
        return True

    def find_agreement(self, index: int, term: int) -> tuple[int, int]:
        """Return index and term of the last entry at or below `index` whose term is at most `term`: the other log must
        differ after it."""
        index = min(index, self.last_index)
        while index > self.snapshot.index and (self.term_at(index) or 0) > term:
            index -= 1
        return index, self.term_at(index) or 0

    def compact(self, metadata: SnapshotMetadata) -> None:
        """Drop entries up to `metadata.index`, which a snapshot of this node's own now covers."""
        assert self.snapshot.index <= metadata.index <= self.applied_index
        assert self.matches(metadata.index, metadata.term)
        del self._entries[: metadata.index - self.snapshot.index]
        self.snapshot = metadata

    def restore(self, metadata: SnapshotMetadata) -> None:
        """Replace everything with a leader's snapshot."""
        assert metadata.index > self.commit_index
        self._entries.clear()
        self.snapshot = metadata
        self.stable_index = self.commit_index = metadata.index

    def configurations(self) -> list[tuple[int, Configuration]]:
        """Return each configuration in the log, after the snapshot's, with the index it came at."""
        found = [(self.snapshot.index, self.snapshot.configuration)]
        for entry in self._entries:
            if isinstance(entry.payload, NewConfiguration):
                found.append((entry.index, entry.payload.configuration))
        return found


class ConfigurationHistory:
    """Each configuration since the snapshot, with the index it came at. The last is in force, committed or not."""

    def __init__(self, log: RaftLog) -> None:
        self._known = log.configurations()

    @property
    def latest(self) -> Configuration:
        return self._known[-1][1]

    @property
    def latest_index(self) -> int:
        return self._known[-1][0]

    def at(self, index: int) -> Configuration:
        """Return the configuration in force when the log ended at `index`, which is not before the snapshot."""
        return [configuration for at, configuration in self._known if at <= index][-1]

    def is_lately_voter(self, member: Member) -> bool:
        """Return True if `member` votes in the latest configuration or in the one before it."""
        return any(member in configuration.voters for _, configuration in self._known[-2:])

    def replace_from(self, index: int, entries: Iterable[Entry]) -> None:
        """Follow a log that was replaced from `index` on with these entries."""
        self._known = [known for known in self._known if known[0] < index]
        for entry in entries:
            if entry.index >= index and isinstance(entry.payload, NewConfiguration):
                self._known.append((entry.index, entry.payload.configuration))
