"""Periodic work on all logs of a broker, with one timer per kind of work."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from lograft.broker.hosting.log_directories import LogDirectories
from lograft.broker.hosting.log_lifecycle import LogLifecycle
from lograft.broker.hosting.topic_log_config import tail_bytes_among
from lograft.broker.replica.replica import Replica
from lograft.broker.replication.throttle import Throttle
from lograft.runtime.clock import Clock, until_beat_ms
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import keep_cancellation
from lograft.storage.cleaning.compaction import CompactionFailed, compact
from lograft.storage.cleaning.retention import apply_retention
from lograft.storage.errors import CorruptLog, LogClosed

log_events = get_logger(__name__)

_LOOK_MS = 200  # a throttled compaction checks this often whether the log is still compacted


@dataclass(frozen=True, slots=True)
class MaintenanceTimes:
    """The period of each kind of work.

    `share_ms`: redistribute memory if logs were added or removed. `flush_ms`: the precision of the topics' `flush.ms`.
    `checkpoint_ms`: note the part of each log that recovery need not read."""

    share_ms: int = 2000
    flush_ms: int = 500
    roll_ms: int = 60_000
    watermarks_ms: int = 5_000
    checkpoint_ms: int = 60_000
    retention_ms: int = 60_000
    compaction_ms: int = 15_000
    expiry_ms: int = 600_000


class Maintenance:
    """`compaction_rate()`: the most bytes a second that compaction may read."""

    def __init__(
        self,
        clock: Clock,
        directories: LogDirectories,
        logs: LogLifecycle,
        compaction_rate: Callable[[], int],
        times: MaintenanceTimes,
    ) -> None:
        self._clock = clock
        self._directories = directories
        self._logs = logs
        self._throttle = Throttle(compaction_rate, clock.monotonic_ms())
        self._times = times
        self._shared = (0, 0)  # times configured and number of logs at the last distribution of memory
        self._flushed: list[Replica] = []  # replicas whose topics require flushes
        self._noted: dict[Replica, int] = {}  # the watermarks last written
        self._checkpointed: dict[Replica, tuple[int, int, int]] = {}  # end, start and generation at the last checkpoint

    async def run(self) -> None:
        """Run until cancelled."""
        times = self._times
        async with asyncio.TaskGroup() as group:
            for period_ms, work in (
                (times.share_ms, self._share),
                (times.flush_ms, self._flush),
                (times.roll_ms, self._roll),
                (times.watermarks_ms, self.note_watermarks),
                (times.checkpoint_ms, self._checkpoint),
                (times.retention_ms, self._retain),
                (times.compaction_ms, self._compact),
                (times.expiry_ms, self._expire),
            ):
                group.create_task(self._repeat(period_ms, work), name=f"upkeep {work.__name__}")

    async def _repeat(self, period_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep_ms(until_beat_ms(self._clock.monotonic_ms(), period_ms))
            # A disk failure may replace the cancellation, and is survived.
            await keep_cancellation(work())

    def _replicas(self) -> list[Replica]:
        """Return the replicas that are open now."""
        return list(self._logs.replicas.values())

    # -- the work

    async def _share(self) -> None:
        replicas = self._replicas()
        state = (self._logs.times_configured, len(replicas))
        if state == self._shared:
            return
        self._shared = state
        tail_bytes = tail_bytes_among(len(replicas))
        for replica in replicas:
            replica.log.keep_in_memory(tail_bytes)
        self._flushed = [replica for replica in replicas if replica.log.config.asks_for_flushes]

    async def _roll(self) -> None:
        for replica in self._replicas():
            with _surviving(replica):
                replica.log.roll_if_old()

    async def _flush(self) -> None:
        for replica in self._flushed:
            if replica.log.flush_is_due():
                with _surviving(replica):
                    await replica.log.flush()

    async def note_watermarks(self) -> None:
        """Write the watermarks that have changed. The broker also calls this before it stops."""
        noted = {replica: replica.durable_watermark for replica in self._replicas()}
        if noted == self._noted:
            return
        for directory in self._directories.healthy:
            watermarks = {name: replica.durable_watermark for name, replica in self._logs.open_in(directory)}
            try:
                await directory.note_watermarks(watermarks)
            except DiskFailed:
                continue  # the disk has reported the failure to the directory's logs
        self._noted = noted

    async def _checkpoint(self) -> None:
        replicas = self._replicas()
        self._checkpointed = {one: self._checkpointed[one] for one in replicas if one in self._checkpointed}
        for replica in replicas:
            log = replica.log
            now = (log.end_offset, log.start_offset, log.generation)
            if self._checkpointed.get(replica) != now:
                with _surviving(replica):
                    await log.checkpoint()
                    self._checkpointed[replica] = now

    async def _retain(self) -> None:
        """Delete old segments below the high watermark. Only leaders decide this; followers learn the new log start.

        Separate from compaction, which may take long, because retention frees space."""
        for replica in [each for each in self._replicas() if each.is_leader]:
            with _surviving(replica):
                if await apply_retention(replica.log, self._clock.wall_ms(), replica.high_watermark):
                    replica.start_moved()

    async def _compact(self) -> None:
        """Delete superseded records below the high watermark."""
        for replica in [each for each in self._replicas() if each.log.config.cleanup_compact]:
            async with replica.compacting:
                config, space = replica.log.config, replica.log.disk.space
                # Compaction frees space in the end, but first needs space for the segment it writes.
                if not replica.is_closed and space.has_room_for(config.segment_bytes if space.is_full else 0):
                    with _surviving(replica):
                        pace = partial(self._pace, replica)
                        await compact(replica.log, replica.high_watermark, self._clock.wall_ms(), pace=pace)

    async def _pace(self, replica: Replica, size_bytes: int) -> bool:
        """Throttle a compaction. Return False, to end it, once the log fails, is about to be closed, or has another
        policy: closing the log waits for its compaction."""
        self._throttle.take(size_bytes, self._clock.monotonic_ms())
        while _is_compacted(replica) and (wait_ms := self._throttle.wait_ms(self._clock.monotonic_ms())) > 0:
            await self._clock.sleep_ms(min(wait_ms, _LOOK_MS))
        return _is_compacted(replica)

    async def _expire(self) -> None:
        for replica in self._replicas():
            replica.log.producers.expire(self._clock.monotonic_ms())
        await self._directories.purge()


def _is_compacted(replica: Replica) -> bool:
    return replica.log.config.cleanup_compact and not replica.has_failed


@contextmanager
def _surviving(replica: Replica) -> Iterator[None]:
    """Handle the failure of one replica, so that work on the others continues."""
    try:
        yield
    except (DiskFailed, LogClosed):
        pass  # the disk has reported the failure to the log, or the log was closed
    except CorruptLog as error:
        replica.found_corrupt(error)
    except (CompactionFailed, OSError) as error:
        log_events.warning("upkeep_failed", partition=replica.identity.name, reason=str(error))
