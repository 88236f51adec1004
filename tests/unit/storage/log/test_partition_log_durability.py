"""When an append counts: under `fsync`, under `os`, at a flush; and what a disk that fails makes of it."""

import asyncio
import dataclasses
import errno

import pytest
from support.virtual_log import DIRECTORY, Machine, append, facts, frame, hand_driven, make_batch, offsets, virtual

from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.state.epoch_cache import EpochEntry

OS = LogConfig(flush_mode=FlushMode.OS)
FIRST = "00000000000000000000.log"


# -- what is stable when


@virtual
async def test_nothing_is_acknowledged_before_it_is_synced() -> None:
    machine = Machine()
    log, worker = await hand_driven(machine, LogConfig())
    append(log)
    waiting = asyncio.ensure_future(log.wait_stable(1))
    worker.perform(1)  # the epoch
    worker.report()
    await asyncio.sleep(0)
    assert (log.stable_end, log.synced_end, waiting.done()) == (0, 0, False)
    worker.perform()
    await asyncio.sleep(0)
    assert not waiting.done()
    syncs = machine.count("sync", FIRST)
    worker.report()
    await waiting
    assert (log.stable_end, log.synced_end, syncs) == (1, 1, 1)


@virtual
async def test_many_appends_share_one_fsync() -> None:
    machine = Machine()
    log, worker = await hand_driven(machine, LogConfig())
    append(log)
    worker.step()
    machine.points.names.clear()
    for _ in range(50):
        append(log)
    worker.step()
    assert (machine.count("write"), machine.count("sync")) == (1, 1)
    assert log.stable_end == 51


@virtual
async def test_under_os_an_append_counts_once_it_is_written() -> None:
    machine = Machine()
    log, worker = await hand_driven(machine, OS)
    append(log)
    worker.step()
    assert (log.stable_end, log.synced_end) == (1, 0)
    assert machine.count("sync", FIRST) == 0


@virtual
async def test_those_who_wait_are_woken_by_how_far_they_wait() -> None:
    log, worker = await hand_driven(Machine(), LogConfig())
    append(log, 3)
    waiting = [asyncio.ensure_future(log.wait_stable(offset)) for offset in (0, 1, 3, 5)]
    worker.step()
    append(log, 3)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [each.done() for each in waiting] == [True, True, True, False]
    worker.step()
    await waiting[3]


@virtual
async def test_the_owner_is_told_of_each_step_forward_and_of_no_other() -> None:
    log, worker = await hand_driven(Machine(), LogConfig())
    seen: list[int] = []
    log.on_stable = lambda: seen.append(log.stable_end)
    append(log, 3)
    worker.step()
    await asyncio.sleep(0)
    log.assign_epoch(9)
    worker.step()
    append(log)
    append(log)
    worker.step()
    assert seen == [3, 5]


@virtual
async def test_stability_crosses_a_roll_in_order() -> None:
    log, worker = await hand_driven(Machine(), LogConfig(segment_bytes=10))
    seen: list[int] = []
    log.on_stable = lambda: seen.append(log.stable_end)
    for _ in range(4):
        append(log)
    while worker.queue:
        worker.perform(1)
        worker.report()
    assert seen == [1, 2, 3, 4]


# -- flush


@virtual
async def test_a_flush_makes_all_durable_that_is_there() -> None:
    for seed in range(20):
        machine = Machine(seed)
        log = await machine.open(dataclasses.replace(OS, segment_bytes=300))
        for _ in range(7):
            append(log)
        await log.flush()
        assert log.synced_end == 7
        machine.crash(power_fails=True)
        log = await machine.open(log.config)
        assert log.end_offset == 7
        assert await offsets(log) == list(range(7))


@virtual
async def test_a_flush_of_what_is_synced_costs_no_fsync() -> None:
    machine = Machine()
    log = await machine.open(LogConfig())
    append(log)
    await log.wait_stable(1)
    before = machine.count("sync")
    await log.flush()
    assert machine.count("sync") == before


@virtual
async def test_when_a_flush_is_due() -> None:
    machine = Machine()
    config = dataclasses.replace(OS, flush_messages=5, flush_ms=1000)
    log = await machine.open(config)
    assert not log.flush_is_due()
    append(log, 4)
    assert not log.flush_is_due()
    append(log, 1)
    assert log.flush_is_due()
    await log.flush()
    assert not log.flush_is_due()
    append(log)
    await machine.clock.sleep_ms(1000)
    assert log.flush_is_due()
    await log.flush()
    await machine.clock.sleep_ms(5000)
    assert not log.flush_is_due()  # there is nothing to flush
    await log.reconfigure(dataclasses.replace(config, flush_mode=FlushMode.FSYNC))
    append(log, 100)
    assert not log.flush_is_due()


async def append_and_roll(log: PartitionLog, machine: Machine, rounds: int) -> None:
    for _ in range(rounds):
        append(log)
        append(log)
        log.roll()
        await machine.clock.sleep_ms(0.3)


@pytest.mark.parametrize("seed", range(30))
@virtual
async def test_flushes_at_once_while_segments_roll_never_promise_what_is_not_synced(seed: int) -> None:
    """One flush must not take what another is still syncing for synced, nor miss a segment sealed meanwhile."""
    machine = Machine(seed, slowdown=3)
    log = await machine.open(OS)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(append_and_roll(log, machine, 12))
        for delay_ms in (0, 1, 1.5, 2, 2.5):
            tasks.create_task(later(machine, delay_ms, log.flush))
        for delay_ms in (0.5, 2, 3):
            tasks.create_task(later(machine, delay_ms, log.checkpoint))
    promised = log.synced_end
    assert log.recovery_point <= promised
    machine.crash(power_fails=True)
    log = await machine.open(OS)
    assert log.end_offset >= promised
    assert await offsets(log) == list(range(log.end_offset))


@pytest.mark.parametrize("seed", range(30))
@virtual
async def test_a_checkpoint_never_vouches_for_more_than_is_synced(seed: int) -> None:
    """Power fails in the middle of appends, rolls, flushes and checkpoints: what is vouched for is there."""
    machine = Machine(seed, slowdown=3)
    log = await machine.open(OS)
    tasks = [asyncio.ensure_future(append_and_roll(log, machine, 12))]
    for delay_ms in (0, 1, 2, 3):
        tasks.append(asyncio.ensure_future(later(machine, delay_ms, log.checkpoint)))
        tasks.append(asyncio.ensure_future(later(machine, delay_ms, log.flush)))
    await machine.clock.sleep_ms(seed % 15)
    promised = log.synced_end
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    machine.crash(power_fails=True)
    log = await machine.open(OS)  # not CorruptLog
    assert log.end_offset >= promised


async def later(machine: Machine, delay_ms: float, do: "object") -> None:
    await machine.clock.sleep_ms(delay_ms)
    await do()  # type: ignore[operator]


@virtual
async def test_a_flush_cancelled_half_way_leaves_the_rest_to_the_next() -> None:
    for calls in range(1, 12):
        machine = Machine(calls, slowdown=3)
        log = await machine.open(dataclasses.replace(OS, segment_bytes=10))
        for _ in range(6):
            append(log)
        flushing = asyncio.ensure_future(log.flush())
        await machine.clock.sleep_ms(calls)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        await log.flush()
        machine.crash(power_fails=True)
        assert (await machine.open(OS)).end_offset == 6


@pytest.mark.parametrize("seed", range(20))
@virtual
async def test_a_flush_while_the_oldest_segments_are_deleted_goes_on_without_them(seed: int) -> None:
    machine = Machine(seed, max_open=1, slowdown=3)
    log = await machine.open(dataclasses.replace(OS, segment_bytes=10))
    for _ in range(10):
        append(log)
    await log.wait_stable(10)
    flushing = asyncio.ensure_future(log.flush())
    for offset in range(1, 10):
        await machine.clock.sleep_ms(1)
        log.delete_prefix(offset)
    await flushing
    assert log.synced_end == 10


# -- modes


@virtual
async def test_going_to_fsync_first_syncs_what_was_not() -> None:
    for seed in range(20):
        machine = Machine(seed)
        log = await machine.open(dataclasses.replace(OS, segment_bytes=300))
        for _ in range(7):
            append(log)
        changing = asyncio.ensure_future(log.reconfigure(LogConfig()))
        append(log)  # while it is under way
        await changing
        append(log)
        await log.wait_stable(9)
        machine.crash(power_fails=True)
        log = await machine.open(LogConfig())
        assert await offsets(log) == list(range(9))


@virtual
async def test_going_to_os_lets_appends_count_when_written() -> None:
    machine = Machine()
    log, worker = await hand_driven(machine, LogConfig())
    append(log)
    worker.step()
    await log.reconfigure(OS)
    syncs = machine.count("sync", FIRST)
    append(log)
    worker.step()
    assert (log.stable_end, log.synced_end) == (2, 1)
    assert machine.count("sync", FIRST) == syncs


@virtual
async def test_a_new_limit_of_what_is_kept_in_memory_holds_at_once() -> None:
    machine = Machine()
    log = await machine.open(LogConfig())
    for _ in range(10):
        append(log)
    await log.wait_stable(10)
    await log.reconfigure(LogConfig(tail_bytes=0))
    append(log)
    await log.wait_stable(11)
    assert log.tail.find(10) is None


# -- failure


@pytest.mark.parametrize("room_bytes", [0, 20, 100])
@virtual
async def test_on_a_full_disk_a_log_can_be_read_and_goes_on_when_there_is_room(room_bytes: int) -> None:
    machine = Machine()
    log = await machine.open(LogConfig(segment_bytes=300))
    append(log)
    await log.wait_stable(1)
    machine.files.set_capacity(machine.files._tree.used_bytes() + room_bytes)
    for _ in range(10):  # and segments are sealed and begun
        append(log)
    waiting = asyncio.ensure_future(log.wait_stable(11))
    await asyncio.sleep(1)
    assert not waiting.done()
    assert log.failure is None
    assert await offsets(log) == list(range(11)), "from memory, what is not in the files"
    machine.files.set_capacity(None)
    log.disk.writer.retry()
    await waiting
    await log.close()
    assert await offsets(await machine.open(LogConfig(segment_bytes=300))) == list(range(11))


@pytest.mark.parametrize("power_fails", [True, False])
@virtual
async def test_a_crash_on_a_full_disk_takes_nothing_that_was_acknowledged(power_fails: bool) -> None:
    machine = Machine()
    log = await machine.open(LogConfig())
    append(log)
    await log.wait_stable(1)
    machine.files.set_capacity(machine.files._tree.used_bytes() + 30)
    append(log)
    append(log)
    await asyncio.sleep(1)
    assert log.stable_end == 1
    machine.crash(power_fails=power_fails)
    machine.files.set_capacity(None)
    machine.boot()
    assert await offsets(await machine.open(LogConfig())) == [0], "the torn batch is cut"


@pytest.mark.parametrize("fault", ["sync", "write"])
@virtual
async def test_a_failed_disk_wakes_everyone_and_ends_appending_in_every_log(fault: str) -> None:
    machine = Machine()
    log = await machine.open(LogConfig())
    other = await machine.open(LogConfig(), "/data/other-0.00000000000000000000000000000002")
    told: list[DiskFailed] = []
    other.on_failed = told.append
    append(log)
    append(other)
    await log.wait_stable(1)
    await other.wait_stable(1)
    match fault:
        case "sync":
            machine.files.fail_next_sync(DIRECTORY)
        case "write":
            machine.files.fail_writes(FIRST)
    append(log)
    with pytest.raises(DiskFailed) as error:
        await log.wait_stable(2)
    assert error.value.cause.errno == errno.EIO
    assert (log.stable_end, log.synced_end) == (1, 1)
    assert told == [error.value]
    machine.files.fail_writes(None)
    machine.files.set_capacity(None)
    for each in (log, other):
        before = facts(each)
        for attempt in (
            lambda each=each: append(each),
            lambda each=each: each.assign_epoch(9),
            lambda each=each: each.append_as_follower(
                frame(each.end_offset, make_batch(offset=each.end_offset, epoch=3), epochs=(EpochEntry(3, 1),))
            ),
            lambda each=each: each.delete_prefix(1),
            lambda each=each: each.roll(),
        ):
            with pytest.raises(DiskFailed):
                attempt()
        for wait in (each.wait_stable(1), each.truncate(0), each.reset(5), each.checkpoint(), each.flush()):
            with pytest.raises(DiskFailed):
                await wait
        assert facts(each) == before
    assert (await offsets(log))[:1] == [0]  # what is there can still be read
    await log.close()
    await other.close()


@virtual
async def test_a_later_successful_fsync_is_not_believed() -> None:
    """The disk calls the next fsync a success; the log has said that it lost the data, and keeps to it."""
    for seed in range(10):
        machine = Machine(seed)
        log = await machine.open(LogConfig())
        append(log)
        await log.wait_stable(1)
        machine.files.fail_next_sync(FIRST)
        append(log)
        append(log)
        with pytest.raises(DiskFailed):
            await log.wait_stable(3)
        await machine.clock.sleep_ms(100)
        assert (log.stable_end, log.synced_end) == (1, 1)
        await log.close()
        machine.crash(power_fails=True)
        log = await machine.open(LogConfig())
        assert 1 <= log.end_offset <= 3
        assert await offsets(log) == list(range(log.end_offset))


@virtual
async def test_a_failed_fsync_of_a_flush_ends_writing_too() -> None:
    machine = Machine()
    log = await machine.open(OS)
    append(log)
    machine.files.fail_next_sync(FIRST)
    with pytest.raises(DiskFailed) as error:
        await log.flush()
    assert error.value.path == f"{DIRECTORY}/{FIRST}"
    with pytest.raises(DiskFailed):
        append(log)
    assert log.synced_end == 0


@virtual
async def test_a_checkpoint_behind_a_failed_fsync_is_not_written() -> None:
    machine = Machine()
    log = await machine.open(LogConfig())
    append(log)
    await log.wait_stable(1)
    machine.files.fail_next_sync(FIRST)
    append(log)
    with pytest.raises(DiskFailed):
        await log.checkpoint()
    assert b"recovery_point 0\n" in machine.content("checkpoint")


@virtual
async def test_a_log_cannot_be_opened_on_a_disk_that_failed() -> None:
    machine = Machine()
    log = await machine.open(LogConfig())
    append(log)
    await log.wait_stable(1)
    machine.files.fail_writes(FIRST)
    append(log)
    with pytest.raises(DiskFailed):
        await log.wait_stable(2)
    machine.files.fail_writes(None)
    await log.close()
    before = machine.open_files()
    for directory in (DIRECTORY, "/data/new-0.00000000000000000000000000000002"):
        with pytest.raises(DiskFailed):
            await machine.open(LogConfig(), directory)
    assert machine.open_files() == before


@virtual
async def test_a_log_whose_disk_fails_and_is_closed_while_it_is_checkpointed_is_left_alone() -> None:
    config = LogConfig(flush_mode=FlushMode.OS, segment_bytes=2 * len(make_batch(2)))
    log = await Machine().open(config)
    for _ in range(5):
        append(log, 2)
    checkpointing = asyncio.ensure_future(log.checkpoint())
    await asyncio.sleep(0)  # it waits for the segments that are full
    assert not checkpointing.done()
    log.on_disk_failed(DiskFailed(DIRECTORY, OSError(errno.EIO, "as the test wants it")))
    await log.close()
    assert await settled(checkpointing) in (None, DiskFailed)


async def settled(task: "asyncio.Future[None]") -> type[BaseException] | None:
    """With which error, if any."""
    (error,) = await asyncio.gather(task, return_exceptions=True)
    return None if error is None else type(error)
