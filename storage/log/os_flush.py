"""The flushes of `flush.mode=os`, which sync what the writer did not."""

import asyncio
from typing import Protocol

from lograft.runtime.blocking import run_to_end
from lograft.runtime.files import is_shortage
from lograft.storage.errors import SegmentRetired
from lograft.storage.files.segment import Segment
from lograft.storage.log.append_progress import AppendProgress
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_disk import Disk, PartitionDisk
from lograft.storage.log.segment_list import SegmentList

_SHORTAGE_PAUSE_MS = 100


class FlushableLog(Protocol):
    """The part of a log that a flush needs."""

    config: LogConfig
    end_offset: int
    generation: int
    segments: SegmentList


class OsFlush:
    """Flushes of one log, one at a time: Linux reports a failed fsync to one caller only, and concurrent callers would
    trust the next one.

    They run outside the writer's queue, so other logs need not wait for a file with much unsynced data.
    """

    def __init__(self, log: FlushableLog, disk: Disk, operations: PartitionDisk, durability: AppendProgress) -> None:
        self._log = log
        self._disk = disk
        self._operations = operations
        self._durability = durability
        self._one_at_a_time = asyncio.Lock()
        self._sealed: list[Segment] = []  # sealed and not synced yet
        self._records = 0  # appended since the last flush
        self._flushed_ms = disk.clock.monotonic_ms()

    def appended(self, records: int) -> None:
        self._records += records

    def sealed(self, segment: Segment) -> None:
        """Add a sealed segment that is not synced."""
        self._sealed.append(segment)

    def truncated(self, end_offset: int) -> None:
        self._sealed = [segment for segment in self._sealed if segment.base_offset < end_offset]

    def is_due(self) -> bool:
        """Return True if `flush.messages` or `flush.ms` requires a flush."""
        config = self._log.config
        if config.flush_mode is FlushMode.FSYNC or self._durability.synced_end == self._log.end_offset:
            return False
        elapsed_ms = self._disk.clock.monotonic_ms() - self._flushed_ms
        return (config.flush_messages is not None and self._records >= config.flush_messages) or (
            config.flush_ms is not None and elapsed_ms >= config.flush_ms
        )

    async def flush(self) -> None:
        """Wait until everything now in the log would survive a power failure."""
        async with self._one_at_a_time:
            target, generation = self._log.end_offset, self._log.generation
            sealed, active = list(self._sealed), self._log.segments.active
            self._records = 0
            self._flushed_ms = self._disk.clock.monotonic_ms()
            await self._operations.barrier()
            if self._durability.synced_end >= target and not sealed:
                return
            for segment in sealed:
                await self._sync(segment)
                self._sealed = [other for other in self._sealed if other is not segment]
            await self._sync(active)
            if generation == self._log.generation:
                self._durability.flushed(target)

    async def flush_sealed(self) -> None:
        """Flush until all sealed segments are synced, including those sealed meanwhile."""
        await self.flush()
        while self._sealed:
            await self.flush()

    async def _sync(self, segment: Segment) -> None:
        while True:
            try:
                file = await self._disk.segment_files.lease(segment)
                break
            except SegmentRetired:
                return
            except OSError as error:
                if not is_shortage(error):
                    await self._disk.writer.fail(segment.path, error)
                await self._disk.clock.sleep_ms(_SHORTAGE_PAUSE_MS)
        try:
            await run_to_end(self._disk.blocking, file.sync)
        except OSError as error:
            await self._disk.writer.fail(segment.path, error)
        finally:
            self._disk.segment_files.release(segment)
