"""Is a follower's log a beginning of its leader's, and if not, where do they part? The leader's side. Pure.

A log is told by its last epoch and its end: of two logs that have a record of the same epoch at the same offset, all
before it is the same. Truncation is by epochs, never by a high watermark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lograft.storage.state.epoch_cache import EpochCache, EpochEntry


class LeadersLog(Protocol):
    """What a leader compares; `storage.log.PartitionLog` has it."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def epochs(self) -> EpochCache: ...


@dataclass(frozen=True, slots=True)
class Prefix:
    """The follower's log is the beginning of the leader's: what follows from its end on continues it."""


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """They part ways: in the leader's log `epoch`, the greatest that is at most the follower's last, ends at
    `end_offset`. The follower cuts its log, and asks again."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Reset:
    """The follower has nothing that can be continued: it drops all, and goes on at `start_offset` with these epochs and
    with what the leader knows of producers as of there."""

    start_offset: int
    epochs: tuple[EpochEntry, ...]


Match: TypeAlias = Prefix | TruncateTo | Reset


def match(
    log: LeadersLog,
    tombstones_removed_below: int,
    last_epoch: int | None,
    end_offset: int,
    first_base: int | None = None,
) -> Match:
    """What to tell a follower whose log ends so. `last_epoch` None: it has none.

    `first_base`: the base of the batch that holds the log start, where a copy begins; None: the log start itself.
    """
    start = log.start_offset if first_base is None else first_base
    if last_epoch is None:
        return _match_without_epochs(log, start, end_offset)
    # Who has nothing that the leader still has can miss no tombstone.
    if end_offset < start or log.start_offset < end_offset < tombstones_removed_below:
        return _reset(log, start)
    parting = log.epochs.end_offset_for(last_epoch, log.end_offset)
    if parting is None:
        return _reset(log, start)
    if parting.epoch == last_epoch and end_offset <= parting.start_offset:
        return Prefix()
    return TruncateTo(parting.epoch, parting.start_offset)


def reader_parts_at(log: LeadersLog, last_epoch: int, offset: int) -> int | None:
    """A reader is at `offset`, and the record before was of `last_epoch` when it read that. Up to where that can be the
    log that it read; None: all of it still is, or the log starts later by now."""
    if offset <= log.start_offset:
        return None
    parting = log.epochs.end_offset_for(last_epoch, log.end_offset)
    if parting is None:
        return log.start_offset
    if parting.epoch == last_epoch:
        return parting.start_offset if parting.start_offset < offset else None
    return min(parting.start_offset, offset - 1)


def _match_without_epochs(log: LeadersLog, start: int, end_offset: int) -> Match:
    """The follower has no records: it is new, or has cut or dropped all it had.

    What it does not have any more below its end was deleted everywhere, or is to be: it goes on where it is. To send it
    back would have one that is in sync, with an end that others count on, start over.
    """
    if end_offset == log.start_offset == 0:
        return Prefix()
    is_ahead, is_deleted = end_offset > log.end_offset, end_offset <= log.start_offset
    return _reset(log, start if is_ahead or is_deleted else end_offset)


def _reset(log: LeadersLog, start_offset: int) -> Reset:
    return Reset(start_offset, tuple(_epochs_at(log, start_offset)))


def _epochs_at(log: LeadersLog, offset: int) -> Sequence[EpochEntry]:
    """What a log that starts at `offset` knows of epochs: the current one starts there."""
    # A batch is of one epoch: that of the log start is the epoch of the whole batch around it.
    epoch = log.epochs.epoch_at(max(offset, log.start_offset))
    return [] if epoch is None else [EpochEntry(epoch, offset)]
