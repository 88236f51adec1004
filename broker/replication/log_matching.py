"""The leader's comparison of a follower's log with its own: is it a prefix, and if not, where do they diverge? Pure.

The last epoch and the end identify a log: if two logs have a record of the same epoch at the same offset, they are
identical up to it. Followers truncate by epochs, never by a high watermark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lograft.storage.state.epoch_cache import EpochCache, EpochEntry


class LeadersLog(Protocol):
    """The leader's log as the comparison uses it. Implemented by `storage.log.PartitionLog`."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def epochs(self) -> EpochCache: ...


@dataclass(frozen=True, slots=True)
class Prefix:
    """The follower's log is a prefix of the leader's, which continues it from its end."""


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """The logs diverge: in the leader's log, `epoch`, the greatest one not above the follower's last, ends at
    `end_offset`. The follower truncates its log and subscribes again."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Reset:
    """The follower has no records that the leader can continue. It drops everything, and continues at `start_offset`
    with these epochs and the leader's producer state at that offset."""

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
    """Return the answer to a follower whose log ends at `end_offset` in `last_epoch`; None for a log without epochs.

    `first_base`: the base offset of the batch that contains the log start, where a copy begins; None for the log start.
    """
    start = log.start_offset if first_base is None else first_base
    if last_epoch is None:
        return _match_without_epochs(log, start, end_offset)
    # A follower without any records that the leader still has cannot miss a tombstone.
    if end_offset < start or log.start_offset < end_offset < tombstones_removed_below:
        return _reset(log, start)
    parting = log.epochs.end_offset_for(last_epoch, log.end_offset)
    if parting is None:
        return _reset(log, start)
    if parting.epoch == last_epoch and end_offset <= parting.start_offset:
        return Prefix()
    return TruncateTo(parting.epoch, parting.start_offset)


def reader_parts_at(log: LeadersLog, last_epoch: int, offset: int) -> int | None:
    """Return the offset up to which the log may match the one that a reader has read.

    The reader is at `offset`, after a record of `last_epoch`. Return None if all it has read still matches, or if the
    log now starts at `offset` or later."""
    if offset <= log.start_offset:
        return None
    parting = log.epochs.end_offset_for(last_epoch, log.end_offset)
    if parting is None:
        return log.start_offset
    if parting.epoch == last_epoch:
        return parting.start_offset if parting.start_offset < offset else None
    return min(parting.start_offset, offset - 1)


def _match_without_epochs(log: LeadersLog, start: int, end_offset: int) -> Match:
    """Match a follower without records: it is new, or has truncated or dropped all it had.

    Let it continue at its end if possible, because the records below its end are, or will be, deleted everywhere.
    Otherwise, an in-sync replica would start over below an end that others rely on.
    """
    if end_offset == log.start_offset == 0:
        return Prefix()
    is_ahead, is_deleted = end_offset > log.end_offset, end_offset <= log.start_offset
    return _reset(log, start if is_ahead or is_deleted else end_offset)


def _reset(log: LeadersLog, start_offset: int) -> Reset:
    return Reset(start_offset, tuple(_epochs_at(log, start_offset)))


def _epochs_at(log: LeadersLog, offset: int) -> Sequence[EpochEntry]:
    """Return the epochs of a log that starts at `offset`: the one that is current there."""
    # A batch has one epoch, so that of the log start holds for the whole batch that contains it.
    epoch = log.epochs.epoch_at(max(offset, log.start_offset))
    return [] if epoch is None else [EpochEntry(epoch, offset)]
