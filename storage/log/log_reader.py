"""Reads of a log: whole batches, from memory if it has them, else from their segment."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from lograft.runtime.blocking import Blocking
from lograft.storage.errors import CorruptLog, InvalidBatch, SegmentRetired
from lograft.storage.files.batch_scan import batch_bounds
from lograft.storage.files.segment import Segment, SegmentFiles
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.log.memory_tail import MemoryTail
from lograft.storage.log.segment_list import SegmentList


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole batches covering [start, next_offset); the first may begin before `start`."""

    buffers: list[bytes | memoryview]
    next_offset: int

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.buffers))


class ReadableLog(Protocol):
    """The part of a log that the reader needs."""

    segments: SegmentList
    tail: MemoryTail
    generation: int  # changes whenever read data may have been removed

    async def index_of(self, segment: Segment) -> SegmentIndex: ...


class LogReader:
    """Reads of one log. Callers have checked that `start` is in range."""

    def __init__(self, log: ReadableLog, segment_files: SegmentFiles, blocking: Blocking) -> None:
        self._log = log
        self._segment_files = segment_files
        self._blocking = blocking

    def read_tail(self, start: int, max_bytes: int, bound: int) -> Batches | None:
        """Return batches from memory, at least one if there is one below `bound`; None if memory does not reach back to
        `start`."""
        tail = self._log.tail
        cursor = tail.find(start)
        if cursor is None:
            return None
        buffers: list[bytes | memoryview] = []
        next_offset, size = start, 0
        while (chunk := tail.at(cursor)) is not None and next_offset < bound:
            is_whole = chunk.start >= next_offset and chunk.end <= bound and size + len(chunk.batches) <= max_bytes
            if is_whole:
                buffers.append(chunk.batches)
                next_offset, size = chunk.end, size + len(chunk.batches)
                cursor += 1
                continue
            part, reached = _cut(
                memoryview(chunk.batches), next_offset, max_bytes - size, bound, chunk.end, at_least_one=size == 0
            )
            if len(part):
                buffers.append(part)
                next_offset, size = reached, size + len(part)
            if reached < chunk.end or not len(part):
                break
            cursor += 1
        return Batches(buffers, next_offset)

    async def read_segments(self, start: int, max_bytes: int, bound: int) -> Batches | None:
        """Return batches from disk; None if the log changed meanwhile and the caller must retry."""
        generation = self._log.generation
        segment = self._log.segments[self._log.segments.place_of(start)]
        try:
            index = segment.index
            if index is None:
                index = await self._log.index_of(segment)
            file = await self._segment_files.lease(segment)
        except SegmentRetired:
            return None
        first = 0
        try:
            if generation != self._log.generation:
                return None
            (known, first), limit = index.batch_at_or_before(start), index.position_at_or_after(bound)
            part = _Part(start, bound, max_bytes, known, index.summary.next_offset)
            while True:
                end = min(segment.written_bytes, index.boundary_after(first, first + max_bytes), limit)
                data = file.read_cached(first, end - first)
                if data is None:
                    data = await self._blocking.run_blocking(partial(file.read, first, end - first))
                if generation != self._log.generation:
                    return None
                if len(data) != end - first:
                    raise CorruptLog(segment.path, first, f"{len(data)} bytes where {end - first} should be")
                found = part.slice(memoryview(data), index.last_position_within(first, end - 1) - first)
                if found is not None or end >= min(segment.written_bytes, limit):
                    return found or Batches([], start)
                first = end  # all batches end before `start`, which is in a hole
        except InvalidBatch as error:
            raise CorruptLog(segment.path, first, str(error)) from error
        finally:
            self._segment_files.release(segment)


@dataclass(frozen=True, slots=True)
class _Part:
    """A read of a segment whose batches lie in [known, end_offset), which checks what it reads."""

    start: int
    bound: int
    max_bytes: int
    known: int
    end_offset: int

    def slice(self, data: memoryview, anchor: int) -> Batches | None:
        """Trim the data to whole batches in [start, bound); return None if all of it lies before `start`.

        `anchor` is the start of a batch near the end; batches before it are walked only if necessary.
        """
        at, size, previous_end = 0, len(data), self.known
        while at < size:
            bounds = batch_bounds(data, at)
            if bounds.base_offset < previous_end or bounds.next_offset > self.end_offset:
                raise InvalidBatch(f"offset {bounds.base_offset} where {previous_end} to {self.end_offset} should be")
            if bounds.next_offset > self.start:
                break
            at, previous_end = at + bounds.total_bytes, bounds.next_offset
        if at == size:
            return None
        if at + bounds.total_bytes > size:
            raise InvalidBatch(f"a batch of {bounds.total_bytes} bytes where {size - at} are left")
        if at + bounds.total_bytes == size and bounds.next_offset <= self.bound:
            return Batches([data[at:]], bounds.next_offset)  # a single batch, the common case for large ones
        if at < anchor and anchor - at <= self.max_bytes:
            part, reached = self._cut(data[anchor:], self.max_bytes - (anchor - at), at_least_one=False)
            if len(part):
                return Batches([data[at : anchor + len(part)]], reached)
        part, reached = self._cut(data[at:], self.max_bytes, at_least_one=True)
        return Batches([part] if len(part) else [], reached if len(part) else self.start)

    def _cut(self, data: memoryview, max_bytes: int, *, at_least_one: bool) -> tuple[memoryview, int]:
        return _cut(data, self.start, max_bytes, self.bound, self.end_offset, at_least_one=at_least_one)


def _cut(
    data: memoryview, start: int, max_bytes: int, bound: int, end_offset: int, *, at_least_one: bool
) -> tuple[memoryview, int]:
    """Return the batches of `data` that end after `start` and at or before `bound`, within `max_bytes`; and where they
    end.

    Raise InvalidBatch for a batch that does not follow the previous one, or ends beyond `end_offset`.
    """
    at, size, reached, previous_end = 0, len(data), start, 0
    begin: int | None = None
    while at < size:
        bounds = batch_bounds(data, at)
        is_inside = previous_end <= bounds.base_offset and bounds.next_offset <= end_offset
        if at + bounds.total_bytes > size or not is_inside:
            raise InvalidBatch(f"offset {bounds.base_offset}, {bounds.total_bytes} bytes does not fit where it is")
        previous_end = bounds.next_offset
        if bounds.next_offset > bound:
            break
        if bounds.next_offset > start:
            begin = at if begin is None else begin
            is_first = at == begin
            if at + bounds.total_bytes - begin > max_bytes and not (is_first and at_least_one):
                break
            reached = bounds.next_offset
        at += bounds.total_bytes
    if begin is None or reached == start:
        return data[:0], start
    return data[begin:at], reached
