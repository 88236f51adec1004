"""Cancelled callers and failing disks: what was lost is never taken for durable, and no one is misled."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from support.virtual_log import Machine, append, open_log, virtual  # type: ignore[attr-defined]

from lograft.runtime.clock import LoopClock
from lograft.runtime.disk.disk_writer import DiskFailed, DiskWriter
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.files import File
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.storage.batch.codec import encode_batch
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import HEADER_BYTES, check_crc, parse_header
from lograft.storage.errors import BatchTooLarge, LogTruncated
from lograft.storage.files.segment import SegmentFiles
from lograft.storage.log.admission import admit
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_disk import Disk

OS = LogConfig(flush_mode=FlushMode.OS)
SEEDS = range(15)


class GatedFile:
    """Truncations wait until the gate is opened."""

    def __init__(self, file: File, gate: threading.Event, waiting: threading.Event) -> None:
        self._file = file
        self._gate = gate
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def truncate(self, size: int) -> None:
        self._waiting.set()
        assert self._gate.wait(30)
        self._file.truncate(size)


class GatedFiles(OsFiles):
    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()
        self.gate = threading.Event()

    def open(self, path: str) -> Any:
        return GatedFile(super().open(path), self.gate, self.waiting)


def test_a_cancelled_open_does_not_go_on_behind_the_next_one(tmp_path: Path) -> None:
    """It once went on to cut off what the next one to open the log had appended and acknowledged."""
    directory = str(tmp_path / "topic-0")

    async def write() -> None:
        files, blocking, workers = OsFiles(), ThreadBlocking(2), ThreadWorkers(pytest.fail)  # type: ignore[arg-type]
        writer = DiskWriter(files, workers, str(tmp_path))
        log = await open_log(Disk(files, blocking, LoopClock(), writer, SegmentFiles(files, blocking)), directory, OS)
        append(log, 3)
        await log.close()
        await writer.close()
        await workers.close()
        await blocking.close()
        files.close()

    async def open_and_give_up() -> None:
        files, blocking, workers = GatedFiles(), ThreadBlocking(2), ThreadWorkers(pytest.fail)  # type: ignore[arg-type]
        writer = DiskWriter(files, workers, str(tmp_path))
        disk = Disk(files, blocking, LoopClock(), writer, SegmentFiles(files, blocking))
        opening = asyncio.ensure_future(open_log(disk, directory, OS))
        await asyncio.to_thread(files.waiting.wait, 30)
        opening.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not opening.done(), "recovery is still at work"
        files.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await writer.close()
        await workers.close()
        await blocking.close()
        files.close()

    asyncio.run(write())
    path = Path(f"{directory}/{0:020d}.log")
    sound_bytes = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(30))
    asyncio.run(open_and_give_up())
    assert path.stat().st_size == sound_bytes


@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_a_sync_that_fails_while_opening_ends_writing_for_good(seed: int) -> None:
    machine = Machine(seed)
    log = await machine.open(OS)
    append(log, 3)
    await log.wait_stable(3)
    machine.crash(power_fails=False)
    machine.files.fail_next_sync(".log")
    for _ in range(2):
        with pytest.raises(DiskFailed):
            await machine.open(OS)


@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_a_cancelled_flush_does_not_lose_its_failure(seed: int) -> None:
    machine = Machine(seed)
    log = await machine.open(OS)
    append(log, 3)
    await log.wait_stable(3)
    machine.files.fail_next_sync(".log")
    flushing = asyncio.ensure_future(log.flush())
    await machine.clock.sleep_ms(seed / 5)
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)
    if log.failure is None:  # cancelled before it came to the sync, which fails now
        with pytest.raises(DiskFailed):
            await log.flush()
    assert log.synced_end == 0
    with pytest.raises(DiskFailed):
        await log.checkpoint()


@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_of_two_flushes_neither_believes_a_sync_after_a_failed_one(seed: int) -> None:
    machine = Machine(seed)
    log = await machine.open(OS)
    append(log, 3)
    await log.wait_stable(3)
    machine.files.fail_next_sync(".log")
    outcomes = await asyncio.gather(log.flush(), log.flush(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [DiskFailed, DiskFailed]
    assert log.synced_end == 0


@virtual
async def test_who_waits_for_what_is_cut_off_is_told() -> None:
    machine = Machine()
    log = await machine.open()
    append(log, 3)
    await log.wait_stable(3)
    append(log, 2)
    waiting = asyncio.ensure_future(log.wait_stable(100))
    await log.truncate(3)
    with pytest.raises(LogTruncated):
        await waiting


@virtual
async def test_housekeeping_steps_aside_while_the_log_is_cut() -> None:
    machine = Machine()
    log = await machine.open(LogConfig(segment_ms=0))
    append(log, 3)
    append(log, 3)
    cutting = asyncio.ensure_future(log.truncate(3))
    await asyncio.sleep(0)
    assert log.is_exclusive
    log.roll_if_old()
    await log.checkpoint()
    await log.wait_stable(0)
    await cutting
    assert log.end_offset == 3


@virtual
async def test_append_time_does_not_go_back_over_a_restart_with_an_empty_active_segment() -> None:
    machine = Machine()
    config = LogConfig(append_time=True)
    log = await machine.open(config)
    append(log, 1)
    log.roll()
    latest = (await log.greatest_timestamp()).timestamp
    log = await machine.reopen(log, config)
    early = admit(encode_batch([b"x"], timestamps=0), config, now_ms=latest - 60_000)
    log.assign_epoch(9)
    log.append_as_leader(early, 9)
    found = await log.offset_for_time(latest)
    batch = (await log.read(log.end_offset - 1, 1000)).buffers[0]
    assert found is not None
    assert parse_header(batch).max_timestamp >= latest


def test_a_batch_that_grows_too_large_when_converted_is_refused() -> None:
    config = LogConfig(max_message_bytes=4096, compression=Compression.NONE)
    small = encode_batch([bytes(100_000)], timestamps=1, compression=Compression.ZSTD)
    assert len(small) < 4096
    with pytest.raises(BatchTooLarge):
        admit(small, config, now_ms=1)


@virtual
async def test_a_batch_no_one_can_open_does_not_break_the_search_by_time() -> None:
    machine = Machine()
    log = await machine.open()
    log.assign_epoch(1)
    for payload in (b"first", b"second"):
        log.append_as_leader(admit(encode_batch([payload], timestamps=1000), log.config, 1000), 1)
    good = encode_batch([b"z" * 100], timestamps=2000, compression=Compression.LZ4)
    bad = bytearray(good)
    bad[HEADER_BYTES + 12] ^= 0xFF
    bad[17:21] = google_crc32c.value(bytes(bad[21:])).to_bytes(4, "big")
    check_crc(bytes(bad), 0, parse_header(bad))
    log.append_as_leader(admit(bytes(bad), log.config, 2000), 1)
    log.append_as_leader(admit(encode_batch([b"last"], timestamps=3000), log.config, 3000), 1)
    found = await log.offset_for_time(2000)
    assert found is not None
    assert (found.offset, found.timestamp) == (3, 3000)
