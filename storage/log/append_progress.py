"""The progress of a log's appends: queued, written, synced. On the loop; no IO of its own."""

import asyncio
from collections import deque
from typing import NamedTuple

from lograft.runtime.disk.disk_writer import AppendFile
from lograft.storage.errors import LogTruncated


class _Mark(NamedTuple):
    """Once `file` is written (or synced) up to `position`, the log is up to `offset`."""

    file: AppendFile
    position: int
    offset: int


class AppendProgress:
    """Maps positions in files to offsets of the log. Invariant: synced_end <= written_end <= the log's end."""

    def __init__(self, end_offset: int) -> None:
        self.written_end = end_offset
        self.synced_end = end_offset
        self._unwritten: deque[_Mark] = deque()
        self._unsynced: deque[_Mark] = deque()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def appended(self, file: AppendFile, position: int, offset: int, *, sync: bool) -> None:
        """Record an append: the log ends at `offset` once `file` is written up to `position`."""
        mark = _Mark(file, position, offset)
        self._unwritten.append(mark)
        if sync:
            self._unsynced.append(mark)

    def progress(self) -> None:
        """Recompute both ends after a file made progress."""
        unwritten, unsynced = self._unwritten, self._unsynced
        while unwritten and unwritten[0].file.written >= unwritten[0].position:
            self.written_end = unwritten.popleft().offset
        while unsynced and unsynced[0].file.synced >= unsynced[0].position:
            self.synced_end = unsynced.popleft().offset

    def flushed(self, offset: int) -> None:
        """Record that everything below `offset` was synced outside the queue."""
        self.synced_end = max(self.synced_end, offset)
        while self._unsynced and self._unsynced[0].offset <= offset:
            self._unsynced.popleft()

    def truncated(self, end_offset: int) -> None:
        """Follow a truncation of the log to `end_offset`."""
        for marks in (self._unwritten, self._unsynced):
            while marks and marks[-1].offset > end_offset:
                marks.pop()
        self.written_end = min(self.written_end, end_offset)
        self.synced_end = min(self.synced_end, end_offset)
        # The offsets they wait for are gone; later batches at those offsets are different.
        self._fail([waiter for offset, waiter in self._waiters if offset > end_offset], LogTruncated(end_offset))
        self._waiters = [(offset, waiter) for offset, waiter in self._waiters if offset <= end_offset]

    def restarted(self, end_offset: int) -> None:
        """Follow a reset of the log to `end_offset`."""
        self._unwritten.clear()
        self._unsynced.clear()
        self.written_end = self.synced_end = end_offset

    async def wait(self, offset: int, stable_end: int) -> None:
        """Wait until `release` is called with at least `offset`. Return at once if `stable_end` has reached it."""
        if stable_end >= offset:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, waiter))
        await waiter

    def release(self, stable_end: int) -> None:
        """Wake callers that wait for at most `stable_end`."""
        if not self._waiters:
            return
        waiting, self._waiters = self._waiters, []
        for offset, waiter in waiting:
            if waiter.done():
                continue
            if offset <= stable_end:
                waiter.set_result(None)
            else:
                self._waiters.append((offset, waiter))

    def failed(self, error: Exception) -> None:
        """Fail all waiting callers with `error`: nothing more will become durable."""
        waiting, self._waiters = self._waiters, []
        self._fail([waiter for _, waiter in waiting], error)

    def _fail(self, waiters: "list[asyncio.Future[None]]", error: Exception) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
