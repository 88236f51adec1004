"""The start offset of each leader epoch, which replicas compare to find where their logs diverge. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple


class EpochEntry(NamedTuple):
    """The first offset that was, or will be, written under a leader epoch."""

    epoch: int
    start_offset: int


class EpochCache:
    """Entries with rising epochs and offsets that never fall. An epoch may be empty: the next starts where it did."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    def replace_all(self, entries: Iterable[EpochEntry]) -> None:
        """Replace all entries with `entries`."""
        self._entries = EpochCache(entries)._entries

    def __iter__(self) -> Iterator[EpochEntry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def latest(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` starts at `start_offset`; False if the latest entry already says so."""
        latest = self.latest
        if latest is not None:
            if latest.epoch == epoch:
                return False
            assert epoch > latest.epoch, f"leader epoch went back from {latest.epoch} to {epoch}"
            assert start_offset >= latest.start_offset
        self._entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end: int) -> EpochEntry | None:
        """Return where this log diverges from one that ends in `epoch`.

        The answer's epoch is the greatest one known here that is at most `epoch`, and its offset is where that epoch
        ended (the start of the next one, or the log's end). None if all known epochs are newer.
        """
        end = log_end
        for entry in reversed(self._entries):
            if entry.epoch <= epoch:
                return EpochEntry(entry.epoch, end)
            end = entry.start_offset
        return None

    def epoch_at(self, offset: int) -> int | None:
        """Return the leader epoch of `offset`."""
        for entry in reversed(self._entries):
            if entry.start_offset <= offset:
                return entry.epoch
        return None

    def allows(self, epoch: int, offset: int) -> bool:
        """Return True if a batch of `epoch` may be at `offset`. Epochs that ended before the log start are not
        known."""
        known = self.epoch_at(offset)
        if known is None and self._entries:
            return epoch <= self._entries[0].epoch
        return epoch == known

    def between(self, start: int, end: int) -> list[EpochEntry]:
        """Return the entries whose start lies in [start, end)."""
        return [entry for entry in self._entries if start <= entry.start_offset < end]

    def truncate_from(self, offset: int) -> bool:
        """Follow a cut of the log at `offset`: forget epochs that start there or later. Return True if anything
        changed."""
        return self._keep(lambda entry: entry.start_offset < offset)

    def clip_to(self, log_end: int) -> bool:
        """Follow a log that was found to end at `log_end`: forget epochs that would start later. True if anything
        changed.

        One that starts exactly there stays: it was assigned, durably, before any of its batches.
        """
        return self._keep(lambda entry: entry.start_offset <= log_end)

    def _keep(self, is_kept: Callable[[EpochEntry], bool]) -> bool:
        kept = [entry for entry in self._entries if is_kept(entry)]
        changed = len(kept) != len(self._entries)
        self._entries = kept
        return changed

    def forget_before(self, offset: int) -> bool:
        """Follow a new log start at `offset`: the epoch that was current there starts there. True if anything
        changed."""
        older = [entry for entry in self._entries if entry.start_offset <= offset]
        if not older or (len(older) == 1 and older[0].start_offset == offset):
            return False
        self._entries = [EpochEntry(older[-1].epoch, offset), *self._entries[len(older) :]]
        return True
