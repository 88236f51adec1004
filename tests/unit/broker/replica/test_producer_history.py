"""What was known of producers at an earlier offset, found while the log goes on."""

import asyncio

import pytest
from support.virtual_log import Machine, hand_driven, produce, virtual

from lograft.broker.replica.producer_history import producers_at
from lograft.storage.cleaning.compaction import compact
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.state.producer_state import ProducerState

CONFIG = LogConfig(segment_bytes=1024, cleanup_compact=True, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)


async def history(machine: Machine, batches: int = 40) -> tuple[PartitionLog, list[bytes]]:
    """A log of one producer's batches of two records, and what was known of it at the start of each."""
    log = await machine.open(CONFIG)
    known = []
    for number in range(batches):
        known.append(log.producers.encode())
        produce(log, 2 * number, 2)
    await log.wait_stable(log.end_offset)
    return log, known


@virtual
async def test_it_is_what_was_known_then() -> None:
    log, known = await history(Machine())
    assert len(log.segments) > 3
    for number, before in enumerate(known):
        assert await producers_at(log, 2 * number) == before
    assert await producers_at(log, log.end_offset) == log.producers.encode()


@virtual
async def test_what_is_appended_meanwhile_does_not_count() -> None:
    machine = Machine()
    log, known = await history(machine)
    machine.speed.slowdown = 50
    finding = asyncio.ensure_future(producers_at(log, 78))
    for number in range(40, 60):
        produce(log, 2 * number, 2)
        await asyncio.sleep(0.005)
    assert await finding == known[39]


@virtual
async def test_what_is_on_its_way_to_the_disk_is_waited_for() -> None:
    log, worker = await hand_driven(Machine(), CONFIG)
    produce(log, 0, 2)
    before = log.producers.encode()
    produce(log, 2, 2)
    finding = asyncio.ensure_future(producers_at(log, 2))
    await asyncio.sleep(1)
    assert not finding.done()
    worker.step()
    assert await finding == before


@pytest.mark.parametrize("delay_ms", range(0, 60, 3))
@virtual
async def test_a_segment_that_is_compacted_meanwhile_is_no_damage(delay_ms: int) -> None:
    """Its name may be another file's then, before the search has opened it. What was compacted is not known any more,
    where something later of the same producer is."""
    machine = Machine(delay_ms)
    log, known = await history(machine)
    machine.speed.slowdown = 3
    compacting = asyncio.ensure_future(compact(log, log.end_offset, machine.clock.wall_ms()))
    await asyncio.sleep(delay_ms / 1000)
    found = [producers_at(log, offset) for offset in (2, 4, 6, 10, 20, 30)]
    states = await asyncio.gather(*found)
    assert await compacting is not None
    for offset, state in zip((2, 4, 6, 10, 20, 30), states, strict=True):
        for producer, entry in ProducerState.decode(state, 0).entries():
            assert producer == 7
            assert entry.last_offset < offset
            assert entry.batches[-1] in dict(ProducerState.decode(known[offset // 2], 0).entries())[7].batches
