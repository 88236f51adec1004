"""Checks that consumers received every record, in order. Pure.

Every offset has a record, except in compacted partitions and below offsets that retention has deleted.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.history.history_index import Acknowledgement, HistoryIndex, Piece
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
    """Yield each range of offsets that a consumer skipped although it must have held records."""
    for partition in index.partitions:
        promises = _Promises(index, partition)
        for piece in index.pieces.get(partition, ()):
            for start, end in _gaps(piece):
                is_last = index.generations.is_last(partition, piece.generation)
                missed = promises.missed(start, end) if is_last else None
                if missed is None and (index.is_compacted(partition) or end <= index.start_moved_to(partition)):
                    continue
                summary = f"{piece.poll.consumer} passed over {partition}@{start} to @{end - 1}"
                sends = [] if missed is None else [missed.send]
                polls = [piece.poll] if piece.previous is None else [piece.previous.poll, piece.poll]
                yield anomaly(AnomalyName.SKIPPING_POLL, summary, *sends, *polls)


def _gaps(piece: Piece) -> Iterator[tuple[int, int]]:
    """Yield the skipped ranges [start, end)."""
    at = piece.start
    for offset in piece.part.offsets:
        if at is not None and offset > at:
            yield at, offset
        at = offset + 1
    if at is not None and piece.part.after is not None and piece.part.after > at:
        yield at, piece.part.after


class _Promises:
    """The acknowledged records of one partition that every reader must find."""

    def __init__(self, index: HistoryIndex, partition: TopicPartition) -> None:
        found = [
            promise
            for promise in index.promises_in.get(partition, ())
            if not index.may_lack(partition, promise.send.value, promise.offset)
        ]
        self._promises = sorted(found, key=lambda one: one.offset)
        self._offsets = [one.offset for one in self._promises]

    def missed(self, start: int, end: int) -> Acknowledgement | None:
        """Return the first such record in [start, end), if any."""
        place = bisect_right(self._offsets, start - 1)
        is_there = place < len(self._offsets) and self._offsets[place] < end
        return self._promises[place] if is_there else None


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
