"""The newest batches of a log in memory, for followers and tailing consumers. Pure."""

from bisect import bisect_right
from typing import NamedTuple


class Chunk(NamedTuple):
    """Whole batches appended together, covering [start, end)."""

    start: int
    end: int
    batches: bytes | memoryview


class MemoryTail:
    """The last chunks of a log, without gaps, up to `limit_bytes`, or more while they are not yet written.

    Invariant: chunks are in order, each starts where the one before ended, and the last ends at the log's end.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._starts: list[int] = []
        self._chunks: list[Chunk] = []
        self._head = 0  # chunks before it are evicted; the lists are compacted occasionally
        self._bytes = 0

    def append(self, chunk: Chunk) -> None:
        assert self._head == len(self._chunks) or self._chunks[-1].end == chunk.start
        self._starts.append(chunk.start)
        self._chunks.append(chunk)
        self._bytes += len(chunk.batches)

    def evict(self, written_end: int) -> None:
        """Evict the oldest chunks beyond the limit that can be read from disk (end <= `written_end`)."""
        while self._bytes > self.limit_bytes and self._chunks[self._head].end <= written_end:
            self._bytes -= len(self._chunks[self._head].batches)
            self._chunks[self._head] = Chunk(0, 0, b"")
            self._head += 1
        if self._head > 256 and self._head * 2 > len(self._chunks):
            del self._chunks[: self._head], self._starts[: self._head]
            self._head = 0

    def find(self, offset: int) -> int | None:
        """Return a cursor for `at`: the chunk that holds `offset`, or None if memory does not reach back to it."""
        index = bisect_right(self._starts, offset, lo=self._head) - 1
        if index < self._head or offset >= self._chunks[index].end:
            return None
        return index

    def at(self, cursor: int) -> Chunk | None:
        """Return the chunk at a cursor; the next one is at cursor + 1. Cursors are valid until the next await."""
        return self._chunks[cursor] if cursor < len(self._chunks) else None

    def truncate(self, end: int) -> None:
        """Evict all chunks that reach beyond `end`, including one that spans it; the tail then no longer reaches the
        log's end."""
        while len(self._chunks) > self._head and self._chunks[-1].end > end:
            self._bytes -= len(self._chunks[-1].batches)
            del self._chunks[-1], self._starts[-1]
        if len(self._chunks) > self._head and self._chunks[-1].end != end:
            self.clear()

    def clear(self) -> None:
        self._starts.clear()
        self._chunks.clear()
        self._head = 0
        self._bytes = 0
