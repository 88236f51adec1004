"""Logs to be cleaned, on real files and on simulated ones, and what is in them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.loop import VirtualClock
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.runtime.clock import LoopClock
from lograft.runtime.disk.disk_writer import DiskWriter
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches
from lograft.storage.batch.header import BatchHeader, parse_header
from lograft.storage.batch.record import Record
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.segment import SegmentFiles
from lograft.storage.log.admission import Admitted
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_disk import Disk
from lograft.storage.log.partition_log import PartitionLog, open_log

NOW_MS = 1_800_000_000_000
DIRECTORY = "/data/t-0.x"

Pair = tuple[bytes | None, bytes | None]


def config(**changes: Any) -> LogConfig:
    """A compacted topic whose every dirty byte is worth cleaning, and that reads from disk, not from memory."""
    defaults: dict[str, Any] = {
        "cleanup_compact": True,
        "cleanup_delete": False,
        "min_cleanable_dirty_ratio": 0.0,
        "tail_bytes": 0,
        "index_interval_bytes": 100,
    }
    return LogConfig(**(defaults | changes))


@asynccontextmanager
async def real_disk(directory: Any) -> AsyncIterator[Disk]:
    """The disk this process sees; its threads are gone afterwards."""
    panics: list[BaseException] = []
    files, blocking, workers = OsFiles(), ThreadBlocking(2), ThreadWorkers(panics.append)
    writer = DiskWriter(files, workers, str(directory))
    try:
        yield Disk(files, blocking, LoopClock(), writer, SegmentFiles(files, blocking, max_open=2))
    finally:
        await writer.close()
        await workers.close()
        await blocking.close()
        files.close()
    assert panics == []


class SimulatedNode:
    """A node with one log, on files that outlive its crashes. Make it on a virtual loop."""

    def __init__(self, seed: int, log_config: LogConfig) -> None:
        self._rng = Rng(seed)
        self._config = log_config
        self.files = VirtualFiles(self._rng.fork(), cold_read_probability=0.5)
        self.files.make_directory("/data")
        self.files.sync_directory("/data")
        self.files.sync_directory("/")
        self.log: PartitionLog

    async def boot(self) -> PartitionLog:
        self._speed = DiskSpeed(self._rng.fork())
        self._blocking = VirtualBlocking(self._speed)
        self._workers = VirtualWorkers(self._rng.fork(), self._speed)
        writer = DiskWriter(self.files, self._workers, "/data")
        clock = VirtualClock(asyncio.get_running_loop())
        segment_files = SegmentFiles(self.files, self._blocking, max_open=2)
        disk = Disk(self.files, self._blocking, clock, writer, segment_files)
        self.log = await open_log(disk, DIRECTORY, self._config)
        return self.log

    def crash(self, *, power_fails: bool) -> None:
        self._workers.kill()
        self._blocking.kill()
        if power_fails:
            self.files.power_failure()
        else:
            self.files.process_crash()


def append_batch(log: PartitionLog, batch: bytes) -> BatchHeader:
    """Append a batch as it is, whatever a leader would say to it."""
    if log.epochs.latest is None:
        log.assign_epoch(1)
    latest = log.epochs.latest
    assert latest is not None
    appended = log.append_as_leader(Admitted(parse_header(batch), batch), latest.epoch)
    return parse_header(batch)._replace(base_offset=appended.base_offset)


def append(log: PartitionLog, *pairs: Pair, at_ms: int = NOW_MS, **fields: Any) -> BatchHeader:
    """Append one batch of (key, value) pairs."""
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return append_batch(log, encode_batch(values, keys=keys, timestamps=at_ms, **fields))


async def seal(log: PartitionLog) -> None:
    """All that was appended is in sealed segments now, and durable."""
    if log.segments.active.size_bytes:
        log.roll()
    await log.flush()


async def read_batches(log: PartitionLog, start: int | None = None) -> list[bytes]:
    """Every batch, as it is stored."""
    offset = log.start_offset if start is None else start
    batches = []
    while offset < log.end_offset:
        found = await log.read(offset, 400)
        if not found.buffers:
            break
        for buffer in found.buffers:
            for position, header in iterate_batches(buffer):
                batches.append(bytes(buffer[position : position + header.total_bytes]))
        assert found.next_offset > offset
        offset = found.next_offset
    return batches


async def read_records(log: PartitionLog) -> list[Record]:
    """Every record that can be decoded; their offsets rise."""
    records = []
    for batch in await read_batches(log):
        try:
            records += [record for record in decode_records(batch) if record.offset >= log.start_offset]
        except InvalidBatch:
            continue
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    return records


def contents(records: Iterable[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


def latest_by_key(records: Sequence[Record]) -> dict[bytes, bytes]:
    """What a reader that goes through the whole log knows at the end."""
    table: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
