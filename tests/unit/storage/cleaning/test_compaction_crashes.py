"""A crash in any call to the disk while a log is compacted: nothing that counts is lost, and the next run finishes."""

import asyncio

import pytest
from support.cleaning import (
    DIRECTORY,
    NOW_MS,
    SimulatedNode,
    append,
    append_batch,
    config,
    latest_by_key,
    read_batches,
    read_records,
)

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.loop import run_virtual
from lograft.storage.batch.codec import encode_batch
from lograft.storage.batch.record import Record
from lograft.storage.cleaning.compaction import compact
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import PartitionLog

BOUND = 16
CONFIG = config(segment_bytes=800, delete_retention_ms=100)
CONFIG_OS = config(segment_bytes=800, delete_retention_ms=100, flush_mode=FlushMode.OS)


async def _fill(log: PartitionLog) -> None:
    """Small segments with a tombstone whose horizon has passed by the second run, and one that is new; a producer."""
    append(log, (b"a", b"0"), (b"gone", b"1"))
    append(log, (b"gone", None), (b"b", b"3"))
    log.roll()
    append(log, (b"c", b"4"), (b"a", b"5"), producer_id=9, producer_epoch=0, base_sequence=0)
    log.roll()
    await log.flush()
    assert await compact(log, log.end_offset, NOW_MS) is not None
    append(log, (b"a", b"6"), (b"c", b"7"))
    log.roll()
    append(log, (b"b", None), (b"d", b"9"))
    append(log, (b"d", b"10"), (b"a", b"11"))
    log.roll()
    append(log, (b"e", b"12"), (b"a", b"13"), (b"f" * 100, b"14"), (b"f" * 100, b"15"))
    log.roll()
    append(log, (b"a", b"16"), (b"a", b"17"))  # above the bound
    log.roll()
    append(log, (b"a", b"18"))
    await (log.flush() if log.config.flush_mode is FlushMode.FSYNC else log.wait_stable(log.end_offset))


async def _compact_and_crash(node: SimulatedNode, call: int, *, power_fails: bool) -> bool:
    """Whether the crash came: there may be no call of this number."""

    async def compact_and_settle() -> None:
        await compact(node.log, BOUND, NOW_MS + 100)
        await node.log.disk.writer.call(lambda: None)

    task = asyncio.get_running_loop().create_task(compact_and_settle())
    node.files.on_crash(lambda name: task.cancel())  # type: ignore[arg-type]
    node.files.crash_at(node.files.calls + call)
    try:
        await task
    except (SimulatedCrash, asyncio.CancelledError):
        assert node.files.crashed
    crashed = node.files.crashed
    if crashed:
        node.crash(power_fails=power_fails)
    else:
        node.files.points.restart()  # nothing is armed any more
    return crashed


async def _check_recovered(log: PartitionLog, before: list[Record], above: list[bytes]) -> None:
    assert (log.start_offset, log.end_offset) == (0, 19)
    records = await read_records(log)
    assert {record.offset: record for record in before} | {record.offset: record for record in records} == {
        record.offset: record for record in before
    }
    assert latest_by_key(records) == latest_by_key(before)
    assert await read_batches(log, BOUND) == above
    assert log.checkpointed.first_dirty in (6, BOUND)
    assert log.producers.last_offsets() == {9: 5}
    is_tombstone_gone = 2 not in [record.offset for record in records]
    assert log.checkpointed.tombstones_removed_below >= 4 or not is_tombstone_gone
    names = log.disk.files.list_directory(DIRECTORY)
    assert [name for name in names if name.endswith((".cleaned", ".swap", ".tmp"))] == []


async def _life(call: int, log_config: LogConfig, *, power_fails: bool) -> bool:
    node = SimulatedNode(call, log_config)
    log = await node.boot()
    await _fill(log)
    before, above = await read_records(log), await read_batches(log, BOUND)
    if log_config.flush_mode is FlushMode.OS and power_fails:
        # Only what was synced survives, so the crash comes after the sync that compaction itself asks for.
        await log.flush()
    crashed = await _compact_and_crash(node, call, power_fails=power_fails)
    if crashed:
        log = await node.boot()
        await _check_recovered(log, before, above)
        result = await compact(log, BOUND, NOW_MS + 100)
        assert result is None or not result.is_interrupted
    assert log.checkpointed.first_dirty == BOUND
    assert log.checkpointed.tombstones_removed_below == 4
    assert [record.offset for record in await read_records(log)] == [7, 8, 10, 12, 13, 15, 16, 17, 18]
    assert await read_batches(log, BOUND) == above
    return crashed


@pytest.mark.parametrize("power_fails", [False, True], ids=["kill", "power failure"])
@pytest.mark.parametrize("log_config", [CONFIG, CONFIG_OS], ids=["fsync", "os"])
def test_a_crash_at_any_call_loses_nothing(log_config: LogConfig, power_fails: bool) -> None:
    call = 1
    while run_virtual(_life(call, log_config, power_fails=power_fails)):
        call += 1
    assert call > 50


@pytest.mark.parametrize("power_fails", [False, True], ids=["kill", "power failure"])
def test_a_value_does_not_come_back_when_its_tombstone_goes_in_the_same_run(power_fails: bool) -> None:
    """So it is on a follower that was sent a tombstone whose time had come, and still has the value."""

    async def life(call: int) -> bool:
        node = SimulatedNode(call, config(segment_bytes=200))
        log = await node.boot()
        append(log, (b"gone", b"0"), (b"a", b"1" * 40))
        log.roll()
        append_batch(log, encode_batch([None], keys=[b"gone"], timestamps=NOW_MS, delete_horizon=NOW_MS + 100))
        log.roll()
        append(log, (b"b", b"3" * 40))
        log.roll()
        await log.flush()
        assert b"gone" not in latest_by_key(await read_records(log))
        crashed = await _compact_and_crash(node, call, power_fails=power_fails)
        if crashed:
            log = await node.boot()
        records = await read_records(log)
        assert latest_by_key(records) == {b"a": b"1" * 40, b"b": b"3" * 40}
        assert crashed or [record.offset for record in records] == [1, 3]
        return crashed

    call = 1
    while run_virtual(life(call)):
        call += 1
    assert call > 30
