"""What only a simulated store can do: die in the middle, lose its disk, break."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from support.raft_stores import CLUSTER, VOTERS, entries, entry

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.loop import run_virtual
from lograft.chaos.world.raft_store import MemoryDisk
from lograft.chaos.world.workers import DiskSpeed
from lograft.raft.core.entries import HardState
from lograft.raft.store.errors import StoreFailed
from lograft.runtime.rng import Rng


def run(seed: int, scenario: Callable[[MemoryDisk, Rng], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        rng = Rng(seed)
        return await scenario(MemoryDisk(CLUSTER, 1, rng.fork()), rng)

    return run_virtual(main())


def test_a_kill_keeps_a_prefix_of_whole_transactions_and_all_that_was_confirmed() -> None:
    async def killed(disk: MemoryDisk, rng: Rng) -> tuple[int, int]:
        """How many saves were confirmed, and how many are there."""
        store = disk.open(DiskSpeed(rng.fork()), rng.fork())
        confirmed: list[int] = []

        async def save(number: int) -> None:
            await asyncio.sleep(rng.uniform(0, 0.002))
            await store.save(HardState(number), entries(3 * number + 1, 3 * number + 3), None)
            confirmed.append(number)

        async def save_all() -> None:
            for number in range(12):
                await save(number)

        task = asyncio.ensure_future(save_all())
        await asyncio.sleep(rng.uniform(0, 0.01))
        store.kill()
        count = len(confirmed)
        await asyncio.sleep(60)
        assert len(confirmed) == count, "no one is told after the kill"
        task.cancel()
        content = disk.content
        assert len(content.entries) % 3 == 0, "a transaction is never torn"
        assert content.entries == tuple(entries(1, len(content.entries)))
        kept = len(content.entries) // 3
        assert content.hard_state.term == max(kept - 1, 0)
        return count, kept

    outcomes = {kept - confirmed for confirmed, kept in (run(seed, killed) for seed in range(100))}
    assert outcomes == {0, 1}, "lost, and kept without a word, and nothing else"


def test_a_killed_store_is_no_use_to_its_node_but_its_disk_is_to_the_next() -> None:
    async def scenario(disk: MemoryDisk, rng: Rng) -> None:
        store = disk.open(DiskSpeed(rng.fork()), rng.fork())
        await store.save(HardState(4), entries(1, 3), None)
        store.kill()
        for call in (store.load(), store.save(None, [entry(4)], None), store.read_snapshot(), store.close()):
            with pytest.raises(SimulatedCrash):
                await call
        again = disk.open(DiskSpeed(rng.fork()), rng.fork())
        state = await again.load()
        assert (state.identity, state.hard_state, state.entries) == (store.identity, HardState(4), tuple(entries(1, 3)))

    run(1, scenario)


def test_a_wiped_disk_is_empty_and_another_members() -> None:
    async def scenario(disk: MemoryDisk, rng: Rng) -> None:
        store = disk.open(DiskSpeed(rng.fork()), rng.fork())
        await store.initialise(VOTERS)
        before = store.identity
        with pytest.raises(AssertionError, match="in use"):
            disk.wipe()
        await store.close()
        disk.wipe()
        state = await disk.open(DiskSpeed(rng.fork()), rng.fork()).load()
        assert state.is_empty
        assert (state.identity.cluster_id, state.identity.node_id) == (before.cluster_id, before.node_id)
        assert state.identity.directory_id != before.directory_id

    run(1, scenario)


def test_a_store_whose_disk_breaks_fails_what_waits_and_all_that_follows() -> None:
    async def scenario(disk: MemoryDisk, rng: Rng) -> None:
        store = disk.open(DiskSpeed(rng.fork()), rng.fork())
        await store.save(None, [entry(1)], None)
        waiting = [asyncio.ensure_future(store.save(None, [entry(index)], None)) for index in (2, 3)]
        await asyncio.sleep(0)
        store.fail("EIO")
        for call in (*waiting, store.load(), store.save(None, [entry(4)], None)):
            with pytest.raises(StoreFailed, match="EIO"):
                await call
        await store.close()
        state = await disk.open(DiskSpeed(rng.fork()), rng.fork()).load()
        assert state.entries[:1] == (entry(1),)
        assert len(state.entries) <= 3

    run(1, scenario)


def test_saves_take_virtual_time_and_those_that_wait_share_a_transaction() -> None:
    async def scenario(disk: MemoryDisk, rng: Rng) -> None:
        store = disk.open(DiskSpeed(rng.fork(), slowdown=1000), rng.fork())
        started = asyncio.get_running_loop().time()
        await asyncio.gather(*(store.save(None, [entry(index)], None) for index in range(1, 51)))
        assert asyncio.get_running_loop().time() - started > 0.05
        assert store.fsyncs == 2, "the first alone, the rest together"

    run(1, scenario)


def test_the_same_seed_gives_the_same_disk() -> None:
    async def scenario(disk: MemoryDisk, rng: Rng) -> object:
        store = disk.open(DiskSpeed(rng.fork()), rng.fork())
        saves = [store.save(HardState(index), [entry(index)], None) for index in range(1, 9)]
        tasks = [asyncio.ensure_future(save) for save in saves]
        await asyncio.sleep(0.0005)
        store.kill()
        return disk.content, [task.done() for task in tasks]

    for seed in range(10):
        assert run(seed, scenario) == run(seed, scenario)
