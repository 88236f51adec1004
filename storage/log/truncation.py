"""Computes where to truncate a log, and the index and producer state of the rest. Blocking; changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lograft.runtime.files import File, Files
from lograft.storage.errors import CorruptLog, InvalidBatch
from lograft.storage.files.batch_scan import ScannedBatch, scan_batches
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.log.recovery import read_producers
from lograft.storage.state.producer_state import ProducerState


@dataclass(frozen=True, slots=True)
class CutSegment:
    """The index of the segment that becomes the last, and the producer state as of the new end."""

    index: SegmentIndex
    end_offset: int
    producers: ProducerState


def find_cut(
    files: Files,
    segments: Sequence[Segment],
    file: File,
    index: SegmentIndex,
    offset: int,
    snapshots: Sequence[int],
    interval_bytes: int,
    now_ms: int,
) -> CutSegment:
    """Compute the cut at `offset`, or at the start of the batch that `offset` lies within.

    `segments` ends with the one that holds `offset`; `file` and `index` are that one's.
    """
    last = segments[-1]
    remaining = _index_before(last, file, index, offset, interval_bytes)
    end_offset = max(last.base_offset, remaining.summary.next_offset)
    producers = _producers_at(files, segments, remaining, end_offset, snapshots, now_ms)
    return CutSegment(remaining, end_offset, producers)


def _index_before(segment: Segment, file: File, index: SegmentIndex, offset: int, interval_bytes: int) -> SegmentIndex:
    """Return the index of the batches that end at or before `offset`."""
    search = offset
    while True:
        remaining = index.rewound_before(search)
        anchor = remaining.summary.size_bytes
        first_append_ms = index.summary.first_append_ms
        for batch in _scan(segment, file, anchor, index.summary.size_bytes):
            header = batch.header
            if not remaining.summary.next_offset <= header.base_offset < index.summary.next_offset:
                reason = f"offset {header.base_offset} after {remaining.summary.next_offset - 1}"
                raise CorruptLog(segment.path, batch.position, reason)
            if header.next_offset > offset:
                break
            remaining.add(header, first_append_ms, interval_bytes)
        if remaining.summary.size_bytes > anchor or anchor == 0:
            return remaining
        search = remaining.summary.next_offset  # no batch after the anchor stays: go back one more entry


def _producers_at(
    files: Files,
    segments: Sequence[Segment],
    last_index: SegmentIndex,
    end_offset: int,
    snapshots: Sequence[int],
    now_ms: int,
) -> ProducerState:
    """Return the producer state as of `end_offset`: the newest sound snapshot before it, and the batches since."""
    directory = segments[0].directory
    state, since = ProducerState(), segments[0].base_offset
    for offset in sorted((offset for offset in snapshots if offset <= end_offset), reverse=True):
        snapshot = read_producers(files, directory, offset, now_ms)
        if snapshot is not None:
            state, since = snapshot, offset
            break
    for place, segment in enumerate(segments):
        is_last = place == len(segments) - 1
        if not is_last and segments[place + 1].base_offset <= since:
            continue
        file = files.open(segment.path)
        try:
            start = last_index.position_at_or_before(since) if is_last else 0
            end = last_index.summary.size_bytes if is_last else segment.size_bytes
            for batch in _scan(segment, file, start, end):
                if batch.header.base_offset >= since:
                    state.update(batch.header, now_ms)
        finally:
            file.close()
    return state


def _scan(segment: Segment, file: File, position: int, end: int) -> Iterator[ScannedBatch]:
    try:
        yield from scan_batches(file, position, end, verify=False)
    except InvalidBatch as error:
        raise CorruptLog(segment.path, None, str(error)) from error
