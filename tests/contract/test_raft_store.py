"""What a Raft store promises: the one on LMDB and its twin in memory pass the same tests."""

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.raft_stores import (
    CLUSTER,
    ONE,
    THREE,
    TWO,
    VOTERS,
    OpenStore,
    Scenario,
    entries,
    entry,
    run_in_memory,
    run_on_lmdb,
    snapshot,
)

from lograft.raft.core.configuration import configuration
from lograft.raft.core.entries import (
    NEW,
    NOTHING,
    Command,
    Entry,
    HardState,
    NewConfiguration,
    NoOperation,
    SnapshotMetadata,
)
from lograft.raft.interfaces import Snapshot, Store, StoredState
from lograft.raft.store.errors import StoreNotEmpty, StoreRefused
from lograft.raft.store_starts import StoreStart

Run = Callable[[Scenario[Any]], Any]


@pytest.fixture(params=["lmdb", "memory"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a scenario with what opens, again and again, the same store."""
    if request.param == "lmdb":
        return lambda scenario: run_on_lmdb(tmp_path, scenario)
    return lambda scenario: run_in_memory(7, scenario)


async def reopened(store: Store, open_store: OpenStore) -> Store:
    await store.close()
    return await open_store()


# -- whose it is


def test_a_new_store_is_empty_and_has_an_identity_of_its_own(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        identity = store.identity
        assert (identity.cluster_id, identity.node_id) == (CLUSTER, 1)
        assert identity.member == (1, identity.directory_id)
        state = await store.load()
        assert state == StoredState(identity, NEW, NOTHING, ())
        assert state.is_empty
        assert await store.read_snapshot() is None
        await store.close()

    run(scenario)


def test_the_identity_is_the_same_after_every_reopening(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        identity = store.identity
        for _ in range(3):
            store = await reopened(store, open_store)
            assert store.identity == identity == (await store.load()).identity
        await store.close()

    run(scenario)


def test_a_store_in_use_cannot_be_opened_until_it_is_closed(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        with pytest.raises(StoreRefused, match="in use"):
            await open_store()
        store = await reopened(store, open_store)
        await store.close()

    run(scenario)


# -- how often it was opened


def test_each_opening_of_a_store_is_counted_and_told_from_all_others(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        openings = [store.starts]
        for _ in range(3):
            store = await reopened(store, open_store)
            openings.append(store.starts)
        await store.close()
        assert [starts.count for starts in openings] == [1, 2, 3, 4]
        assert len(set(openings[-1].tokens)) == 4
        assert all(openings[-1].has_had(starts.latest) for starts in openings)

    run(scenario)


def test_openings_of_other_stores_are_kept_the_latest_of_each(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        assert store.seen_starts == {}
        for number, member in ((1, TWO), (5, THREE), (2, TWO)):
            await store.note_start(member, StoreStart(number, 2**32 - number))
        await store.save(HardState(1, None, 0), entries(1, 3), None)
        store = await reopened(store, open_store)
        expected = {TWO: StoreStart(2, 2**32 - 2), THREE: StoreStart(5, 2**32 - 5)}
        assert store.seen_starts == expected
        await store.save_own_snapshot(snapshot(2))
        await store.save(None, (), snapshot(9))
        store = await reopened(store, open_store)
        assert store.seen_starts == expected
        assert not (await store.load()).is_empty
        await store.close()

    run(scenario)


def test_a_store_that_was_only_opened_is_empty(run: Run) -> None:
    """It never voted; to count openings, and to note those of others, promises nothing."""

    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.note_start(TWO, StoreStart(1, 1))
        store = await reopened(store, open_store)
        assert (await store.load()).is_empty
        await store.initialise(VOTERS)
        await store.close()

    run(scenario)


# -- the first voters


def test_the_first_voters_are_a_snapshot_of_nothing(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.initialise(VOTERS)
        store = await reopened(store, open_store)
        state = await store.load()
        assert state == StoredState(store.identity, NEW, SnapshotMetadata(0, 0, VOTERS), ())
        assert not state.is_empty
        assert await store.read_snapshot() is None
        await store.close()

    run(scenario)


@pytest.mark.parametrize(
    "what",
    [
        lambda store: store.initialise(VOTERS),
        lambda store: store.save(HardState(1), [], None),
        lambda store: store.save(None, [entry(1)], None),
        lambda store: store.save(None, [], snapshot(3)),
    ],
    ids=["voters", "a term", "an entry", "a snapshot"],
)
@pytest.mark.parametrize("is_reopened", [False, True], ids=["at once", "reopened"])
def test_a_store_that_knows_something_takes_no_first_voters(
    run: Run, what: Callable[[Store], Coroutine[Any, Any, None]], is_reopened: bool
) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await what(store)
        before = await store.load()
        if is_reopened:
            store = await reopened(store, open_store)
        with pytest.raises(StoreNotEmpty):
            await store.initialise(configuration([ONE]))
        assert await store.load() == before
        await store.close()

    run(scenario)


# -- saving


def test_every_kind_of_entry_comes_back(run: Run) -> None:
    log = (
        Entry(1, 1, NoOperation()),
        Entry(2, 1, Command(b"")),
        Entry(3, 1, Command(bytes(range(256)))),
        Entry(4, 2, NewConfiguration(configuration([ONE], [TWO]))),
    )

    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(HardState(2, TWO, 1), log, None)
        store = await reopened(store, open_store)
        assert await store.load() == StoredState(store.identity, HardState(2, TWO, 1), NOTHING, log)
        await store.close()

    run(scenario)


def test_a_hard_state_alone_is_kept_and_leaves_the_log_alone(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(HardState(1, ONE, 0), entries(1, 3), None)
        await store.save(HardState(2, None, 2), [], None)
        store = await reopened(store, open_store)
        state = await store.load()
        assert state.hard_state == HardState(2, None, 2)
        assert state.entries == tuple(entries(1, 3))
        await store.close()

    run(scenario)


def test_entries_alone_leave_the_hard_state_alone(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(HardState(1, ONE, 0), [], None)
        await store.save(None, entries(1, 3), None)
        assert (await store.load()).hard_state == HardState(1, ONE, 0)
        await store.close()

    run(scenario)


@pytest.mark.parametrize("first", [1, 2, 5, 6])
def test_entries_replace_all_from_the_first_on(run: Run, first: int) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(None, entries(1, 5, term=1), None)
        await store.save(HardState(2), [entry(first, term=2)], None)
        store = await reopened(store, open_store)
        assert (await store.load()).entries == (*entries(1, first - 1, term=1), entry(first, term=2))
        await store.close()

    run(scenario)


def test_saving_nothing_changes_nothing(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(None, [], None)
        assert (await store.load()).is_empty
        await store.close()

    run(scenario)


def test_what_would_leave_a_gap_is_a_bug_and_changes_nothing(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(None, entries(1, 6), None)
        await store.save_own_snapshot(snapshot(4))
        before = await store.load()
        for wrong in (
            store.save(None, [entry(8)], None),
            store.save(None, [entry(4)], None),
            store.save(None, [entry(7), entry(9)], None),
            store.save(None, [], snapshot(4)),
            store.save(None, [entry(12)], snapshot(10)),
            store.save_own_snapshot(snapshot(14)),
        ):
            with pytest.raises(AssertionError):
                await wrong
        assert await store.load() == before
        await store.close()

    run(scenario)


def test_an_entry_of_the_greatest_size_comes_back(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        big = [entry(index, data=bytes([index]) * (8 * 1024 * 1024)) for index in range(1, 4)]
        for one in big:
            await store.save(HardState(1, ONE, one.index), [one], None)
        store = await reopened(store, open_store)
        assert (await store.load()).entries == tuple(big)
        await store.close()

    run(scenario)


def test_saves_that_are_under_way_together_happen_in_the_order_they_were_asked_for(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        finished: list[int] = []

        async def save(term: int) -> None:
            # Each replaces what the one before it wrote, but for one entry.
            await store.save(HardState(term), entries(term, term + 2, term), None)
            finished.append(term)

        async with asyncio.TaskGroup() as tasks:
            for term in range(1, 101):
                tasks.create_task(save(term))
        assert finished == list(range(1, 101))
        store = await reopened(store, open_store)
        state = await store.load()
        assert state.hard_state == HardState(100)
        assert [entry.term for entry in state.entries] == [*range(1, 101), 100, 100]
        await store.close()

    run(scenario)


def test_closing_waits_for_what_is_under_way(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        async with asyncio.TaskGroup() as tasks:
            for index in range(1, 21):
                tasks.create_task(store.save(None, [entry(index)], None))
            await asyncio.sleep(0)
            await store.close()
        await store.close()
        store = await open_store()
        assert (await store.load()).entries == tuple(entries(1, 20))
        await store.close()

    run(scenario)


def test_a_save_whose_caller_is_cancelled_is_carried_out_in_its_place(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        task = asyncio.ensure_future(store.save(None, [entry(1)], None))
        await asyncio.sleep(0)
        task.cancel()
        await store.save(None, [entry(2)], None)
        assert task.cancelled()
        assert (await store.load()).entries == tuple(entries(1, 2))
        await store.close()

    run(scenario)


# -- snapshots


def test_a_leaders_snapshot_takes_the_place_of_the_whole_log(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(HardState(1), entries(1, 9), None)
        await store.save(HardState(3, None, 5), [], snapshot(5, 3))
        store = await reopened(store, open_store)
        assert await store.load() == StoredState(store.identity, HardState(3, None, 5), snapshot(5, 3).metadata, ())
        assert await store.read_snapshot() == snapshot(5, 3)
        await store.close()

    run(scenario)


def test_entries_that_come_with_a_leaders_snapshot_follow_it(run: Run) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(HardState(1), entries(1, 3), None)
        await store.save(None, entries(21, 23, 3), snapshot(20, 3))
        store = await reopened(store, open_store)
        state = await store.load()
        assert (state.snapshot.index, state.entries) == (20, tuple(entries(21, 23, 3)))
        await store.close()

    run(scenario)


@pytest.mark.parametrize("index", [1, 4, 6])
def test_a_snapshot_of_its_own_keeps_the_log_after_it(run: Run, index: int) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.initialise(VOTERS)
        await store.save(HardState(1, ONE, 6), entries(1, 6), None)
        await store.save_own_snapshot(snapshot(index))
        await store.save(None, [entry(7)], None)
        store = await reopened(store, open_store)
        state = await store.load()
        assert state.snapshot == snapshot(index).metadata
        assert state.entries == tuple(entries(index + 1, 7))
        assert state.hard_state == HardState(1, ONE, 6)
        assert await store.read_snapshot() == snapshot(index)
        await store.close()

    run(scenario)


@pytest.mark.parametrize("index", [2, 5])
def test_a_snapshot_of_its_own_that_a_leaders_overtook_changes_nothing(run: Run, index: int) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(None, entries(1, 3), None)
        await store.save(None, entries(6, 7, 2), snapshot(5, 2, b"the leader's"))
        await store.save_own_snapshot(snapshot(index, 1, b"its own"))
        assert await store.read_snapshot() == snapshot(5, 2, b"the leader's")
        assert (await store.load()).entries == tuple(entries(6, 7, 2))
        await store.close()

    run(scenario)


@pytest.mark.parametrize("size", [0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 3_000_000])
def test_a_snapshot_of_any_size_comes_back_whole_in_the_place_of_a_greater_one(run: Run, size: int) -> None:
    async def scenario(open_store: OpenStore) -> None:
        store = await open_store()
        await store.save(None, [], snapshot(5, data=bytes(5_000_000)))
        data = (bytes(range(251)) * (size // 251 + 1))[:size]
        await store.save(None, [], snapshot(6, data=data))
        store = await reopened(store, open_store)
        assert await store.read_snapshot() == snapshot(6, data=data)
        await store.close()

    run(scenario)


# -- against a model


NO_SNAPSHOT = Snapshot(NOTHING, b"")


@dataclass(frozen=True)
class Model:
    """What should be there."""

    hard_state: HardState = NEW
    snapshot: Snapshot = NO_SNAPSHOT
    entries: tuple[Entry, ...] = ()

    @property
    def first(self) -> int:
        return self.snapshot.metadata.index + 1

    @property
    def last(self) -> int:
        return self.snapshot.metadata.index + len(self.entries)


Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hard state", "entries", "entries", "own snapshot", "leader's snapshot", "wait", "reopen"]),
        st.integers(0, 10),
        st.integers(0, 5),
        st.sampled_from([0, 10, 300, 5000, 70_000]),
    ),
    max_size=25,
)


def plan(step: Step, model: Model, number: int) -> tuple[Model, Callable[[Store], Coroutine[Any, Any, None]] | None]:
    """The model after a step, and what it asks of a store."""
    kind, where, count, size = step
    new = tuple(entry(0, number, bytes([number % 256]) * size) for _ in range(count))
    match kind:
        case "hard state":
            hard_state = HardState(number, TWO if where % 2 else None, where)
            return replace(model, hard_state=hard_state), lambda store: store.save(hard_state, [], None)
        case "entries":
            first = min(model.first + where, model.last + 1)
            placed = tuple(replace(entry, index=index) for index, entry in enumerate(new, first))
            kept = model.entries[: first - model.first] if placed else model.entries
            return replace(model, entries=kept + placed), lambda store: store.save(None, placed, None)
        case "own snapshot" if model.entries:
            index = min(model.first + where, model.last)
            taken = snapshot(index, number, bytes([number % 256]) * size * 10)
            after = replace(model, snapshot=taken, entries=model.entries[index - model.first + 1 :])
            return after, lambda store: store.save_own_snapshot(taken)
        case "leader's snapshot":
            index = model.first + where
            taken = snapshot(index, number, bytes([number % 256]) * size * 10)
            placed = tuple(replace(entry, index=index) for index, entry in enumerate(new, index + 1))
            hard_state = HardState(number, None, index)
            return Model(hard_state, taken, placed), lambda store: store.save(hard_state, placed, taken)
    return model, None


async def follow(open_store: OpenStore, steps: list[Step]) -> None:
    """Carry the steps out, many at a time, and compare whenever they are waited for."""
    store, model, numbers = await open_store(), Model(), itertools.count(1)
    under_way: list[asyncio.Future[None]] = []
    for step in [*steps, ("reopen", 0, 0, 0)]:
        model, call = plan(step, model, next(numbers))
        if call is not None:
            under_way.append(asyncio.ensure_future(call(store)))
            await asyncio.sleep(0)
        if step[0] in ("wait", "reopen"):
            await asyncio.gather(*under_way)
            under_way.clear()
            if step[0] == "reopen":
                store = await reopened(store, open_store)
            expected = StoredState(store.identity, model.hard_state, model.snapshot.metadata, model.entries)
            assert await store.load() == expected
            has_snapshot = model.snapshot.metadata.index > 0
            assert await store.read_snapshot() == (model.snapshot if has_snapshot else None)
    await store.close()


@settings(max_examples=40, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_lmdb_holds_what_a_model_does_after_any_calls_and_reopenings(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run_on_lmdb(directory, lambda open_store: follow(open_store, steps))


@settings(max_examples=100, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_memory_holds_what_a_model_does_after_any_calls_and_reopenings(steps: list[Step], seed: int) -> None:
    run_in_memory(seed, lambda open_store: follow(open_store, steps))
