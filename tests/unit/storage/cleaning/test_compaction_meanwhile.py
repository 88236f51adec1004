"""What else may happen to a log while it is compacted, in every order that a simulated disk brings about."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest
from support.cleaning import (
    DIRECTORY,
    NOW_MS,
    SimulatedNode,
    append,
    config,
    contents,
    latest_by_key,
    read_records,
    seal,
)

from lograft.chaos.world.loop import run_virtual
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.storage.batch.header import parse_header
from lograft.storage.cleaning.compaction import CompactionFailed, CompactionResult, compact
from lograft.storage.errors import OffsetOutOfRange
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.state.epoch_cache import EpochEntry

SEEDS = range(15)
KEYS = 5
BATCHES = 24

Act = Callable[[PartitionLog], Awaitable[object]]


async def _fill(log: PartitionLog) -> None:
    """Batches of two records in twelve sealed segments, of which several become one."""
    for number in range(BATCHES):
        append(log, (b"%d" % (number % KEYS), b"%d" % number), (b"%d" % (number * 3 % KEYS), b"%d!" % number))
        if number % 2:
            log.roll()
    await log.flush()


async def _compact_while(seed: int, act: Act, delay_ms: float) -> tuple[SimulatedNode, CompactionResult | None]:
    """Compact, and after a while of it `act`; then all that the log had open is closed again."""
    node = SimulatedNode(seed, config(segment_bytes=900))
    log = await node.boot()
    await _fill(log)

    async def act_later() -> None:
        await asyncio.sleep(delay_ms / 1000)
        await act(log)

    async with asyncio.TaskGroup() as tasks:
        compaction = tasks.create_task(compact(log, log.end_offset, NOW_MS))
        tasks.create_task(act_later())
    return node, compaction.result()


async def _check_reopened(node: SimulatedNode) -> None:
    """Nothing is leased any more, nothing is left behind, and a second look at the disk gives the same."""
    log = node.log
    await log.disk.writer.call(lambda: None)
    assert [segment.leases for segment in log.segments] == [0] * len(log.segments)
    before, end, start = await read_records(log), log.end_offset, log.start_offset
    await log.close()
    names = node.files.list_directory(DIRECTORY)
    assert [name for name in names if name.endswith((".cleaned", ".swap", ".tmp"))] == []
    log = await node.boot()
    assert (log.end_offset, log.start_offset) == (end, start)
    assert await read_records(log) == before


def _expected(end: int = 2 * BATCHES) -> dict[bytes, bytes]:
    table = {}
    for number in range(end // 2):
        table[b"%d" % (number % KEYS)] = b"%d" % number
        table[b"%d" % (number * 3 % KEYS)] = b"%d!" % number
    return table


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_are_not_disturbed(seed: int) -> None:
    """Every read, begun at any moment, gives whole batches with rising offsets, and never skips a latest record."""
    latest = {}
    for number in range(BATCHES):
        latest[b"%d" % (number % KEYS)] = 2 * number
        latest[b"%d" % (number * 3 % KEYS)] = 2 * number + 1

    async def read_again_and_again(log: PartitionLog) -> None:
        while log.checkpointed.first_dirty == 0:
            offsets = [record.offset for record in await read_records(log)]
            assert set(latest.values()) <= set(offsets)
            await asyncio.sleep(0.0001)

    async def read_each(log: PartitionLog) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(6):
                tasks.create_task(read_again_and_again(log))

    async def run() -> None:
        node, result = await _compact_while(seed, read_each, delay_ms=seed % 10)
        assert result is not None
        assert not result.is_interrupted
        assert sorted(latest.values()) == [record.offset for record in await read_records(node.log)]
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_searches_by_time_are_not_disturbed(seed: int) -> None:
    async def search(log: PartitionLog) -> None:
        while log.checkpointed.first_dirty == 0:
            found = await log.offset_for_time(NOW_MS)
            assert found is not None
            assert await log.greatest_timestamp() is not None
            await asyncio.sleep(0.0001)

    async def run() -> None:
        _, result = await _compact_while(seed, search, delay_ms=0)
        assert result is not None

    run_virtual(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_appends_and_rolls_go_on(seed: int) -> None:
    async def act(log: PartitionLog) -> None:
        for number in range(5):
            append(log, (b"new", b"%d" % number))
            log.roll()
            await asyncio.sleep(0.001)

    async def run() -> None:
        node, result = await _compact_while(seed, act, delay_ms=seed % 15)
        assert result is not None
        assert not result.is_interrupted
        records = await read_records(node.log)
        assert latest_by_key(records) == _expected() | {b"new": b"4"}
        assert [record.value for record in records if record.key == b"new"] == [b"%d" % n for n in range(5)]
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("cut_at", [0, 6, 20, 44, 47])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_cut_off_stays_cut_off(seed: int, cut_at: int) -> None:
    """And what is written in its place is not taken for what was there."""

    async def act(log: PartitionLog) -> None:
        end = await log.truncate(cut_at)
        for number in range(end // 2, BATCHES):
            append(log, (b"after", b"%d" % number), (b"cut", b"%d" % number))
            if number % 2:
                log.roll()

    async def run() -> None:
        node, result = await _compact_while(seed, act, delay_ms=seed % 15)
        records = await read_records(node.log)
        assert node.log.end_offset == 2 * BATCHES
        end = cut_at // 2 * 2
        written_anew = [record.offset for record in records if record.key in (b"after", b"cut")]
        assert written_anew == list(range(end, 2 * BATCHES))
        assert node.log.checkpointed.first_dirty <= end
        if result is not None and result.is_interrupted:
            assert node.log.checkpointed.first_dirty == 0
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("start", [1, 9, 30, 48])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_deleted_prefix_stays_deleted(seed: int, start: int) -> None:
    async def act(log: PartitionLog) -> None:
        log.delete_prefix(start)

    async def run() -> None:
        node, _ = await _compact_while(seed, act, delay_ms=seed % 15)
        records = await read_records(node.log)
        assert node.log.start_offset == start
        latest = {record.key: record.value for record in records}
        assert latest == {key: value for key, value in _expected().items() if key in latest}
        assert start > 38 or latest == _expected()
        await _check_reopened(node)
        # The next run finishes what was left.
        append(node.log, (b"x", b"x"))
        await seal(node.log)
        result = await compact(node.log, node.log.end_offset, NOW_MS)
        assert result is not None
        assert not result.is_interrupted
        offsets = [record.offset for record in await read_records(node.log)]
        assert len(offsets) == len(latest) + 1
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reset_leaves_nothing_of_it(seed: int) -> None:
    async def act(log: PartitionLog) -> None:
        await log.reset(100, [EpochEntry(3, 100)])
        append(log, (b"0", b"anew"))

    async def run() -> None:
        node, _ = await _compact_while(seed, act, delay_ms=seed % 15)
        assert contents(await read_records(node.log)) == [(100, b"0", b"anew")]
        assert node.log.checkpointed.first_dirty == 100
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_that_is_closed_is_left_whole(seed: int) -> None:
    async def run() -> None:
        node, _ = await _compact_while(seed, PartitionLog.close, delay_ms=seed % 15)
        log = await node.boot()
        assert latest_by_key(await read_records(log)) == _expected()
        assert log.end_offset == 2 * BATCHES
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cancelled_compaction_lets_go_of_everything(seed: int) -> None:
    async def run() -> None:
        node = SimulatedNode(seed, config(segment_bytes=900))
        log = await node.boot()
        await _fill(log)
        task = asyncio.get_running_loop().create_task(compact(log, log.end_offset, NOW_MS))
        await asyncio.sleep(0.0007 * seed)
        task.cancel()
        await asyncio.wait([task])
        assert latest_by_key(await read_records(log)) == _expected()
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("knows_index", [False, True])
def test_a_reader_whose_open_comes_late_is_not_given_the_file_that_has_the_name_by_then(knows_index: bool) -> None:
    async def run() -> None:
        node = SimulatedNode(1, config(segment_bytes=900))
        log = await node.boot()
        await _fill(log)
        await log.close()
        log = await node.boot()
        first = log.segments[0]
        if knows_index:
            for segment in log.segments:
                await log.index_of(segment)
        assert first.handle is None
        may_open = _hold_next_open(node)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(log.read(0, 10_000))
            for _ in range(3):  # turns of the loop, until it waits for the file
                await asyncio.sleep(0)
            assert first.leases
            await compact(log, log.end_offset, NOW_MS)
            assert first.retired
            may_open.set_result(None)
        found = reading.result()
        # It reads the old file if it knew where in it to read; else it had to look again, and finds what is there now.
        first_batch = parse_header(found.buffers[0])
        assert (first_batch.base_offset, first_batch.record_count) == ((0, 2) if knows_index else (6, 0))
        assert first.leases == 0
        assert first.handle is None
        await _check_reopened(node)

    run_virtual(run)


def _hold_next_open(node: SimulatedNode) -> "asyncio.Future[None]":
    """The next file to be opened beside the loop is opened when the answer says so."""
    blocking = node.log.disk.blocking
    run_blocking = blocking.run_blocking
    may_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open_later(*arguments: object) -> object:
        await may_open
        return await run_blocking(*arguments)  # type: ignore[arg-type]

    def hold(function: Callable[..., object], *arguments: object) -> object:
        if function != node.files.open:
            return run_blocking(function, *arguments)
        blocking.run_blocking = run_blocking  # type: ignore[method-assign]
        return open_later(function, *arguments)

    blocking.run_blocking = hold  # type: ignore[method-assign,assignment]
    return may_open


def test_a_read_of_what_was_deleted_meanwhile_says_so() -> None:
    async def run() -> None:
        node = SimulatedNode(1, config(segment_bytes=900))
        log = await node.boot()
        await _fill(log)
        await compact(log, log.end_offset, NOW_MS)
        log.delete_prefix(log.end_offset)
        with pytest.raises(OffsetOutOfRange):
            await log.read(0, 1000)

    run_virtual(run)


# -- disks that fail


@pytest.mark.parametrize("seed", SEEDS)
def test_a_full_disk_leaves_the_log_as_it_was_and_usable(seed: int) -> None:
    async def run() -> None:
        node = SimulatedNode(seed, config())
        log = await node.boot()
        await _fill(log)
        before = await read_records(log)
        node.files.set_capacity(0)
        with pytest.raises(CompactionFailed, match="No space"):
            await compact(log, log.end_offset, NOW_MS)
        node.files.set_capacity(None)
        assert await read_records(log) == before
        append(log, (b"more", b"room"))
        await _check_reopened(node)

    run_virtual(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_failed_sync_ends_writing_and_the_log_is_read_on(seed: int) -> None:
    async def run() -> None:
        node = SimulatedNode(seed, config())
        log = await node.boot()
        await _fill(log)
        before = await read_records(log)
        node.files.fail_next_sync(".cleaned")
        with pytest.raises(DiskFailed) as raised:
            await compact(log, log.end_offset, NOW_MS)
        assert raised.value.cause.errno == errno.EIO
        assert log.failure is not None
        assert await read_records(log) == before

    run_virtual(run)


@pytest.mark.parametrize("failing_step", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("power_fails", [False, True])
def test_a_swap_that_fails_half_way_is_read_on_and_mended_by_a_restart(failing_step: int, power_fails: bool) -> None:
    """The steps that change names: to the swap file, which is synced, over the old ones, and that synced too."""

    async def run() -> None:
        node = SimulatedNode(failing_step, config())
        log = await node.boot()
        await _fill(log)
        steps = 0

        def failing(call: Callable[..., None]) -> Callable[..., None]:
            def step(*arguments: str) -> None:
                nonlocal steps
                steps += 1
                if steps == failing_step + 1:
                    raise OSError(errno.EIO, "the disk fails")
                call(*arguments)

            return step

        node.files.rename = failing(node.files.rename)  # type: ignore[method-assign]
        node.files.sync_directory = failing(node.files.sync_directory)  # type: ignore[method-assign]
        with pytest.raises(DiskFailed):
            await compact(log, log.end_offset, NOW_MS)
        assert latest_by_key(await read_records(log)) == _expected()
        node.crash(power_fails=power_fails)
        log = await node.boot()
        assert latest_by_key(await read_records(log)) == _expected()
        assert log.end_offset == 2 * BATCHES

    run_virtual(run)
