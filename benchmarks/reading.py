"""Reading a partition's log in order, from the page cache and from memory, against a bare loop of reads."""

import os
from itertools import cycle, islice
from statistics import median
from time import perf_counter
from typing import NamedTuple

from appending import append_all
from disk import Bench
from measure import MEBIBYTE, MEGABYTE, Aim, Contender, Result, megabytes_per_second, slowdown, take_turns
from samples import make_batches

from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import PartitionLog

READ_AIM = Aim(1.3, "< 1.3x")
READ_BYTES = MEBIBYTE
_TAIL_READS = 1000


class _Place(NamedTuple):
    """A batch boundary: its offset, and its position in the file."""

    offset: int
    position: int


async def measure_reads(
    bench: Bench, record_bytes: int, label: str, batch_bytes: int, batch_label: str, log_bytes: int, rounds: int
) -> list[Result]:
    """Reads of at most 1 MiB at a time, of a log that the page cache holds and that is far longer than its tail."""
    section = f"Read, {batch_label} batches of {label} records"
    config = LogConfig(flush_mode=FlushMode.OS)
    batches = make_batches(record_bytes, batch_bytes)
    log = await bench.make_log(config)
    repeated = islice(cycle(batches), log_bytes // len(batches[0]))
    await append_all(log, repeated, bench.disk.clock.wall_ms(), in_flight=8)
    try:
        end = await _place_before_tail(log, config.tail_bytes)
        first_in_tail = _first_in_tail(log)
        samples = await take_turns(
            rounds,
            {
                "log": _log_reader(log, end.offset),
                "bare": _bare_reader(bench.segment_path(log), end.position),
                "tail": _tail_reader(log, first_in_tail),
            },
        )
        tail_read_bytes = (await log.read(first_in_tail, READ_BYTES)).size_bytes
    finally:
        await bench.discard(log)
    tail_rate = median(samples["tail"])
    note = f"{tail_read_bytes / MEGABYTE / tail_rate * 1e6:.1f} us a read, nothing is copied"
    ratio = slowdown(samples, "log", "bare")
    return [
        Result(section, "bare os.pread loop, 1 MiB", median(samples["bare"]), "MB/s"),
        Result(section, "log.read, page cache", median(samples["log"]), "MB/s", ratio, READ_AIM),
        Result(section, "log.read, tail in memory", tail_rate, "MB/s", note=note),
    ]


async def _place_before_tail(log: PartitionLog, tail_bytes: int) -> _Place:
    """A batch boundary well below what memory holds. Everything before it is read once on the way."""
    limit = log.size_bytes - 2 * tail_bytes
    offset = position = 0
    while position < limit:
        found = await log.read(offset, READ_BYTES)
        offset, position = found.next_offset, position + found.size_bytes
    return _Place(offset, position)


def _first_in_tail(log: PartitionLog) -> int:
    first = log.end_offset
    while (cursor := log.tail.find(first - 1)) is not None:
        chunk = log.tail.at(cursor)
        assert chunk is not None
        first = chunk.start
    return first


def _log_reader(log: PartitionLog, end: int) -> Contender:
    async def contender() -> float:
        offset = size = 0
        started = perf_counter()
        while offset < end:
            found = await log.read(offset, READ_BYTES)
            size += found.size_bytes
            offset = found.next_offset
        return megabytes_per_second(size, perf_counter() - started)

    return contender


def _bare_reader(path: str, end: int) -> Contender:
    async def contender() -> float:
        descriptor = os.open(path, os.O_RDONLY)
        position = 0
        started = perf_counter()
        while position < end:
            # Held until the next is there, as a reader of the log holds what it was given.
            data = os.pread(descriptor, min(READ_BYTES, end - position), position)
            position += len(data)
        seconds = perf_counter() - started
        os.close(descriptor)
        return megabytes_per_second(position, seconds)

    return contender


def _tail_reader(log: PartitionLog, first: int) -> Contender:
    """Over and over from `first` to the end."""

    async def contender() -> float:
        offset, size = first, 0
        started = perf_counter()
        for _ in range(_TAIL_READS):
            found = await log.read(offset, READ_BYTES)
            size += found.size_bytes
            offset = found.next_offset if found.next_offset < log.end_offset else first
        return megabytes_per_second(size, perf_counter() - started)

    return contender
