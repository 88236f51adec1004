"""Finding records by their timestamps."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from lograft.runtime.files import Buffer
from lograft.storage.batch import decode_columns, iterate_batches
from lograft.storage.header import BatchHeader
from lograft.storage.index import SegmentIndex
from lograft.storage.reader import Batches
from lograft.storage.segment import Segment
from lograft.storage.segments import SegmentList

READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FoundTime:
    """A record found by its time."""

    offset: int
    timestamp: int


class SearchableLog(Protocol):
    """What a search needs of a log."""

    segments: SegmentList

    @property
    def start_offset(self) -> int: ...

    async def read(self, start: int, max_bytes: int, bound: int | None = None) -> Batches: ...

    async def index_of(self, segment: Segment) -> SegmentIndex: ...


async def first_at_or_after(log: SearchableLog, timestamp: int, bound: int) -> FoundTime | None:
    """The first record below `bound` whose timestamp is at least `timestamp`."""
    for segment in list(log.segments):
        index = await log.index_of(segment)
        if index.summary.max_timestamp < timestamp:
            continue
        offset = max(index.offset_to_search_from(timestamp), log.start_offset)
        async for header, batch in _batches(log, offset, bound):
            if header.max_timestamp >= timestamp:
                found = _first_in(batch, log.start_offset, bound, lambda time: time >= timestamp)
                if found is not None:
                    return found
        return None
    return None


async def with_greatest_time(log: SearchableLog, bound: int) -> FoundTime | None:
    """The first record, of those below `bound`, that has the greatest timestamp."""
    best: FoundTime | None = None
    for segment in list(log.segments):
        if segment.base_offset >= bound:
            break
        index = await log.index_of(segment)
        if best is not None and index.summary.max_timestamp <= best.timestamp:
            continue
        # The batch is found by its header; what is before the search's start is smaller by the index's word.
        is_bounded = index.summary.next_offset > bound
        start = segment.base_offset if is_bounded else index.offset_to_search_from(index.summary.max_timestamp)
        limit = min(bound, index.summary.next_offset)
        async for header, batch in _batches(log, max(start, log.start_offset), limit):
            if best is None or header.max_timestamp > best.timestamp:
                best = _greatest_in(batch, log.start_offset, limit, best)
    return best


async def _batches(log: SearchableLog, start: int, bound: int) -> AsyncIterator[tuple[BatchHeader, Buffer]]:
    """The batches with records in [start, bound)."""
    while start < bound and (found := await log.read(start, READ_BYTES, bound)).buffers:
        for buffer in found.buffers:
            for position, header in iterate_batches(buffer):
                if header.record_count > 0:
                    yield header, buffer[position : position + header.total_bytes]
        start = found.next_offset


def _first_in(batch: Buffer, start: int, bound: int, matches: Callable[[int], bool]) -> FoundTime | None:
    columns = decode_columns(batch)
    for offset, timestamp in zip(columns.offsets, columns.timestamps, strict=True):
        if start <= offset < bound and matches(timestamp):
            return FoundTime(offset, timestamp)
    return None


def _greatest_in(batch: Buffer, start: int, bound: int, best: FoundTime | None) -> FoundTime | None:
    columns = decode_columns(batch)
    for offset, timestamp in zip(columns.offsets, columns.timestamps, strict=True):
        if start <= offset < bound and (best is None or timestamp > best.timestamp):
            best = FoundTime(offset, timestamp)
    return best
