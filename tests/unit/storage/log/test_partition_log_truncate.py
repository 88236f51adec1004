"""Taking back: truncation, a new beginning, a prefix that goes; and what a crash at any call leaves of each."""

import asyncio
import dataclasses

import pytest
from support.virtual_log import Machine, append, crashes, facts, frame, headers, make_batch, offsets, produce, virtual

from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import AppendedBatch, PartitionLog
from lograft.storage.state.epoch_cache import EpochEntry
from lograft.storage.state.producer_state import ProducerState

SIZE = len(make_batch(2))
CONFIG = LogConfig(tail_bytes=0, segment_bytes=3 * SIZE, index_interval_bytes=100)
MODES = pytest.mark.parametrize("flush_mode", list(FlushMode))


async def filled(machine: Machine, config: LogConfig = CONFIG, batches: int = 10) -> PartitionLog:
    """Batches of two records, under a new epoch every four of them."""
    log = await machine.open(config)
    for number in range(batches):
        if number % 4 == 0:
            log.assign_epoch(number // 4 + 1)
        produce(log, 2 * number, 2)
    await log.wait_stable(log.end_offset)
    return log


# -- truncate


@pytest.mark.parametrize("config", [CONFIG, LogConfig(), LogConfig(tail_bytes=0)], ids=["segments", "memory", "disk"])
@virtual
async def test_a_cut_takes_all_from_the_offset_on_and_the_batch_it_lies_within(config: LogConfig) -> None:
    for offset in range(21):
        machine = Machine(offset, cold_reads=0.5)
        log = await filled(machine, config)
        end = await log.truncate(offset)
        assert end == log.end_offset == log.stable_end == (20 if offset == 20 else offset // 2 * 2)
        assert await offsets(log) == list(range(0, end, 2))
        assert [entry for entry in ((1, 0), (2, 8), (3, 16)) if entry[1] < end] == list(log.epochs)
        if end:
            assert produce(log, end - 2, 2) == AppendedBatch(end - 2, end, is_duplicate=True)
            produce(log, end, 2)
        else:
            assert len(log.producers) == 0
        log = await machine.reopen(log)
        assert log.end_offset == (end + 2 if end else 0)


@virtual
async def test_a_cut_above_the_end_changes_nothing() -> None:
    log = await filled(Machine())
    before = facts(log)
    assert await log.truncate(25) == 20
    assert facts(log) == before


@virtual
async def test_a_cut_at_the_end_forgets_an_epoch_in_which_nothing_was_written() -> None:
    log = await filled(Machine())
    log.assign_epoch(9)
    await log.truncate(20)
    assert log.epochs.latest == (3, 16)
    assert log.end_offset == 20


@virtual
async def test_a_cut_in_a_hole_forgets_epochs_that_began_in_it() -> None:
    """Else the cache would know of an epoch that starts beyond the end, and the next could not be assigned."""
    machine = Machine()
    log = await machine.open(CONFIG)
    log.append_as_follower(frame(0, make_batch(2, offset=10, epoch=1), epochs=(EpochEntry(1, 0),)))
    log.append_as_follower(frame(12, make_batch(2, offset=20, epoch=2), epochs=(EpochEntry(2, 18),)))
    assert await log.truncate(21) == 12
    assert list(log.epochs) == [(1, 0)]
    log.assign_epoch(3)
    append(log)
    log = await machine.reopen(log)
    assert list(log.epochs) == [(1, 0), (3, 12)]
    assert await offsets(log) == [10, 12]


@virtual
async def test_a_cut_at_a_start_inside_the_first_batch_leaves_no_log_that_ends_before_it_starts() -> None:
    machine = Machine()
    log = await filled(machine)
    log.delete_prefix(7)
    assert await log.truncate(7) == 6
    assert log.start_offset <= log.end_offset
    log = await machine.reopen(log)
    assert (log.start_offset, log.end_offset) == (6, 6)
    assert await offsets(log) == []


@virtual
async def test_appends_go_on_where_the_cut_was() -> None:
    machine = Machine()
    log = await filled(machine)
    await log.truncate(9)
    log.assign_epoch(7)
    assert append(log, 3) == AppendedBatch(8, 11)
    await log.wait_stable(11)
    assert [(h.base_offset, h.leader_epoch) for h in await headers(log)][-2:] == [(6, 1), (8, 7)]
    machine.crash(power_fails=True)
    log = await machine.open(CONFIG)
    assert [(h.base_offset, h.leader_epoch) for h in await headers(log)][-2:] == [(6, 1), (8, 7)]


@virtual
async def test_a_cut_lowers_what_the_checkpoint_vouches_for_before_anything_is_cut() -> None:
    machine = Machine()
    log = await filled(machine)
    await log.checkpoint()
    assert log.recovery_point == 20
    machine.points.names.clear()
    await log.truncate(7)
    assert log.recovery_point == 6
    calls = machine.points.names
    lowered = calls.index("rename checkpoint.tmp checkpoint")
    changes = [place for place, name in enumerate(calls) if name.startswith(("truncate", "remove"))]
    assert changes
    assert lowered < min(changes)


@virtual
async def test_appending_while_the_log_is_cut_is_a_bug() -> None:
    machine = Machine()
    log = await filled(machine)
    cutting = asyncio.ensure_future(log.truncate(4))
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        append(log)
    await cutting
    append(log)


@MODES
@pytest.mark.parametrize("power_fails", [False, True], ids=["killed", "power"])
@virtual
async def test_a_crash_at_any_call_of_a_cut_leaves_the_log_cut_or_not_or_less_cut(
    flush_mode: FlushMode, power_fails: bool
) -> None:
    config = dataclasses.replace(CONFIG, flush_mode=flush_mode)
    ends: dict[int, None] = {}
    for call in range(1, 200):
        machine = Machine(call, cold_reads=0.5)
        log = await filled(machine, config)
        await log.checkpoint()
        before = [(h.base_offset, h.leader_epoch, h.crc) for h in await headers(log)]
        if not await crashes(machine, call, log.truncate(9)):
            break
        machine.crash(power_fails=power_fails)
        log = await machine.open(config)
        after = [(h.base_offset, h.leader_epoch, h.crc) for h in await headers(log)]
        assert after == before[: len(after)]
        assert log.end_offset >= 8
        assert [entry for entry in log.epochs if entry.start_offset < log.end_offset] == [
            entry for entry in ((1, 0), (2, 8), (3, 16)) if entry[1] < log.end_offset
        ]
        ends[log.end_offset] = None
        # It works as any other log.
        if log.end_offset > 8:
            assert await log.truncate(9) == 8
        log.assign_epoch(8)
        assert produce(log, 6, 2) == AppendedBatch(6, 8, is_duplicate=True)
        assert produce(log, 8, 2) == AppendedBatch(8, 10)
        log = await machine.reopen(log)
        assert await offsets(log) == [0, 2, 4, 6, 8]
    else:
        pytest.fail("more calls than this test tries")
    assert {8, 20} <= set(ends)


# -- reset

EPOCHS = (EpochEntry(5, 40), EpochEntry(6, 50))


@pytest.mark.parametrize("start", [0, 7, 20, 50])
@virtual
async def test_a_new_beginning_keeps_nothing_but_what_the_leader_said(start: int) -> None:
    machine = Machine()
    log = await filled(machine)
    await log.checkpoint()
    epochs = (EpochEntry(5, start),)
    await log.reset(start, epochs, ProducerState().encode())
    expected = {"start": start, "end": start, "epochs": list(epochs), "producers": b"", "size_bytes": 0}
    assert {name: facts(log)[name] for name in expected} == expected
    assert (log.stable_end, log.synced_end, log.recovery_point) == (start, start, start)
    machine.crash(power_fails=True)
    log = await machine.open(CONFIG)
    assert {name: facts(log)[name] for name in expected} == expected
    log.append_as_follower(frame(start, make_batch(2, offset=start + 1, epoch=5)))
    log = await machine.reopen(log)
    assert await offsets(log) == [start + 1]


@virtual
async def test_a_new_beginning_takes_over_the_leaders_producers() -> None:
    machine = Machine()
    leader = await filled(machine)
    content = leader.producers.encode()
    await leader.close()
    await machine.writer.close()
    machine = Machine()
    log = await machine.open(CONFIG)
    await log.reset(20, EPOCHS[:1], content)
    log = await machine.reopen(log)
    log.assign_epoch(6)
    assert produce(log, 18, 2) == AppendedBatch(18, 20, is_duplicate=True)
    assert produce(log, 20, 2) == AppendedBatch(20, 22)


@virtual
async def test_malformed_producers_leave_the_log_as_it_was() -> None:
    machine = Machine()
    log = await filled(machine)
    before = facts(log)
    with pytest.raises(ValueError, match="cut short"):
        await log.reset(50, EPOCHS, b"nonsense")
    assert facts(log) == before
    append(log)
    assert len(await offsets(log)) == 11


@pytest.mark.parametrize("start", [0, 7, 20, 50])
@pytest.mark.parametrize("power_fails", [False, True], ids=["killed", "power"])
@virtual
async def test_a_crash_at_any_call_of_a_new_beginning_leaves_the_old_log_a_part_of_it_or_nothing(
    start: int, power_fails: bool
) -> None:
    seen: dict[str, None] = {}
    for call in range(1, 200):
        machine = Machine(call)
        log = await filled(machine)
        await log.checkpoint()
        before = [(h.base_offset, h.leader_epoch, h.crc) for h in await headers(log)]
        if not await crashes(machine, call, log.reset(start, [EpochEntry(9, start)])):
            break
        machine.crash(power_fails=power_fails)
        log = await machine.open(CONFIG)
        after = [(h.base_offset, h.leader_epoch, h.crc) for h in await headers(log)]
        if after:
            assert after == [each for each in before if each[0] + 2 > log.start_offset][: len(after)]
            for base, epoch, _ in after:
                assert log.epochs.epoch_at(max(base, log.start_offset)) == epoch
        else:
            assert log.start_offset == log.end_offset
        # The old log's or the leader's, never both.
        known = [entry.epoch for entry in log.epochs]
        assert max(known, default=0) <= 3 or (known == [9] and not after)
        seen["old" if after else "empty"] = None
        await log.reset(start, [EpochEntry(9, start)])
        log.append_as_follower(frame(start, make_batch(2, offset=start, epoch=9)))
        log = await machine.reopen(log)
        assert await offsets(log) == [start]
    else:
        pytest.fail("more calls than this test tries")
    assert set(seen) == {"old", "empty"}


# -- delete prefix


@virtual
async def test_a_prefix_that_goes_takes_the_segments_wholly_below() -> None:
    machine = Machine()
    log = await filled(machine)
    log.delete_prefix(13)
    assert [segment.base_offset for segment in log.segments] == [12, 18]
    assert list(log.epochs) == [(2, 13), (3, 16)]
    assert await offsets(log) == [12, 14, 16, 18]
    await log.flush()
    assert [name for name in machine.names() if name.endswith(".log")] == [
        "00000000000000000012.log",
        "00000000000000000018.log",
    ]
    assert not [name for name in machine.names() if name.startswith("00000000000000000000")]


@virtual
async def test_the_start_is_kept_over_a_restart_and_a_crash() -> None:
    for seed in range(10):
        machine = Machine(seed)
        log = await filled(machine)
        log.delete_prefix(13)
        log = await machine.reopen(log)
        assert (log.start_offset, log.end_offset) == (13, 20)
        log.delete_prefix(15)
        await log.flush()
        machine.crash(power_fails=True)
        log = await machine.open(CONFIG)
        assert log.start_offset == 15
        assert list(log.epochs) == [(2, 15), (3, 16)]


@virtual
async def test_the_start_never_goes_back() -> None:
    log = await filled(Machine())
    log.delete_prefix(13)
    before = facts(log)
    log.delete_prefix(5)
    assert facts(log) == before


@virtual
async def test_all_may_go_and_the_log_goes_on() -> None:
    machine = Machine()
    log = await filled(machine)
    log.delete_prefix(20)
    assert await offsets(log) == []
    assert produce(log, 20, 2) == AppendedBatch(20, 22)
    log = await machine.reopen(log)
    assert (log.start_offset, await offsets(log)) == (20, [20])
    assert produce(log, 20, 2) == AppendedBatch(20, 22, is_duplicate=True)


@virtual
async def test_a_crash_at_any_call_of_a_prefix_deletion_leaves_the_rest_whole() -> None:
    starts: dict[int, None] = {}
    for call in range(1, 100):
        machine = Machine(call)
        log = await filled(machine)
        log.delete_prefix(13)
        if not await crashes(machine, call, log.flush()):
            break
        machine.crash(power_fails=bool(call % 2))
        log = await machine.open(CONFIG)
        assert log.start_offset in (0, 13)
        assert await offsets(log) == list(range(log.start_offset // 2 * 2, 20, 2))
        starts[log.start_offset] = None
    assert set(starts) == {0, 13}
