"""Checks a group's committed offsets, and that the group received every record below them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.checkers.group_owners import GroupPartition
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import (
    Commit,
    Done,
    Entry,
    FetchOffsets,
    GroupDrained,
    Moment,
    OffsetsFetched,
    UncleanElection,
    ended,
    outcome_of,
)
from lograft.chaos.history.history_index import HistoryIndex, Piece
from lograft.clients.types import TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class _ToldOffset:
    """A committed offset, from an acknowledged commit or from an answer to an offset fetch."""

    offset: int
    source: Commit | FetchOffsets
    at: Moment


@dataclass(frozen=True, slots=True)
class _Break:
    """An event after which earlier commits need not hold. `end` None: the time from which they do not hold is unknown.
    The offset that a reset itself commits holds."""

    source: Commit | UncleanElection
    end: Moment | None

    def voids(self, told: _ToldOffset, one: _ToldOffset) -> bool:
        """Return whether this event releases `one` from being at least `told`."""
        if self.source is told.source or self.source.invoked > one.at:
            return False
        return self.end is None or self.end >= told.source.invoked


def commit_regressions(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each committed offset that is lower than one committed or fetched before the request, without a reset.

    An unclean election ends that promise, if it is of the partition itself or of a partition that stores offsets.
    """
    for (group, partition), told in _told_offsets(index).items():
        breaks = _breaks(index, group, partition)
        for one, floor in _floors(told, breaks):
            if floor.offset > one.offset:
                summary = f"{group} had committed {partition}@{floor.offset}, and then @{one.offset}"
                yield anomaly(AnomalyName.COMMIT_REGRESSION, summary, floor.source, one.source)


def _floors(told: list[_ToldOffset], breaks: list[_Break]) -> Iterator[tuple[_ToldOffset, _ToldOffset]]:
    """Yield each offset that is not a reset, with the highest offset that was known before the request."""
    by_answer = sorted(told, key=lambda one: one.at)
    answered, highest = 0, None
    for one in sorted(told, key=lambda each: each.source.invoked):
        while by_answer[answered].at < one.source.invoked:
            before = by_answer[answered]
            highest = before if highest is None or before.offset > highest.offset else highest
            answered += 1
        floor = highest
        if breaks:
            known = [each for each in by_answer[:answered] if not any(cut.voids(each, one) for cut in breaks)]
            floor = max(known, key=lambda each: each.offset, default=None)
        is_chosen = isinstance(one.source, Commit) and one.source.is_reset
        if floor is not None and not is_chosen:
            yield one, floor


def _told_offsets(index: HistoryIndex) -> dict[GroupPartition, list[_ToldOffset]]:
    found: dict[GroupPartition, list[_ToldOffset]] = {}
    for entry in index.history.entries:
        match entry:
            case Commit(completion=Done(at=at)):
                offsets = entry.offsets
            case FetchOffsets(completion=OffsetsFetched(at=at, offsets=offsets)):
                pass
            case _:
                continue
        for one in offsets:
            found.setdefault((entry.group, one.partition), []).append(_ToldOffset(one.offset, entry, at))
    return found


def _breaks(index: HistoryIndex, group: str, partition: TopicPartition) -> list[_Break]:
    resets = [_Break(one, ended(one)) for one in _resets(index, group, partition)]
    elections = [one for one in index.history.of(UncleanElection) if outcome_of(one) is not Outcome.FAIL]
    kept = [_Break(one, ended(one)) for one in elections if one.partition.topic == OFFSETS_TOPIC]
    # Members may commit old positions until they learn, at any time, that their records are gone.
    read = [_Break(one, None) for one in elections if one.partition == partition]
    return [*resets, *kept, *read]


def _resets(index: HistoryIndex, group: str, partition: TopicPartition) -> list[Commit]:
    return [
        one
        for one in index.history.of(Commit)
        if one.is_reset
        and one.group == group
        and outcome_of(one) is not Outcome.FAIL
        and any(each.partition == partition for each in one.offsets)
    ]


# -- deliveries


@dataclass(frozen=True, slots=True)
class _Progress:
    """Offsets [start, end) that a group has passed, with `source` as the evidence."""

    start: int
    end: int
    source: Entry


def never_delivered(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each record that a group has passed although none of its members received it.

    A group passes a record when a member reads or commits beyond it, or when the group is declared drained. The group's
    range begins at offset 0 if it is drained, else where its members began; records that a reset skips are no loss.
    Partitions that had an unclean election are not judged.
    """
    told = _told_offsets(index)
    for group, partition in _read_by_groups(index):
        if index.generations.last(partition) > 0 or index.generations.is_doubtful(partition):
            continue
        pieces = [piece for piece in index.pieces.get(partition, ()) if piece.poll.group == group]
        progress = _progress(index, group, partition, pieces, told.get((group, partition), []))
        if progress is None:
            continue
        delivered = {value: None for piece in pieces for value in piece.part.values}
        for value, offset in _due(index, partition):
            is_behind = progress.start <= offset < progress.end
            if is_behind and value not in delivered and not index.may_lack(partition, value, offset):
                sent = [send] if (send := index.send_of.get(value)) is not None else []
                summary = f"{value} at {partition}@{offset} was given to no member of {group}"
                yield anomaly(AnomalyName.NEVER_DELIVERED, summary, *sent, progress.source)


def _read_by_groups(index: HistoryIndex) -> list[GroupPartition]:
    found = [(piece.poll.group, name) for name, pieces in index.pieces.items() for piece in pieces if piece.poll.group]
    for drained in index.history.of(GroupDrained):
        found += [(drained.group, name) for name in index.partitions if name.topic == drained.topic]
    return sorted({*found})


def _progress(
    index: HistoryIndex, group: str, partition: TopicPartition, pieces: list[Piece], told: list[_ToldOffset]
) -> _Progress | None:
    ends: list[tuple[int, Entry]] = [(piece.end, piece.poll) for piece in pieces if piece.end is not None]
    ends += [(one.offset, one.source) for one in told]
    drained = [one for one in index.history.of(GroupDrained) if (one.group, one.topic) == (group, partition.topic)]
    if drained:
        stored = [replica.end_offset for replica in index.replicas.get(partition, ())]
        acknowledged = [one.offset + 1 for one in index.promises_in.get(partition, ())]
        ends.append((max([*stored, *acknowledged, 0]), drained[0]))
    if not ends:
        return None
    end, source = max(ends, key=lambda one: one[0])
    start = min((piece.start for piece in pieces if piece.start is not None and not drained), default=0)
    resets = [one for reset in _resets(index, group, partition) for one in reset.offsets if one.partition == partition]
    return _Progress(max([start, *(one.offset for one in resets)]), end, source)


def _due(index: HistoryIndex, partition: TopicPartition) -> Iterator[tuple[str, int]]:
    """Yield the value and offset of each record that must remain."""
    stored = index.stored.get(partition, {})
    yield from stored.items()
    for promise in index.promises_in.get(partition, ()):
        if promise.send.value not in stored:
            yield promise.send.value, promise.offset
