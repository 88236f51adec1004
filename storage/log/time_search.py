"""Search for records by timestamp."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from lograft.runtime.files import Buffer
from lograft.storage.batch.codec import decode_columns, iterate_batches
from lograft.storage.batch.header import BatchHeader
from lograft.storage.errors import InvalidBatch, OffsetOutOfRange, SegmentRetired
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.log.log_reader import Batches
from lograft.storage.log.segment_list import SegmentList

READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FoundTime:
    """A record found by its timestamp."""

    offset: int
    timestamp: int


class SearchableLog(Protocol):
    """The part of a log that a search needs."""

    segments: SegmentList

    @property
    def start_offset(self) -> int: ...

    async def read(self, start: int, max_bytes: int, bound: int | None = None) -> Batches: ...

    async def index_of(self, segment: Segment) -> SegmentIndex: ...

    def check_open(self) -> None:
        """Raise LogClosed if the log is closed."""
        ...


async def first_at_or_after(log: SearchableLog, timestamp: int, bound: int) -> FoundTime | None:
    """Return the first record below `bound` whose timestamp is at least `timestamp`."""
    async with aclosing(_indexes(log)) as indexes:
        async for index in indexes:
            if index.summary.max_timestamp >= timestamp:
                return await _first_from(log, index.offset_to_search_from(timestamp), timestamp, bound)
    return None


async def _first_from(log: SearchableLog, start: int, timestamp: int, bound: int) -> FoundTime | None:
    async with aclosing(_batches(log, start, bound)) as batches:
        async for header, batch in batches:
            if header.max_timestamp >= timestamp:
                found = _first_in(batch, log.start_offset, bound, lambda time: time >= timestamp)
                if found is not None:
                    return found
    return None


async def with_greatest_time(log: SearchableLog, bound: int) -> FoundTime | None:
    """Return the first record, of those below `bound`, that has the greatest timestamp."""
    best: FoundTime | None = None
    async with aclosing(_indexes(log)) as indexes:
        async for index in indexes:
            summary = index.summary
            if summary.base_offset >= bound:
                break
            if best is not None and summary.max_timestamp <= best.timestamp:
                continue
            # The batch is found by its header; the index guarantees that earlier records are smaller.
            is_bounded = summary.next_offset > bound
            start = summary.base_offset if is_bounded else index.offset_to_search_from(summary.max_timestamp)
            best = await _greatest_from(log, start, min(bound, summary.next_offset), best)
    return best


async def _greatest_from(log: SearchableLog, start: int, bound: int, best: FoundTime | None) -> FoundTime | None:
    async with aclosing(_batches(log, start, bound)) as batches:
        async for header, batch in batches:
            if best is None or header.max_timestamp > best.timestamp:
                best = _greatest_in(batch, log.start_offset, bound, best)
    return best


async def _indexes(log: SearchableLog) -> AsyncGenerator[SegmentIndex, None]:
    """Return the indexes of the log's segments, oldest first. Compaction may replace segments meanwhile; no offset is
    skipped."""
    offset, previous = log.start_offset, None
    while True:
        log.check_open()
        segment = log.segments[log.segments.place_of(offset)]
        if segment is not previous:
            try:
                index = await log.index_of(segment)
            except SegmentRetired:
                continue  # another segment holds the offset now
            yield index
        following = log.segments.start_after(max(offset, segment.base_offset))
        if following is None:
            return
        # The next segment need not start where this one ended: compaction may have merged it with others.
        offset = following if segment is previous else min(following, max(offset, index.summary.next_offset))
        previous = segment


async def _batches(log: SearchableLog, start: int, bound: int) -> AsyncGenerator[tuple[BatchHeader, Buffer], None]:
    """Return the batches with records in [start, bound), as far as the log still has them."""
    while (start := max(start, log.start_offset)) < bound:
        try:
            found = await log.read(start, READ_BYTES, bound)
        except OffsetOutOfRange:
            if start >= log.start_offset:
                return  # cut off
            continue
        if not found.buffers:
            return
        for buffer in found.buffers:
            for position, header in iterate_batches(buffer):
                if header.record_count > 0:
                    yield header, buffer[position : position + header.total_bytes]
        start = found.next_offset
        await asyncio.sleep(0)  # reads from memory do not wait: yield to other tasks


def _first_in(batch: Buffer, start: int, bound: int, matches: Callable[[int], bool]) -> FoundTime | None:
    for offset, timestamp in _times(batch):
        if start <= offset < bound and matches(timestamp):
            return FoundTime(offset, timestamp)
    return None


def _greatest_in(batch: Buffer, start: int, bound: int, best: FoundTime | None) -> FoundTime | None:
    for offset, timestamp in _times(batch):
        if start <= offset < bound and (best is None or timestamp > best.timestamp):
            best = FoundTime(offset, timestamp)
    return best


def _times(batch: Buffer) -> list[tuple[int, int]]:
    """Return the offset and timestamp of each record; none for a batch that was stored as sent and cannot be
    decoded."""
    try:
        columns = decode_columns(batch)
    except InvalidBatch:
        return []
    return list(zip(columns.offsets, columns.timestamps, strict=True))
