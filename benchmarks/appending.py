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

from lograft.storage.admission import admit
from lograft.storage.config import FlushMode, LogConfig
from lograft.storage.log import PartitionLog

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
        self._config = LogConfig()
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
        unsynced = 0
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
    bench: Bench, record_bytes: int, label: str, os_batches: int, fsync_batches: int, rounds: int
) -> list[Result]:
    """Batches of 1 MiB, in megabytes a second."""
    section = f"Append, 1 MiB batches of {label} records"
    batches = make_batches(record_bytes)
    return await _measure(bench, section, batches, os_batches, fsync_batches, rounds, 8, _megabytes, "MB/s")


async def measure_small_appends(bench: Bench, os_batches: int, fsync_batches: int, rounds: int) -> list[Result]:
    """Batches of 16 KiB, in batches a second: what one append costs, whatever its size."""
    section = "Append, 16 KiB batches of 100 B records"
    batches = make_batches(100, 16 * 1024, count=64)
    return await _measure(bench, section, batches, os_batches, fsync_batches, rounds, 64, _batches, "batches/s")


async def _measure(
    bench: Bench,
    section: str,
    batches: list[bytes],
    os_batches: int,
    fsync_batches: int,
    rounds: int,
    in_flight: int,
    rate: Rate,
    unit: str,
) -> list[Result]:
    many, one = f"{in_flight} in flight", "1 in flight"
    plain = Appending(bench, list(islice(cycle(batches), os_batches)), rate)
    written = await take_turns(
        rounds,
        {
            many: plain.log(FlushMode.OS, in_flight),
            one: plain.log(FlushMode.OS, 1),
            "bare": plain.bare(None),
        },
    )
    safe = Appending(bench, list(islice(cycle(batches), fsync_batches)), rate)
    synced = await take_turns(
        rounds,
        {
            many: safe.log(FlushMode.FSYNC, in_flight),
            "grouped": safe.bare_as_log(in_flight),
            one: safe.log(FlushMode.FSYNC, 1),
            "single": safe.bare(1),
        },
    )
    group = f"{safe.group_size(in_flight):.1f} batches"
    is_aimed_at = unit == "MB/s"
    aim = APPEND_AIM if is_aimed_at else None
    return [
        Result(section, "bare os.write loop", median(written["bare"]), unit),
        Result(
            section, f"log, flush.mode=os, {many}", median(written[many]), unit, slowdown(written, many, "bare"), aim
        ),
        Result(section, f"log, flush.mode=os, {one}", median(written[one]), unit, slowdown(written, one, "bare")),
        Result(
            section, f"bare, os.fdatasync every {group}", median(synced["grouped"]), unit, note="as often as the log"
        ),
        Result(section, f"log, fsync, {many}", median(synced[many]), unit, slowdown(synced, many, "grouped"), aim),
        Result(section, "bare, os.fdatasync every batch", median(synced["single"]), unit),
        Result(section, f"log, fsync, {one}", median(synced[one]), unit, slowdown(synced, one, "single"), aim),
    ]


def _megabytes(batches: list[bytes], seconds: float) -> float:
    return megabytes_per_second(sum(map(len, batches)), seconds)


def _batches(batches: list[bytes], seconds: float) -> float:
    return len(batches) / seconds
