"""Raft stores for tests: on LMDB with real threads, and in memory in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar, cast
from uuid import UUID

from lograft.chaos.world.loop import run_virtual
from lograft.chaos.world.raft_store import MemoryDisk
from lograft.chaos.world.workers import DiskSpeed
from lograft.raft.core.configuration import Configuration, Member, configuration
from lograft.raft.core.entries import Command, Entry, SnapshotMetadata
from lograft.raft.interfaces import Snapshot, Store
from lograft.raft.store.lmdb_store import LmdbStore, open_lmdb_store
from lograft.runtime.blocking import WorkerFactory
from lograft.runtime.clock import LoopClock
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.network import Network
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

T = TypeVar("T")
CLUSTER = "test-cluster"
ONE, TWO, THREE = (Member(number, UUID(int=number)) for number in (1, 2, 3))
VOTERS = configuration([ONE, TWO, THREE])

OpenStore: TypeAlias = Callable[[], Awaitable[Store]]
Scenario: TypeAlias = Callable[[OpenStore], Coroutine[Any, Any, T]]


def entry(index: int, term: int = 1, data: bytes | None = None) -> Entry:
    return Entry(index, term, Command(b"command %d of term %d" % (index, term) if data is None else data))


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    return [entry(index, term) for index in range(first, last + 1)]


def snapshot(index: int, term: int = 1, data: bytes = b"the state", voters: Configuration = VOTERS) -> Snapshot:
    return Snapshot(SnapshotMetadata(index, term, voters), data)


@asynccontextmanager
async def disk_runtime(make_worker: WorkerFactory | None = None) -> AsyncIterator[Runtime]:
    """What a store needs of the machine this runs on; no thread of it is left afterwards."""
    panics: list[BaseException] = []
    files, blocking, workers = OsFiles(), ThreadBlocking(2), ThreadWorkers(panics.append)
    no_network = cast(Network, None)
    try:
        yield Runtime(LoopClock(), Rng(1), files, no_network, blocking, make_worker or workers)
    finally:
        await workers.close()
        await blocking.close()
        files.close()
    assert panics == []


async def open_store(runtime: Runtime, directory: object, **wanted: Any) -> LmdbStore:
    """Node 1's store in `directory`, unless told otherwise."""
    return await open_lmdb_store(runtime, str(directory), **{"cluster_id": CLUSTER, "node_id": 1, **wanted})


def run_on_lmdb(directory: object, scenario: Scenario[T]) -> T:
    """Run `scenario` with what opens the one store in `directory`."""

    async def main() -> T:
        async with disk_runtime() as runtime:
            return await scenario(lambda: open_store(runtime, directory))

    return asyncio.run(main())


def run_in_memory(seed: int, scenario: Scenario[T]) -> T:
    """Run `scenario` with what opens the one store on a disk in memory."""

    async def main() -> T:
        rng = Rng(seed)
        disk = MemoryDisk(CLUSTER, 1, rng.fork())

        async def open_memory_store() -> Store:
            return disk.open(DiskSpeed(rng.fork()), rng.fork())

        return await scenario(open_memory_store)

    return run_virtual(main())
