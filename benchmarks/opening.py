"""Opening partitions: many after a clean stop, which must not read their data, and a long one after a crash."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from statistics import median
from time import perf_counter

import google_crc32c
from appending import append_all
from disk import Bench
from measure import MEBIBYTE, Aim, Contender, Result, megabytes_per_second, slowdown, take_turns
from samples import make_batches

from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import PartitionLog, open_log

_SEGMENTS = 3
_BATCH_BYTES = 16 * 1024
_BATCHES_PER_SEGMENT = 4
_AT_ONCE = 8


async def measure_opening(bench: Bench, partitions: int) -> list[Result]:
    """Partitions of three segments after a clean close; seconds for all of them together."""
    section = f"Open {partitions:,} partitions of {_SEGMENTS} segments after a clean close"
    aim = Aim(2.0 * partitions / 1000, "< 2 s") if partitions == 1000 else None
    directories = await _make_partitions(bench, partitions)
    results = []
    try:
        for at_once in (1, _AT_ONCE):
            data_before, other_before = bench.counts.data_bytes_read, bench.counts.other_bytes_read
            started = perf_counter()
            logs = await _open_all(bench, directories, at_once)
            seconds = perf_counter() - started
            data, other = bench.counts.data_bytes_read - data_before, bench.counts.other_bytes_read - other_before
            note = f"read {data:,} bytes of data, {other:,} of other files"
            results.append(Result(section, f"opened, {at_once} at a time", seconds, "s", aim=aim, note=note))
            if at_once == 1:
                await asyncio.gather(*map(bench.abandon, logs))
        started = perf_counter()
        await asyncio.gather(*(log.close() for log in logs))
        results.append(Result(section, "closed again, unchanged", perf_counter() - started, "s"))
    finally:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)
    return results


async def _make_partitions(bench: Bench, partitions: int) -> list[str]:
    """One partition is written and closed, then copied: nothing in its files says which partition it is."""
    config = _opening_config()
    original = await bench.make_log(config)
    batches = make_batches(100, _BATCH_BYTES)
    repeated = islice(cycle(batches), _SEGMENTS * _BATCHES_PER_SEGMENT)
    await append_all(original, repeated, bench.disk.clock.wall_ms(), in_flight=8)
    assert len(original.segments) == _SEGMENTS
    await original.close()
    directories = [bench.fresh_path("partition") for _ in range(partitions)]
    for directory in directories:
        shutil.copytree(original.directory, directory, copy_function=shutil.copyfile)
    shutil.rmtree(original.directory)
    # Opening should not wait for the disk to take in the copies.
    await asyncio.to_thread(os.sync)
    return directories


def _opening_config() -> LogConfig:
    return LogConfig(segment_bytes=_BATCHES_PER_SEGMENT * _BATCH_BYTES)


async def _open_all(bench: Bench, directories: list[str], at_once: int) -> list[PartitionLog]:
    config = _opening_config()
    logs: list[PartitionLog] = []
    for first in range(0, len(directories), at_once):
        some = directories[first : first + at_once]
        logs += await asyncio.gather(*(open_log(bench.disk, directory, config) for directory in some))
    return logs


async def measure_recovery(
    bench: Bench, batch_bytes: int, batch_label: str, log_bytes: int, rounds: int
) -> list[Result]:
    """Opening a log of which nothing was checkpointed: every batch is read and its CRC checked."""
    section = f"Recovery scan, {batch_label} batches of 100 B records, data in the page cache"
    config = LogConfig(flush_mode=FlushMode.OS)
    batches = make_batches(100, batch_bytes)
    async with _crashed_log(bench, config, batches, log_bytes) as crashed:
        path, size = bench.segment_path(crashed), crashed.size_bytes
        samples = await take_turns(
            rounds,
            {"log": _recover(bench, crashed.directory, config, size), "bare": _read_and_check(path, size)},
        )
    ratio = slowdown(samples, "log", "bare")
    return [
        Result(section, "bare os.pread + CRC-32C loop, 1 MiB", median(samples["bare"]), "MB/s"),
        Result(section, "open_log after an unclean stop", median(samples["log"]), "MB/s", ratio),
    ]


@asynccontextmanager
async def _crashed_log(
    bench: Bench, config: LogConfig, batches: list[bytes], log_bytes: int
) -> AsyncIterator[PartitionLog]:
    log = await bench.make_log(config)
    repeated = islice(cycle(batches), log_bytes // len(batches[0]))
    await append_all(log, repeated, bench.disk.clock.wall_ms(), in_flight=64)
    # Recovery syncs what it has scanned; the scan is to be measured, not the disk.
    await log.flush()
    await bench.abandon(log)
    try:
        yield log
    finally:
        shutil.rmtree(log.directory)


def _recover(bench: Bench, directory: str, config: LogConfig, size: int) -> Contender:
    async def contender() -> float:
        read_before = bench.counts.data_bytes_read
        started = perf_counter()
        log = await open_log(bench.disk, directory, config)
        seconds = perf_counter() - started
        assert bench.counts.data_bytes_read - read_before >= size, "not all of it was scanned"
        await bench.abandon(log)
        return megabytes_per_second(size, seconds)

    return contender


def _read_and_check(path: str, size: int) -> Contender:
    async def contender() -> float:
        descriptor = os.open(path, os.O_RDONLY)
        started = perf_counter()
        for position in range(0, size, MEBIBYTE):
            google_crc32c.value(os.pread(descriptor, MEBIBYTE, position))
        seconds = perf_counter() - started
        os.close(descriptor)
        return megabytes_per_second(size, seconds)

    return contender
