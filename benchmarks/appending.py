"""Appending through a partition's log, against a bare loop of writes of the same bytes to a file of its own."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from statistics import median
from time import perf_counter

from disk import EPOCH, Bench
from measure import Aim, Contender, Result, megabytes_per_second, slowdown, take_turns
from samples import make_batches

from lograft.storage.log.admission import admit
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import PartitionLog

APPEND_AIM = Aim(1.5, "< 1.5x")

Rate = Callable[[list[bytes], float], float]


async def append_all(log: PartitionLog, batches: Iterable[bytes], now_ms: int, in_flight: int) -> None:
    """Check, append and wait until stable, with at most `in_flight` batches not stable at any time."""
    ends: deque[int] = deque()
    for batch in batches:
        if len(ends) == in_flight:
            await log.wait_stable(ends.popleft())
        ends.append(log.append_as_leader(admit(batch, log.config, now_ms), EPOCH).next_offset)
    await log.wait_stable(log.end_offset)


class Appending:
    """Contenders that append the same batches, and how many batches the log last synced together."""

    def __init__(self, bench: Bench, batches: list[bytes], rate: Rate) -> None:
        self._bench = bench
        self._batches = batches
        self._rate = rate
        self._group_sizes: dict[int, float] = {}

    def log(self, flush_mode: FlushMode, in_flight: int) -> Contender:
        config = LogConfig(flush_mode=flush_mode)

        async def contender() -> float:
            log = await self._bench.make_log(config)
            now_ms, syncs_before = self._bench.disk.clock.wall_ms(), self._bench.counts.data_syncs
            started = perf_counter()
            await append_all(log, self._batches, now_ms, in_flight)
            seconds = perf_counter() - started
            syncs = self._bench.counts.data_syncs - syncs_before
            if syncs:
                self._group_sizes[in_flight] = len(self._batches) / syncs
            await self._bench.discard(log)
            return self._rate(self._batches, seconds)

        return contender

    def bare(self, batches_per_sync: float | None) -> Contender:
        """os.write of each batch, and os.fdatasync whenever so many more were written."""

        async def contender() -> float:
            return self._write_bare(batches_per_sync)

        return contender

    def bare_as_log(self, in_flight: int) -> Contender:
        """As `bare`, syncing as seldom as the log last did with `in_flight`, which must have had its turn before."""

        async def contender() -> float:
            return self._write_bare(self._group_sizes[in_flight])

        return contender

    def group_size(self, in_flight: int) -> float:
        return self._group_sizes[in_flight]

    def _write_bare(self, batches_per_sync: float | None) -> float:
        path = self._bench.fresh_path("bare")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        unsynced = 0.0
        started = perf_counter()
        for batch in self._batches:
            os.write(descriptor, batch)
            unsynced += 1
            if batches_per_sync is not None and unsynced >= batches_per_sync:
                os.fdatasync(descriptor)
                unsynced -= batches_per_sync
        if batches_per_sync is not None and unsynced >= 1:
            os.fdatasync(descriptor)
        seconds = perf_counter() - started
        os.close(descriptor)
        os.unlink(path)
        return self._rate(self._batches, seconds)


async def measure_appends(
    bench: Bench, record_bytes: int, label: str, os_batches: int, fsync_batches: int, rounds: int, fsync_rounds: int
) -> list[Result]:
    """Batches of 1 MiB, in megabytes a second."""
    section = f"Append, 1 MiB batches of {label} records"
    batches = make_batches(record_bytes)
    written = Appending(bench, list(islice(cycle(batches), os_batches)), _megabytes)
    synced = Appending(bench, list(islice(cycle(batches), fsync_batches)), _megabytes)
    return [
        *await _measure_written(written, section, rounds, 8, "MB/s", APPEND_AIM),
        *await _measure_synced(synced, section, fsync_rounds, 8, "MB/s", APPEND_AIM),
    ]


async def measure_small_appends(bench: Bench, os_batches: int, fsync_batches: int, rounds: int) -> list[Result]:
    """Batches of 16 KiB, in batches a second: what one append costs, whatever its size."""
    section = "Append, 16 KiB batches of 100 B records"
    batches = make_batches(100, 16 * 1024, count=64)
    written = Appending(bench, list(islice(cycle(batches), os_batches)), _batches)
    synced = Appending(bench, list(islice(cycle(batches), fsync_batches)), _batches)
    return [
        *await _measure_written(written, section, rounds, 64, "batches/s", None),
        *await _measure_synced(synced, section, rounds, 64, "batches/s", None),
    ]


async def _measure_written(
    appending: Appending, section: str, rounds: int, in_flight: int, unit: str, aim: Aim | None
) -> list[Result]:
    """flush.mode=os against os.write alone."""
    many, one = f"{in_flight} in flight", "1 in flight"
    samples = await take_turns(
        rounds,
        {
            many: appending.log(FlushMode.OS, in_flight),
            one: appending.log(FlushMode.OS, 1),
            "bare": appending.bare(None),
        },
    )
    log = "log, flush.mode=os"
    return [
        Result(section, "bare os.write loop", median(samples["bare"]), unit),
        Result(section, f"{log}, {many}", median(samples[many]), unit, slowdown(samples, many, "bare"), aim),
        Result(section, f"{log}, {one}", median(samples[one]), unit, slowdown(samples, one, "bare")),
    ]


async def _measure_synced(
    appending: Appending, section: str, rounds: int, in_flight: int, unit: str, aim: Aim | None
) -> list[Result]:
    """Group fsync against os.write and as many os.fdatasync."""
    many, one = f"{in_flight} in flight", "1 in flight"
    samples = await take_turns(
        rounds,
        {
            many: appending.log(FlushMode.FSYNC, in_flight),
            "grouped": appending.bare_as_log(in_flight),
            one: appending.log(FlushMode.FSYNC, 1),
            "single": appending.bare(1),
        },
    )
    group = f"{appending.group_size(in_flight):.1f} batches"
    note = "as often as the log with many in flight"
    return [
        Result(section, f"bare, os.fdatasync every {group}", median(samples["grouped"]), unit, note=note),
        Result(section, f"log, fsync, {many}", median(samples[many]), unit, slowdown(samples, many, "grouped"), aim),
        Result(section, "bare, os.fdatasync every batch", median(samples["single"]), unit),
        Result(section, f"log, fsync, {one}", median(samples[one]), unit, slowdown(samples, one, "single"), aim),
    ]


def _megabytes(batches: list[bytes], seconds: float) -> float:
    return megabytes_per_second(sum(map(len, batches)), seconds)


def _batches(batches: list[bytes], seconds: float) -> float:
    return len(batches) / seconds
