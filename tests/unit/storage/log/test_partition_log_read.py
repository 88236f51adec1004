"""Reading: bounds, sizes, memory and disk, and what happens to a read when the log changes under it."""

import asyncio
import struct

import pytest
from support.virtual_log import (
    DIRECTORY,
    Machine,
    append,
    frame,
    headers,
    make_batch,
    offsets,
    produce,
    virtual,
)

from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import iterate_batches
from lograft.storage.errors import CorruptLog, InvalidBatch, LogClosed, OffsetOutOfRange
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.log_reader import Batches
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.state.epoch_cache import EpochEntry

SIZE = len(make_batch(2))
IN_MEMORY = LogConfig()
ON_DISK = LogConfig(tail_bytes=0, index_interval_bytes=2 * SIZE)
MANY_SEGMENTS = LogConfig(tail_bytes=0, segment_bytes=3 * SIZE, index_interval_bytes=100)

CONFIGS = pytest.mark.parametrize("config", [IN_MEMORY, ON_DISK, MANY_SEGMENTS], ids=["memory", "disk", "segments"])


async def filled(machine: Machine, config: LogConfig, batches: int = 10) -> PartitionLog:
    """A log of batches of two records each."""
    log = await machine.open(config)
    for _ in range(batches):
        append(log, 2)
    await log.wait_stable(log.end_offset)
    return log


def bases(found: Batches) -> list[int]:
    return [header.base_offset for buffer in found.buffers for _, header in iterate_batches(buffer)]


@CONFIGS
@virtual
async def test_a_read_starts_with_the_batch_that_holds_the_offset(config: LogConfig) -> None:
    log = await filled(Machine(cold_reads=0.5), config)
    for offset in range(20):
        found = await log.read(offset, 1)
        assert (bases(found), found.next_offset) == ([offset // 2 * 2], offset // 2 * 2 + 2)


@CONFIGS
@virtual
async def test_a_read_ends_within_its_size_but_has_at_least_one_batch(config: LogConfig) -> None:
    log = await filled(Machine(), config)
    for max_bytes in (0, 1, SIZE, SIZE + 1, 2 * SIZE - 1, 2 * SIZE, 5 * SIZE, 100 * SIZE):
        found = await log.read(0, max_bytes)
        assert found.size_bytes <= max(max_bytes, SIZE)
        assert bases(found) == list(range(0, found.next_offset, 2))
        assert found.next_offset >= 2
    if config is IN_MEMORY:
        assert (await log.read(0, 5 * SIZE)).size_bytes == 5 * SIZE


@CONFIGS
@virtual
async def test_a_read_stays_below_its_bound_whatever_fits(config: LogConfig) -> None:
    log = await filled(Machine(), config)
    for start in range(20):
        for bound in range(21):
            found = await log.read(start, 10_000, bound)
            expected = [base for base in range(0, 20, 2) if base + 2 > start and base + 2 <= bound]
            assert bases(found) == expected[: len(found.buffers) and len(bases(found))]
            assert bool(bases(found)) == bool(expected)
            assert found.next_offset == (bases(found)[-1] + 2 if expected else start)


@CONFIGS
@virtual
async def test_a_read_outside_the_log_names_its_range(config: LogConfig) -> None:
    log = await filled(Machine(), config)
    log.delete_prefix(5)
    for offset in (-1, 0, 4, 21, 2**40):
        with pytest.raises(OffsetOutOfRange) as error:
            await log.read(offset, 100)
        assert (error.value.offset, error.value.start_offset, error.value.end_offset) == (offset, 5, 20)
    assert bases(await log.read(5, 1)) == [4]  # the batch that holds it begins before
    assert (await log.read(20, 100)) == Batches([], 20)


@CONFIGS
@virtual
async def test_holes_are_read_over(config: LogConfig) -> None:
    machine = Machine(cold_reads=0.5)
    log = await machine.open(config)
    log.append_as_follower(frame(0, make_batch(2, offset=3, epoch=1), epochs=(EpochEntry(1, 0),)))
    log.append_as_follower(frame(5, make_batch(2, offset=10, epoch=1), make_batch(2, offset=30, epoch=1)))
    log.roll()
    log.append_as_follower(frame(32, *(make_batch(2, offset=at, epoch=1) for at in (40, 60, 80, 100))))
    await log.wait_stable(102)
    stored = [3, 10, 30, 40, 60, 80, 100]
    for start in range(102):
        found = await log.read(start, 1)
        assert bases(found) == [next(base for base in stored if base + 2 > start)]
        assert await offsets(log, start) == [base for base in stored if base + 2 > start]


@virtual
async def test_the_newest_is_served_from_memory_without_touching_the_disk() -> None:
    machine = Machine()
    log = await filled(machine, IN_MEMORY)
    before = len(machine.points.names)
    assert await offsets(log) == list(range(0, 20, 2))
    assert len(machine.points.names) == before


@virtual
async def test_what_is_not_yet_written_can_be_read() -> None:
    log = await filled(Machine(slowdown=1000), MANY_SEGMENTS, batches=1)
    for _ in range(10):
        append(log, 2)
    assert await offsets(log) == list(range(0, 22, 2))
    assert log.stable_end == 2


@virtual
async def test_more_segments_than_may_be_open_are_read_all_the_same() -> None:
    machine = Machine(cold_reads=0.5, max_open=2)
    log = await filled(machine, MANY_SEGMENTS, batches=60)
    log = await machine.reopen(log)
    for _ in range(3):
        assert await offsets(log) == list(range(0, 120, 2))
        open_logs = [name for name in machine.open_files().elements() if name.endswith(".log")]
        assert len(open_logs) <= 3
    readers = [asyncio.ensure_future(offsets(log, start)) for start in range(0, 120, 12)]
    for start, reader in zip(range(0, 120, 12), readers, strict=True):
        assert await reader == list(range(start, 120, 2))


@virtual
async def test_an_index_that_is_missing_or_wrong_is_rebuilt_when_it_is_needed() -> None:
    machine = Machine(cold_reads=0.5)
    log = await filled(machine, MANY_SEGMENTS, batches=12)
    before = None
    for damage in ("remove", "flip", "other"):
        await log.close()
        name = "00000000000000000006.index"
        before = before or machine.content(name)
        match damage:
            case "remove":
                machine.remove(name)
            case "flip":
                machine.files.flip_bit(f"{DIRECTORY}/{name}", 60, 1)
            case "other":
                machine.overwrite(name, machine.content("00000000000000000000.index"))
        await machine.writer.close()
        machine.boot()
        log = await machine.open(MANY_SEGMENTS)
        assert await offsets(log) == list(range(0, 24, 2))
        await log.flush()
        rebuilt = machine.content(name)
        assert len(rebuilt) == len(before)


# -- damage below


async def damaged(machine: Machine, at: int, layout: str, value: int) -> PartitionLog:
    """A log whose fourth batch, in a sealed segment that nothing scans, has a field changed."""
    log = await filled(machine, LogConfig(tail_bytes=0, index_interval_bytes=100))
    log.roll()
    append(log, 2)
    await log.close()
    await machine.writer.close()
    content = bytearray(machine.content("00000000000000000000.log"))
    struct.pack_into(layout, content, 3 * SIZE + at, value)
    machine.overwrite("00000000000000000000.log", bytes(content))
    machine.boot()
    return await machine.open(LogConfig(tail_bytes=0))


DAMAGE = pytest.mark.parametrize(
    ("at", "layout", "value"),
    [
        pytest.param(0, ">q", 2**40, id="an offset far beyond the segment"),
        pytest.param(0, ">q", -1, id="a negative offset"),
        pytest.param(0, ">q", 1, id="an offset that falls"),
        pytest.param(8, ">i", 0, id="no length"),
        pytest.param(8, ">i", 2**30, id="a length beyond the segment"),
        pytest.param(8, ">i", SIZE, id="a length that ends in the next batch"),
        pytest.param(23, ">i", 2**30, id="a last offset far beyond"),
        pytest.param(23, ">i", -2, id="a negative last offset"),
    ],
)


@DAMAGE
@pytest.mark.parametrize("max_bytes", [1, 2 * SIZE])
@virtual
async def test_a_batch_that_cannot_be_there_is_reported_not_skipped(
    at: int, layout: str, value: int, max_bytes: int
) -> None:
    """Neither a stuck reader, nor one that goes on with the next segment as if nothing were missing."""
    machine = Machine()
    log = await damaged(machine, at, layout, value)
    with pytest.raises(CorruptLog) as error:
        await headers(log, max_bytes=max_bytes)
    assert error.value.path.endswith("00000000000000000000.log")


@DAMAGE
@virtual
async def test_damage_in_the_middle_of_a_large_read_is_for_the_receiver_to_see(
    at: int, layout: str, value: int
) -> None:
    """Not every batch of a large read is looked at; who gets them checks CRCs, and that offsets rise."""
    log = await damaged(Machine(), at, layout, value)
    try:
        found = await offsets(log, max_bytes=10_000)
    except (CorruptLog, InvalidBatch):
        return
    assert found != sorted(found)


@virtual
async def test_a_segment_file_that_is_gone_is_corruption() -> None:
    machine = Machine(max_open=1)
    log = await filled(machine, MANY_SEGMENTS)
    await machine.writer.call(lambda: None)  # sealed segments are closed by then
    machine.remove("00000000000000000006.log")
    with pytest.raises(CorruptLog, match="gone"):
        await offsets(log)


# -- meanwhile


async def reads_until(log: PartitionLog, machine: Machine, rng: Rng, done: asyncio.Event, seen: list[int]) -> None:
    """Read from random places until told to stop: each read is whole, or says that the offset is out of range."""
    while not done.is_set():
        start = rng.randint(0, max(log.end_offset, 1))
        try:
            found = await log.read(start, rng.choice([1, 2 * SIZE, 10_000]))
        except OffsetOutOfRange:
            await machine.clock.sleep_ms(0.1)
            continue
        for buffer in found.buffers:
            seen.extend(header.base_offset for _, header in iterate_batches(buffer))
        if found.buffers:
            assert bases(found)[0] <= start < found.next_offset
        await machine.clock.sleep_ms(rng.random())


@pytest.mark.parametrize("seed", range(25))
@virtual
async def test_reads_go_on_while_the_log_is_appended_to_cut_and_shortened(seed: int) -> None:
    machine = Machine(seed, cold_reads=0.7, max_open=2, slowdown=2)
    rng = Rng(seed)
    log = await filled(machine, MANY_SEGMENTS, batches=20)
    log = await machine.reopen(log)
    done, seen = asyncio.Event(), []  # type: ignore[var-annotated]
    async with asyncio.TaskGroup() as tasks:
        for _ in range(6):
            tasks.create_task(reads_until(log, machine, rng.fork(), done, seen))
        for _ in range(25):
            match rng.choice(["append", "append", "truncate", "delete", "wait", "roll", "checkpoint"]):
                case "append":
                    for _ in range(rng.randint(1, 8)):
                        append(log, 2)
                case "truncate":
                    await log.truncate(rng.randint(log.start_offset, log.end_offset))
                case "delete":
                    log.delete_prefix(rng.randint(log.start_offset, min(log.stable_end, log.start_offset + 8)))
                case "wait":
                    await machine.clock.sleep_ms(rng.random() * 10)
                case "roll" if log.segments.active.size_bytes:
                    log.roll()
                case "checkpoint":
                    await log.checkpoint()
        await log.wait_stable(log.end_offset)
        done.set()
    assert seen
    assert (await offsets(log))[-1:] == ([log.end_offset - 2] if log.end_offset > log.start_offset else [])
    await log.close()
    await machine.writer.close()
    assert dict(machine.open_files()) == {}


@pytest.mark.parametrize("seed", range(15))
@virtual
async def test_an_index_rebuilt_while_the_log_is_cut_and_written_anew_reports_no_corruption(seed: int) -> None:
    machine = Machine(seed, cold_reads=1, max_open=1, slowdown=4)
    log = await filled(machine, MANY_SEGMENTS, batches=12)
    await log.close()
    await machine.writer.close()
    for name in machine.names():
        if name.endswith("index"):
            machine.remove(name)
    machine.boot()
    log = await machine.open(MANY_SEGMENTS)
    for segment in list(log.segments)[:-1]:
        segment.index = None  # as after a start that had no need to read them
    readers = [asyncio.ensure_future(log.read(start, 10_000)) for start in range(0, 24, 3)]
    times = asyncio.ensure_future(log.offset_for_time(2**50))
    await machine.clock.sleep_ms(seed / 4)
    cut = 6 + seed % 6
    await log.truncate(cut)
    log.epochs.assign(2, log.end_offset)
    for _ in range(12):
        append(log, 1)  # other batches, of another size
        if seed % 2:
            await machine.clock.sleep_ms(0.5)
    for start, reader in zip(range(0, 24, 3), readers, strict=True):
        (found,) = await asyncio.gather(reader, return_exceptions=True)
        if isinstance(found, OffsetOutOfRange):
            assert start >= cut - 1
        else:
            assert isinstance(found, Batches), found
            assert not found.buffers or bases(found)[0] <= start < found.next_offset
    assert await times is None


@pytest.mark.parametrize("seed", range(10))
@virtual
async def test_a_read_that_is_under_way_when_the_log_is_closed_ends(seed: int) -> None:
    machine = Machine(seed, cold_reads=1, max_open=1, slowdown=3)
    log = await filled(machine, MANY_SEGMENTS, batches=12)
    log = await machine.reopen(log)
    readers = [asyncio.ensure_future(offsets(log, start)) for start in range(0, 24, 3)]
    await machine.clock.sleep_ms(seed / 2)
    await log.close()
    for start, outcome in zip(range(0, 24, 3), await asyncio.gather(*readers, return_exceptions=True), strict=True):
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, LogClosed)
        else:
            assert outcome == list(range(start // 2 * 2, 24, 2))
    await machine.writer.close()
    assert dict(machine.open_files()) == {}


@virtual
async def test_a_closed_log_is_not_read() -> None:
    for config in (IN_MEMORY, MANY_SEGMENTS):
        log = await filled(Machine(), config)
        await log.close()
        for ask in (log.read(0, 100), log.offset_for_time(0), log.greatest_timestamp()):
            with pytest.raises(LogClosed):
                await ask


@virtual
async def test_a_cancelled_read_gives_its_file_back() -> None:
    machine = Machine(cold_reads=1, max_open=1, slowdown=10)
    log = await filled(machine, MANY_SEGMENTS)
    log = await machine.reopen(log)
    for delay_ms in range(12):
        reader = asyncio.ensure_future(log.read(delay_ms, 100))
        await machine.clock.sleep_ms(delay_ms)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
    await machine.clock.sleep_ms(1000)
    assert all(segment.leases == 0 for segment in log.segments)
    produce(log, 0)
    await log.close()
    await machine.writer.close()
    assert dict(machine.open_files()) == {}
