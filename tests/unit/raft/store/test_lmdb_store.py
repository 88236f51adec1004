"""What is LMDB's alone: the lock, the refusals, the map that grows, failing disks, and processes that are killed."""

import asyncio
import os
import random
import re
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import lmdb
import pytest
from support.programs import Program
from support.raft_stores import CLUSTER, VOTERS, disk_runtime, entries, entry, open_store, snapshot

from lograft.raft.core.entries import Command, HardState
from lograft.raft.store import layout as store_layout
from lograft.raft.store.errors import StoreFailed, StoreRefused
from lograft.raft.store.lmdb_store import LmdbStore

TESTS = Path(__file__).resolve().parents[3]
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS)}


def run(directory: Path, scenario: Callable[[LmdbStore], Awaitable[Any]], **wanted: Any) -> Any:
    """Run `scenario` with the store in `directory`, and close it."""

    async def main() -> Any:
        async with disk_runtime() as runtime:
            store = await open_store(runtime, directory, **wanted)
            try:
                return await scenario(store)
            finally:
                await store.close()

    return asyncio.run(main())


def refusal(directory: Path, **wanted: Any) -> StoreRefused:
    async def scenario(store: LmdbStore) -> None:
        raise AssertionError("was not refused")

    with pytest.raises(StoreRefused) as caught:
        run(directory, scenario, **wanted)
    assert str(caught.value) == f"{caught.value.cause}: {caught.value.remedy}"
    return caught.value


async def fill(store: LmdbStore) -> UUID:
    await store.initialise(VOTERS)
    await store.save(HardState(3, None, 2), entries(1, 50), None)
    await store.save_own_snapshot(snapshot(10, data=b"state of the machine " * 1000))
    return store.identity.directory_id


async def load(store: LmdbStore) -> Any:
    return await store.load()


async def load_with_snapshot(store: LmdbStore) -> Any:
    return await store.load(), await store.read_snapshot()


# -- refusals


def test_a_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    run(tmp_path, fill)
    refused = refusal(tmp_path, cluster_id="another")
    assert refused.cause == f"{tmp_path}/raft belongs to cluster {CLUSTER!r}, not 'another'"
    assert "cluster_id" in refused.remedy
    assert len(run(tmp_path, load).entries) == 40


def test_a_store_of_another_node_is_refused(tmp_path: Path) -> None:
    run(tmp_path, fill)
    refused = refusal(tmp_path, node_id=2)
    assert refused.cause == f"{tmp_path}/raft belongs to node 1, not node 2"
    assert "start it as node 1" in refused.remedy


def test_a_store_of_another_directory_is_refused_where_a_certain_one_is_wanted(tmp_path: Path) -> None:
    directory_id = run(tmp_path, fill)
    assert run(tmp_path, load, directory_id=directory_id).identity.directory_id == directory_id
    refused = refusal(tmp_path, directory_id=UUID(int=5))
    assert f"is the store of directory {directory_id}, not {UUID(int=5)}" in refused.cause


def test_an_empty_disk_is_refused_where_a_certain_store_is_wanted(tmp_path: Path) -> None:
    refused = refusal(tmp_path, directory_id=UUID(int=5))
    assert "is empty, and the store of directory" in refused.cause
    assert run(tmp_path, load).is_empty


def test_a_store_held_by_a_living_process_is_refused_until_that_is_dead(tmp_path: Path) -> None:
    with saving_process(tmp_path) as process:
        process.line()
        refused = refusal(tmp_path)
        assert refused.cause == f"{tmp_path}/raft is in use by another process"
    run(tmp_path, load)


def test_a_store_of_an_unknown_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_layout, "FORMAT_VERSION", 99)
    run(tmp_path, load)
    monkeypatch.undo()
    refused = refusal(tmp_path)
    assert "is of format 99, and this version of lograft knows only 1" in refused.cause


def test_a_path_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raft").write_text("a file")
    assert "cannot be used" in refusal(tmp_path).cause


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def change_every(path: Path, old: bytes, new: bytes) -> None:
    """Also in pages that are free: which those are is LMDB's business."""
    assert len(old) == len(new)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda path: overwrite(path, 0, b"not a store " * 2000), "not an LMDB file"),
        (lambda path: os.truncate(path, 3 * 4096), "MDB_|checksum"),
        (lambda path: os.truncate(path, 100), "MDB_INVALID"),
        (lambda path: change_every(path, b"command 30 of", b"command 31 of"), "checksum of entry 30"),
        (lambda path: change_every(path, b"state of the machine", b"state of the machina"), "checksum of piece 0"),
        (lambda path: change_every(path, CLUSTER.encode(), b"Test-cluster"), "checksum of 'identity'"),
    ],
    ids=["garbage", "cut", "cut in the header", "entry changed", "snapshot changed", "identity changed"],
)
def test_a_damaged_store_is_refused(tmp_path: Path, damage: Callable[[Path], None], complaint: str) -> None:
    run(tmp_path, fill)
    damage(tmp_path / "raft" / "data.mdb")
    refused = refusal(tmp_path)
    assert f"{tmp_path}/raft is damaged" in refused.cause
    assert "quorum replace 1" in refused.remedy
    assert re.search(complaint, refused.cause), refused.cause


def test_a_store_that_lost_a_page_is_refused_unless_the_page_was_free(tmp_path: Path) -> None:
    """And the process that opens it lives on, whichever page it is."""
    run(tmp_path, fill)
    sound = run(tmp_path, load_with_snapshot)
    path = tmp_path / "raft" / "data.mdb"
    content = path.read_bytes()
    refused = 0
    for page in range(2, len(content) // PAGE_BYTES):
        overwrite(path, page * PAGE_BYTES, bytes(PAGE_BYTES))
        try:
            assert run(tmp_path, load_with_snapshot) == sound
        except StoreRefused:
            refused += 1
        path.write_bytes(content)
    assert refused >= 5  # of the snapshot alone


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        (store_layout._entry_key(30), "entry 30 is missing"),
        (store_layout._piece_key(0), "piece 0 of 1 of the snapshot is missing"),
        (b"identity", "it has no identity"),
        (b"format", "it holds something, but not its format"),
    ],
)
def test_a_store_with_something_missing_is_refused(tmp_path: Path, key: bytes, complaint: str) -> None:
    run(tmp_path, fill)
    with lmdb.open(str(tmp_path / "raft")) as environment, environment.begin(write=True) as transaction:
        assert transaction.delete(key)
    assert complaint in refusal(tmp_path).cause


def test_a_refused_store_can_be_opened_by_who_it_belongs_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with disk_runtime() as runtime:
            await (await open_store(runtime, tmp_path)).close()
            with pytest.raises(StoreRefused):
                await open_store(runtime, tmp_path, cluster_id="another")
            await (await open_store(runtime, tmp_path)).close()

    asyncio.run(main())


# -- transactions


class HandWorker:
    """Performs what is queued when it is told to, in one go."""

    def __init__(self, perform: Callable[[list[Any]], Any], completed: Callable[[Any], None]) -> None:
        self._perform = perform
        self._completed = completed
        self.queue: deque[Any] = deque()

    def submit(self, operation: Any) -> None:
        self.queue.append(operation)

    def step(self) -> None:
        operations, self.queue = list(self.queue), deque()
        self._completed(self._perform(operations))

    async def close(self) -> None:
        if self.queue:
            self.step()


def test_calls_that_wait_together_share_one_transaction_and_see_those_before_them(tmp_path: Path) -> None:
    workers: list[HandWorker] = []

    def make_worker(name: str, perform: Callable[[list[Any]], Any], completed: Callable[[Any], None]) -> HandWorker:
        workers.append(HandWorker(perform, completed))
        return workers[-1]

    async def main() -> None:
        async with disk_runtime(make_worker) as runtime:
            store = await open_store(runtime, tmp_path)
            saves = [asyncio.ensure_future(store.save(HardState(n), [entry(n)], None)) for n in range(1, 101)]
            loaded = asyncio.ensure_future(store.load())
            later = asyncio.ensure_future(store.save(None, [entry(101)], None))
            await asyncio.sleep(0)
            assert not any(save.done() for save in saves)
            workers[0].step()
            await asyncio.gather(*saves, later)
            assert store.fsyncs == 1
            assert (await loaded).entries == tuple(entries(1, 100))
            again = asyncio.ensure_future(store.load())
            await asyncio.sleep(0)
            workers[0].step()
            assert len((await again).entries) == 101
            assert store.fsyncs == 1, "reading needs no commit"
            await store.close()

    asyncio.run(main())


def test_the_map_grows_by_itself(tmp_path: Path) -> None:
    """The first map has 16 MiB."""

    async def grow(store: LmdbStore) -> None:
        for index in range(1, 9):
            await store.save(None, [entry(index, data=bytes(4 * 1024 * 1024))], None)
        await store.save_own_snapshot(snapshot(8, data=bytes(40 * 1024 * 1024)))

    async def read(store: LmdbStore) -> int:
        found = await store.read_snapshot()
        await store.save(None, [entry(9, data=bytes(8 * 1024 * 1024))], None)
        return len(found.data) if found is not None else 0

    run(tmp_path, grow)
    assert run(tmp_path, read) == 40 * 1024 * 1024


def test_a_transaction_that_does_not_fit_is_repeated_in_a_greater_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if how much it needs was guessed wrong."""

    async def scenario(store: LmdbStore) -> None:
        monkeypatch.setattr(store._environment, "_make_room", lambda write_bytes: None)
        await store.save(HardState(1), [entry(1, data=bytes(30 * 1024 * 1024)), entry(2)], None)
        assert (await store.load()).entries == (entry(1, data=bytes(30 * 1024 * 1024)), entry(2))

    run(tmp_path, scenario)


def test_the_space_of_what_is_compacted_is_used_again(tmp_path: Path) -> None:
    async def scenario(store: LmdbStore) -> int:
        for cycle in range(30):
            first = cycle * 100 + 1
            await store.save(None, [entry(index, data=bytes(10_000)) for index in range(first, first + 100)], None)
            await store.save_own_snapshot(snapshot(first + 99, data=bytes(100_000)))
        return (tmp_path / "raft" / "data.mdb").stat().st_size

    written = 30 * (100 * 10_000 + 100_000)
    assert run(tmp_path, scenario) < written / 5


FAILING = """
import asyncio, resource, signal, sys
from support.raft_stores import disk_runtime, entry, open_store
from lograft.raft.store.errors import StoreFailed

async def attempt(call):
    try:
        await call
        return "done"
    except StoreFailed as failed:
        return str(failed)

async def main():
    async with disk_runtime() as runtime:
        store = await open_store(runtime, sys.argv[1])
        await store.save(None, [entry(1)], None)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        doomed = [store.save(None, [entry(2, data=bytes(2_000_000))], None), store.save(None, [entry(3)], None)]
        for outcome in await asyncio.gather(*map(attempt, doomed)):
            print(outcome)
        for call in (store.save(None, [entry(4)], None), store.load(), store.read_snapshot()):
            print(await attempt(call))
        print(store.fsyncs)
        await store.close()

asyncio.run(main())
"""


def test_a_failed_commit_ends_the_store_for_good(tmp_path: Path) -> None:
    """The disk is full, as far as that process can tell."""
    result = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path)], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")
    *outcomes, fsyncs = result.stdout.splitlines()
    assert len(outcomes) == 5
    assert set(outcomes) == {outcomes[0]}
    assert outcomes[0].startswith(f"the store at {tmp_path}/raft failed, and takes nothing more: mdb_txn_commit")
    assert fsyncs == "1"
    assert run(tmp_path, load).entries == (entry(1),)


# -- kill -9


def saving_process(directory: Path) -> Program:
    return Program(sys.executable, str(TESTS / "support" / "raft_store_process.py"), str(directory), env=ENVIRONMENT)


def confirmed_until_killed(directory: Path, confirmations: int) -> tuple[UUID, int]:
    """Let it save, kill it after so many confirmations: its directory id, and the last index it confirmed."""
    with saving_process(directory) as process:
        directory_id = UUID(process.line().strip())
        last = 0
        for _ in range(confirmations):
            last = int(process.line())
        process.kill()
        # What it still said before it died counts, but for a line cut short.
        for line in process.rest().split("\n")[:-1]:
            last = int(line)
    return directory_id, last


def test_all_that_was_confirmed_is_there_after_every_kill(tmp_path: Path) -> None:
    rng = random.Random(1)
    identities = set()
    for _ in range(10):
        directory_id, confirmed = confirmed_until_killed(
            tmp_path, rng.choice([0, rng.randint(1, 20), rng.randint(1, 250)])
        )
        identities.add(directory_id)
        state, held = run(tmp_path, load_with_snapshot)
        last = state.entries[-1].index if state.entries else state.snapshot.index
        assert last >= confirmed
        assert state.hard_state.term == last
        for stored in state.entries:
            assert stored.term == stored.index
            assert stored.payload == Command(bytes(stored.index % 7000))
        if held is not None:
            assert held.data == bytes(held.metadata.index % 600_000)
    assert len(identities) == 1


# -- a full disk


@pytest.mark.parametrize("is_closed_meanwhile", [False, True])
@pytest.mark.parametrize(
    "error",
    [lmdb.DiskError("mdb_txn_commit: No space left on device"), lmdb.Error("mdb_txn_commit: Input/output error")],
)
def test_on_a_full_disk_what_is_to_be_saved_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: lmdb.Error, is_closed_meanwhile: bool
) -> None:
    async def scenario(store: LmdbStore) -> None:
        await fill(store)
        environment, refused = store._environment, asyncio.Event()
        transact, loop = environment._transact, asyncio.get_running_loop()
        is_full = True

        def refuse(operations: Any) -> Any:
            if not is_full:
                return transact(operations)
            loop.call_soon_threadsafe(refused.set)
            raise error

        monkeypatch.setattr(environment, "_transact", refuse)
        monkeypatch.setattr(environment, "_free_bytes", lambda: 0)
        saving = [
            asyncio.ensure_future(store.save(HardState(4, None, 2), entries(51, 60), None)),
            asyncio.ensure_future(store.save(HardState(5, None, 2), entries(61, 70), None)),
        ]
        await refused.wait()
        if is_closed_meanwhile:
            await store.close()
            outcomes = await asyncio.gather(*saving, return_exceptions=True)
            assert all(isinstance(outcome, StoreFailed) for outcome in outcomes)
        else:
            assert not any(done.done() for done in saving)
            is_full = False
            await asyncio.gather(*saving)

    run(tmp_path, scenario)
    state = run(tmp_path, load)
    assert state.entries[-1].index == (50 if is_closed_meanwhile else 70)


def test_an_input_output_error_of_a_disk_with_room_ends_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store: LmdbStore) -> None:
        def fail(operations: Any) -> Any:
            raise lmdb.Error("mdb_txn_commit: Input/output error")

        await fill(store)
        monkeypatch.setattr(store._environment, "_transact", fail)
        with pytest.raises(StoreFailed):
            await store.save(HardState(4, None, 2), entries(51, 60), None)

    run(tmp_path, scenario)
