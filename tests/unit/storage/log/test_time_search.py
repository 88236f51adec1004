"""Finding records by their time, against a list; and while the log changes."""

import asyncio
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.virtual_log import Machine, admitted, append, virtual

from lograft.chaos.world.loop import run_virtual
from lograft.storage.batch.codec import encode_batch
from lograft.storage.cleaning.compaction import compact
from lograft.storage.log import time_search
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.log_reader import Batches
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.log.time_search import FoundTime

CONFIG = LogConfig(tail_bytes=0, segment_bytes=500, index_interval_bytes=150)


async def filled(machine: Machine, batches: list[list[int]], config: LogConfig = CONFIG) -> PartitionLog:
    """A log of batches whose records have these times."""
    log = await machine.open(config)
    log.assign_epoch(1)
    for times in batches:
        batch = encode_batch([b"v"] * len(times), keys=[b"k"] * len(times), timestamps=times)
        log.append_as_leader(admitted(batch), 1)
    await log.wait_stable(log.end_offset)
    return log


def first_at_or_after(times: list[int], timestamp: int, start: int, bound: int) -> FoundTime | None:
    found = [FoundTime(offset, time) for offset, time in enumerate(times) if start <= offset < bound]
    return next((each for each in found if each.timestamp >= timestamp), None)


def greatest(times: list[int], start: int, bound: int) -> FoundTime | None:
    found = [FoundTime(offset, time) for offset, time in enumerate(times) if start <= offset < bound]
    return max(found, key=lambda each: each.timestamp, default=None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=25),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
)
def test_what_is_found_is_what_a_list_has(batches: list[list[int]], cut: float, limit: float, in_memory: bool) -> None:
    async def main() -> None:
        config = dataclasses.replace(CONFIG, tail_bytes=10_000) if in_memory else CONFIG
        machine = Machine(cold_reads=0.3)
        log = await filled(machine, batches, config)
        if not in_memory:
            log = await machine.reopen(log)
        times = [time for batch in batches for time in batch]
        ends = [sum(map(len, batches[:count])) for count in range(len(batches) + 1)]
        bound = ends[int(limit * len(batches))]
        log.delete_prefix(int(cut * bound))
        for timestamp in range(-1, 32):
            expected = first_at_or_after(times, timestamp, log.start_offset, bound)
            assert await log.offset_for_time(timestamp, bound) == expected
        assert await log.greatest_timestamp(bound) == greatest(times, log.start_offset, bound)

    run_virtual(main)


@virtual
async def test_a_search_through_memory_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_search, "READ_BYTES", 1)
    config = dataclasses.replace(CONFIG, tail_bytes=1_000_000, segment_bytes=1_000_000)
    log = await filled(Machine(), [[number] for number in range(100)], config)
    read = log.read
    reads = 0
    turns: list[int] = []

    async def counted(start: int, max_bytes: int, bound: int | None = None) -> Batches:
        nonlocal reads
        reads += 1
        if reads == 1:
            asyncio.get_running_loop().call_soon(lambda: turns.append(reads))
        return await read(start, max_bytes, bound)

    monkeypatch.setattr(log, "read", counted)
    assert await log.greatest_timestamp(99) == FoundTime(98, 98)
    assert (reads, turns) == (99, [1])


@virtual
async def test_an_empty_log_has_no_times() -> None:
    log = await Machine().open(CONFIG)
    assert await log.offset_for_time(0) is None
    assert await log.greatest_timestamp() is None


@virtual
async def test_only_the_segments_that_can_have_the_time_are_read() -> None:
    machine = Machine()
    log = await filled(machine, [[time] * 3 for time in range(40)])
    log = await machine.reopen(log)
    assert len(log.segments) > 8
    machine.points.names.clear()
    assert await log.offset_for_time(39) == FoundTime(117, 39)
    assert machine.count("read", ".log") + machine.count("read_cached", ".log") <= 2


@pytest.mark.parametrize("seed", range(20))
@virtual
async def test_a_search_goes_on_while_the_oldest_segments_go(seed: int) -> None:
    machine = Machine(seed, cold_reads=1, max_open=1, slowdown=3)
    log = await filled(machine, [[time] * 3 for time in range(40)])
    log = await machine.reopen(log)
    searching = [asyncio.ensure_future(log.offset_for_time(time)) for time in (0, 5, 30, 39, 40)]
    greatest_time = asyncio.ensure_future(log.greatest_timestamp())
    for offset in range(5, 100, 9):
        await machine.clock.sleep_ms(1 + seed / 5)
        log.delete_prefix(offset)
    found = await asyncio.gather(*searching)
    for time, each in zip((0, 5), found, strict=False):
        assert each is not None
        assert each.timestamp >= time
    assert found[2:] == [FoundTime(90, 30), FoundTime(117, 39), None] or log.start_offset > 90
    assert await greatest_time == FoundTime(117, 39)


@pytest.mark.parametrize("seed", range(20))
@virtual
async def test_a_search_while_segments_are_merged_leaves_none_of_them_out(seed: int) -> None:
    """A segment that is replaced before its turn comes is looked for again, in what took its place."""
    machine = Machine(seed, cold_reads=1, max_open=1, slowdown=3)
    config = dataclasses.replace(CONFIG, cleanup_compact=True, min_cleanable_dirty_ratio=0.0)
    log = await machine.open(config)
    for number in range(30):
        append(log, 1, at_ms=number)  # one key: compaction leaves the last
        if number % 3 == 2:
            log.roll()
    await log.wait_stable(30)
    log = await machine.reopen(log, config)
    compacting = asyncio.ensure_future(compact(log, 30, 10**13))
    while not compacting.done():
        await machine.clock.sleep_ms(seed / 4)
        found = await log.offset_for_time(28)
        assert found is not None
        assert found.timestamp in (28, 29)
        assert await log.greatest_timestamp() == FoundTime(29, 29)
        assert await log.offset_for_time(30) is None
    assert (await compacting) is not None


@pytest.mark.parametrize("seed", range(10))
@virtual
async def test_a_search_while_the_end_is_cut_off_finds_what_is_left_or_nothing(seed: int) -> None:
    machine = Machine(seed, cold_reads=1, max_open=1, slowdown=3)
    log = await filled(machine, [[time] * 3 for time in range(40)])
    log = await machine.reopen(log)
    searching = [asyncio.ensure_future(log.offset_for_time(time)) for time in (0, 10, 30, 39)]
    await machine.clock.sleep_ms(seed)
    await log.truncate(45)
    found = await asyncio.gather(*searching)
    assert found[:2] == [FoundTime(0, 0), FoundTime(30, 10)]
    for time, each in zip((30, 39), found[2:], strict=True):
        assert each in (None, FoundTime(3 * time, time))
