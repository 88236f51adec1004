"""The Raft store on LMDB: one environment, one thread, one durable transaction for all calls that wait together."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import Entry, HardState, SnapshotMetadata
from lograft.raft.interfaces import Snapshot, StoredState, StoreIdentity
from lograft.raft.store.contract import shape_of
from lograft.raft.store.errors import StoreFailed
from lograft.raft.store.layout import (
    DamagedStore,
    read_snapshot,
    read_state,
    write_own_snapshot,
    write_ready,
    write_seen_start,
    write_snapshot,
)
from lograft.raft.store.lmdb_opening import ExpectedStore, OpenedStore, take_hold
from lograft.raft.store_starts import TOKEN_BITS, StoreStart, StoreStarts
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.world import Runtime

if TYPE_CHECKING:
    import lmdb

log = get_logger(__name__)

FOLDER = "raft"
_RETRY_SECONDS = 0.25
_ROOM_BYTES = 1024 * 1024  # space a transaction may need beside its data: pages of the tree, the list of free pages


@dataclass(slots=True, eq=False)
class _Operation:
    """One call. `action` runs again if the map was too small for its transaction."""

    action: Callable[[lmdb.Transaction[bytes]], Any]
    write_bytes: int | None  # roughly what it writes; None: it only reads
    done: asyncio.Future[Any]


@dataclass(slots=True, eq=False)
class _Outcome:
    """The outcome of one transaction."""

    operations: list[_Operation]
    results: list[Any] = field(default_factory=list)
    failure: StoreFailed | None = None
    is_commit: bool = False
    is_refused: bool = False  # the disk is full: nothing was done, and all operations wait


class _Environment:
    """The LMDB environment. Runs on the store's thread."""

    def __init__(self, path: str, environment: lmdb.Environment, free_bytes: Callable[[], int]) -> None:
        self._path = path
        self._free_bytes = free_bytes
        self._environment = environment
        self._page_bytes = environment.stat()["psize"]
        self._failure: StoreFailed | None = None
        self._backlog: list[_Operation] = []  # operations that wait for disk space

    def perform(self, operations: list[_Operation]) -> _Outcome:
        """Carry out all operations in one transaction. After a failure, carry out none, and refuse all later ones.

        A full disk is not a failure. A commit writes its pages, syncs them, and only then publishes the new root: if
        the disk refuses before that, the transaction has not happened. A retry writes all its pages again, so it also
        repairs a sync that failed for lack of space.
        """
        import lmdb

        operations = [*self._backlog, *operations]
        self._backlog = []
        outcome = _Outcome(operations)
        if self._failure is None:
            try:
                outcome.results = self._transact(operations)
                outcome.is_commit = any(operation.write_bytes is not None for operation in operations)
            except (lmdb.Error, OSError, DamagedStore) as error:
                if self._is_want_of_room(error):
                    outcome.is_refused, self._backlog = True, operations
                    return outcome
                self._failure = StoreFailed(self._path, error)
        outcome.failure = self._failure
        return outcome

    def _is_want_of_room(self, error: Exception) -> bool:
        """Return True if the disk is full. LMDB reports EIO for any short write."""
        import lmdb

        if isinstance(error, lmdb.DiskError):
            return True
        is_cut_short = isinstance(error, lmdb.Error) and os.strerror(errno.EIO) in str(error)
        return is_cut_short and self._free_bytes() < _ROOM_BYTES

    def _transact(self, operations: list[_Operation]) -> list[Any]:
        import lmdb

        written = [operation.write_bytes for operation in operations if operation.write_bytes is not None]
        if not written:
            with self._environment.begin() as transaction:
                return [operation.action(transaction) for operation in operations]
        self._make_room(sum(written))
        while True:
            try:
                # Leaving the block commits, and waits for the disk.
                with self._environment.begin(write=True) as transaction:
                    return [operation.action(transaction) for operation in operations]
            except lmdb.MapFullError:
                self._grow(2 * self._environment.info()["map_size"])

    def _make_room(self, write_bytes: int) -> None:
        """Grow the map before it is full. The map is address space only; the file grows with its content."""
        info = self._environment.info()
        used_bytes = (info["last_pgno"] + 1) * self._page_bytes
        needed_bytes = used_bytes + 2 * write_bytes + _ROOM_BYTES
        if needed_bytes > info["map_size"]:
            self._grow(max(2 * info["map_size"], needed_bytes))

    def _grow(self, map_bytes: int) -> None:
        self._environment.set_mapsize(-(-map_bytes // _ROOM_BYTES) * _ROOM_BYTES)

    def close(self) -> None:
        self._environment.close()


class LmdbStore:
    """A `Store` (see `raft/interfaces.py`), made by `open_lmdb_store`. Lives on the loop; a thread does the work.

    Once a transaction has failed, every call raises `StoreFailed`.
    """

    def __init__(self, runtime: Runtime, path: str, held: OpenedStore) -> None:
        self.path = path
        self.fsyncs = 0
        self._runtime = runtime
        self._identity = held.state.identity
        self._starts = held.starts
        self._seen_starts = held.seen_starts
        self._shape = shape_of(held.state)
        self._unchanged: StoredState | None = held.state  # read on opening, so `load` need not read again
        self._lock = held.lock
        self._environment = _Environment(path, held.environment, partial(runtime.files.free_bytes, path))
        self._worker = runtime.make_worker(f"store {path}", self._environment.perform, self._completed)
        self._failure: StoreFailed | None = None
        self._is_closed = False
        self._is_stalled = False
        self._retry_timer: asyncio.TimerHandle | None = None

    @property
    def identity(self) -> StoreIdentity:
        return self._identity

    @property
    def starts(self) -> StoreStarts:
        return self._starts

    @property
    def seen_starts(self) -> Mapping[Member, StoreStart]:
        return self._seen_starts

    async def note_start(self, member: Member, start: StoreStart) -> None:
        self._check()
        await self._submit(partial(write_seen_start, member=member, start=start), 0)

    async def load(self) -> StoredState:
        self._check()
        state, self._unchanged = self._unchanged, None
        return state if state is not None else await self._submit(read_state, None)

    async def initialise(self, voters: Configuration) -> None:
        self._check()
        self._shape.initialise(voters)
        first = Snapshot(SnapshotMetadata(0, 0, voters), b"")
        await self._submit(partial(write_snapshot, snapshot=first), 0)

    async def save(self, hard_state: HardState | None, entries: Sequence[Entry], snapshot: Snapshot | None) -> None:
        self._check()
        entries = tuple(entries)
        if self._shape.save(hard_state, entries, snapshot.metadata if snapshot is not None else None):
            write_bytes = sum(entry.size_bytes for entry in entries) + (len(snapshot.data) if snapshot else 0)
            write = partial(write_ready, hard_state=hard_state, entries=entries, snapshot=snapshot)
            await self._submit(write, write_bytes)

    async def save_own_snapshot(self, snapshot: Snapshot) -> None:
        self._check()
        if self._shape.save_own_snapshot(snapshot.metadata):
            await self._submit(partial(write_own_snapshot, snapshot=snapshot), len(snapshot.data))

    async def read_snapshot(self) -> Snapshot | None:
        snapshot: Snapshot | None = await self._submit(read_snapshot, None)
        return snapshot

    async def close(self) -> None:
        """Finish all pending calls, then release the store. Closing twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        if self._is_stalled:
            self._worker.submit(_look())  # fails the calls that wait
        await self._worker.close()
        await self._runtime.blocking.run_blocking(self._environment.close)
        self._lock.release()

    # -- the two sides

    def _check(self) -> None:
        assert not self._is_closed, "used after close"
        if self._failure is not None:
            raise self._failure

    async def _submit(self, action: Callable[[lmdb.Transaction[bytes]], Any], write_bytes: int | None) -> Any:
        self._check()
        if write_bytes is not None:
            self._unchanged = None
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._worker.submit(_Operation(action, write_bytes, done))
        return await done

    def _completed(self, outcome: _Outcome) -> None:
        if outcome.is_refused != self._is_stalled:
            self._is_stalled = outcome.is_refused
            if self._is_stalled:
                log.error("store_waits_for_room", path=self.path)
            else:
                log.info("store_has_room", path=self.path)
        if outcome.is_refused:
            self._try_again_later(outcome.operations)
            return
        self._failure = outcome.failure
        self.fsyncs += outcome.is_commit
        for place, operation in enumerate(outcome.operations):
            if operation.done.done():
                continue  # the caller was cancelled
            if outcome.failure is not None:
                operation.done.set_exception(outcome.failure)
            else:
                operation.done.set_result(outcome.results[place])

    def _try_again_later(self, operations: list[_Operation]) -> None:
        if self._is_closed:  # do not wait for disk space while closing
            for operation in operations:
                if not operation.done.done():
                    operation.done.set_exception(StoreFailed(self.path, "there is no space left on its disk"))
                    operation.done.exception()  # retrieved, so asyncio does not complain if the caller is gone
            return
        if self._retry_timer is None:
            self._retry_timer = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry_timer = None
        if self._is_stalled and not self._is_closed:
            self._worker.submit(_look())


def _look() -> _Operation:
    """Return an operation that does nothing, except that the backlog is retried."""
    return _Operation(lambda _: None, None, asyncio.get_running_loop().create_future())


async def open_lmdb_store(
    runtime: Runtime, directory: str, cluster_id: str, node_id: int, directory_id: UUID | None = None
) -> LmdbStore:
    """Open this node's store in `directory`, or create it. Raise StoreRefused if it cannot be used.

    With `directory_id`, accept only that store. The store's identity is durable on return.
    """
    wanted = ExpectedStore(cluster_id, node_id, directory_id, runtime.rng.uuid(), runtime.rng.getrandbits(TOKEN_BITS))
    path = f"{directory}/{FOLDER}"
    held = await runtime.blocking.run_blocking(take_hold, runtime.files, path, wanted)
    return LmdbStore(runtime, path, held)
