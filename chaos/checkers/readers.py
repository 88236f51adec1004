"""Checks that consumers received every record, in order. Pure.

Every offset has a record, except in compacted partitions and below offsets that retention has deleted.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.checkers.replicas import latest_of_keys
from lograft.chaos.history.entries import Send
from lograft.chaos.history.history_index import HistoryIndex, Piece, only
from lograft.clients.types import TopicPartition


def non_monotonic_polls(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each poll that returns an offset not after the previous one, within the poll or since the last one, without
    a seek. An unclean election may move a consumer back."""
    for partition in index.partitions:
        for piece in index.pieces.get(partition, ()):
            offsets = piece.part.offsets
            where = f"{piece.poll.consumer} was given {partition}"
            for before, after in pairwise(offsets):
                if after <= before:
                    summary = f"{where}@{after} after @{before} in one poll"
                    yield anomaly(AnomalyName.NON_MONOTONIC_POLL, summary, piece.poll)
            first = next(iter(offsets), piece.part.after)
            if first is None or piece.start is None or first >= piece.start or _crosses(index, piece):
                continue
            summary = f"{where}@{first} when it was at {piece.start}"
            polls = [piece.poll] if piece.previous is None else [piece.previous.poll, piece.poll]
            yield anomaly(AnomalyName.NON_MONOTONIC_POLL, summary, *polls)


def _crosses(index: HistoryIndex, piece: Piece) -> bool:
    """Return whether an unclean election may lie between this piece and the origin of its position."""
    if piece.previous is None:
        partition = piece.part.partition
        return index.generations.last(partition) > 0 or index.generations.is_doubtful(partition)
    return piece.generation is None or piece.generation != piece.previous.generation


def skipping_polls(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each range of offsets that a consumer skipped although it must have held records, and each record that an
    unclean election replaced behind a consumer's back: the consumer must return to where the logs diverge."""
    for partition in index.partitions:
        needed = _Needed(index, partition)
        for piece in index.pieces.get(partition, ()):
            for start, end in _gaps(piece):
                is_last = index.generations.is_last(partition, piece.generation)
                missed = needed.missed(piece, start, end) if is_last else None
                moved_to = _by_then(piece, index.start_moved_to(partition))
                if missed is None and (index.is_compacted(partition) or end <= moved_to):
                    continue
                summary = f"{piece.poll.consumer} passed over {partition}@{start} to @{end - 1}"
                sends = [] if missed is None else [missed]
                polls = [piece.poll] if piece.previous is None else [piece.previous.poll, piece.poll]
                yield anomaly(AnomalyName.SKIPPING_POLL, summary, *sends, *polls)
        if index.generations.last(partition) > 0:
            yield from _replaced(index, partition)


def _by_then(piece: Piece, in_the_end: int) -> int:
    """Return the part of a log start's final position that it had reached by the time of the piece."""
    return in_the_end if piece.part.log_start is None else min(piece.part.log_start, in_the_end)


def _replaced(index: HistoryIndex, partition: TopicPartition) -> Iterator[Anomaly]:
    there = {(sight.generation, sight.offset): sight for sight in index.sights(partition)}
    for piece in index.pieces.get(partition, ()):
        before = piece.previous
        while before is not None and not before.part.offsets:
            before = before.previous
        if before is None or not piece.part.offsets or piece.generation in (None, before.generation):
            continue
        offset, value = before.part.offsets[-1], before.part.values[-1]
        sight = there.get((piece.generation, offset))
        if before.generation is None or sight is None or sight.value == value or piece.part.offsets[0] <= offset:
            continue
        if not index.may_lack(partition, sight.value, offset, _by_then(piece, index.deleted_to(partition))):
            where = f"{value} at {partition}@{offset}, where there is {sight.value} now"
            summary = f"{piece.poll.consumer} went on after {where}"
            yield anomaly(AnomalyName.SKIPPING_POLL, summary, before.poll, piece.poll, only(sight.source, offset))


def _gaps(piece: Piece) -> Iterator[tuple[int, int]]:
    """Yield the skipped ranges [start, end)."""
    at = piece.start
    for offset in piece.part.offsets:
        if at is not None and offset > at:
            yield at, offset
        at = offset + 1
    if at is not None and piece.part.after is not None and piece.part.after > at:
        yield at, piece.part.after


class _Needed:
    """The records of one partition that every reader must find: those promised to remain, and the latest of each key.
    Without compaction, every record is needed."""

    def __init__(self, index: HistoryIndex, partition: TopicPartition) -> None:
        found = {
            promise.offset: promise.send
            for promise in index.promises_in.get(partition, ())
            if not index.may_lack(partition, promise.send.value, promise.offset, 0)
        }
        for replica in index.replicas.get(partition, ()) if index.is_compacted(partition) else ():
            latest = latest_of_keys(index, replica, replica.start_offset).values()
            found |= {stored.offset: index.send_of[index.value_of(stored)] for stored in latest}
        self._deleted_to = index.deleted_to(partition)
        self._sends = dict(sorted(found.items()))
        self._offsets = list(self._sends)

    def missed(self, piece: Piece, start: int, end: int) -> Send | None:
        """Return the first such record in [start, end) that retention had not deleted, if any."""
        place = bisect_right(self._offsets, max(start, _by_then(piece, self._deleted_to)) - 1)
        is_there = place < len(self._offsets) and self._offsets[place] < end
        return self._sends[self._offsets[place]] if is_there else None


def acknowledged_unseen(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each acknowledged record that readers passed without any of them receiving it."""
    passed = {partition: _Passed(index, partition) for partition in index.partitions}
    for promise in index.promises:
        of_partition = passed[promise.partition]
        if promise.send.value in of_partition.values or not of_partition.is_past(promise.offset):
            continue
        if not index.may_lack(promise.partition, promise.send.value, promise.offset):
            summary = f"{promise.send.value}, acknowledged at {promise.partition}@{promise.offset}, was given to nobody"
            polls = [piece.poll for piece in of_partition.pieces_past(promise.offset)]
            yield anomaly(AnomalyName.ACKNOWLEDGED_UNSEEN, summary, promise.send, *polls[:3])


class _Passed:
    """The values read from a partition, and the ranges read in its last generation."""

    def __init__(self, index: HistoryIndex, partition: TopicPartition) -> None:
        pieces = index.pieces.get(partition, ())
        self.values = {value: None for piece in pieces for value in piece.part.values}
        self._pieces = [piece for piece in pieces if index.generations.is_last(partition, piece.generation)]
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(_span(piece) for piece in self._pieces):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def is_past(self, offset: int) -> bool:
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ends[place]

    def pieces_past(self, offset: int) -> list[Piece]:
        return [piece for piece in self._pieces if _span(piece)[0] <= offset < _span(piece)[1]]


def _span(piece: Piece) -> tuple[int, int]:
    """Return the range [start, end) of a piece; empty if its end is unknown."""
    start = 0 if piece.start is None else piece.start
    return start, max(start, piece.end or 0)
