"""How far a log's appends have come: queued, written, synced. On the loop; no IO of its own."""

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
    """Turns positions in files into offsets of the log. Invariant: synced_end <= written_end <= the log's end."""

    def __init__(self, end_offset: int) -> None:
        self.written_end = end_offset
        self.synced_end = end_offset
        self._unwritten: deque[_Mark] = deque()
        self._unsynced: deque[_Mark] = deque()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def appended(self, file: AppendFile, position: int, offset: int, *, sync: bool) -> None:
        """The log's end is now `offset`, once `file` is written up to `position`."""
        mark = _Mark(file, position, offset)
        self._unwritten.append(mark)
        if sync:
            self._unsynced.append(mark)

    def progress(self) -> None:
        """Some file moved on: see how far the log has come."""
        unwritten, unsynced = self._unwritten, self._unsynced
        while unwritten and unwritten[0].file.written >= unwritten[0].position:
            self.written_end = unwritten.popleft().offset
        while unsynced and unsynced[0].file.synced >= unsynced[0].position:
            self.synced_end = unsynced.popleft().offset

    def flushed(self, offset: int) -> None:
        """All below `offset` was synced by other means."""
        self.synced_end = max(self.synced_end, offset)
        while self._unsynced and self._unsynced[0].offset <= offset:
            self._unsynced.popleft()

    def truncated(self, end_offset: int) -> None:
        """The log was cut at `end_offset`."""
        for marks in (self._unwritten, self._unsynced):
            while marks and marks[-1].offset > end_offset:
                marks.pop()
        self.written_end = min(self.written_end, end_offset)
        self.synced_end = min(self.synced_end, end_offset)
        # What they wait for is gone; what will have its offset is something else.
        self._fail([waiter for offset, waiter in self._waiters if offset > end_offset], LogTruncated(end_offset))
        self._waiters = [(offset, waiter) for offset, waiter in self._waiters if offset <= end_offset]

    def restarted(self, end_offset: int) -> None:
        """The log was emptied and goes on at `end_offset`."""
        self._unwritten.clear()
        self._unsynced.clear()
        self.written_end = self.synced_end = end_offset

    async def wait(self, offset: int, stable_end: int) -> None:
        """Return when `release` is called with at least `offset` (at once if `stable_end` is there already)."""
        if stable_end >= offset:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, waiter))
        await waiter

    def release(self, stable_end: int) -> None:
        """Wake who waits for at most `stable_end`."""
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
        """Nothing more will become durable: wake everyone with `error`."""
        waiting, self._waiters = self._waiters, []
        self._fail([waiter for _, waiter in waiting], error)

    def _fail(self, waiters: "list[asyncio.Future[None]]", error: Exception) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
