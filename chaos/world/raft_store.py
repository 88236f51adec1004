"""An in-memory Raft store for simulated nodes: the twin of `lograft.raft.store.lmdb_store`, with the same contract.

A `MemoryDisk` outlives the nodes that use it. A transaction becomes durable atomically, at one moment. A node killed
before that moment loses it, or keeps it without having been notified.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.workers import DiskSpeed
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import NEW, NOTHING, Entry, HardState, SnapshotMetadata
from lograft.raft.interfaces import Snapshot, StoredState, StoreIdentity
from lograft.raft.store.contract import shape_of
from lograft.raft.store.errors import StoreFailed, StoreRefused
from lograft.raft.store_starts import StoreStart, StoreStarts
from lograft.runtime.rng import Rng

NO_STARTS = StoreStarts()
_NO_SNAPSHOT = Snapshot(NOTHING, b"")


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a disk. Never changed, only replaced."""

    identity: StoreIdentity
    hard_state: HardState = NEW
    snapshot: Snapshot = _NO_SNAPSHOT
    entries: tuple[Entry, ...] = ()
    starts: StoreStarts = NO_STARTS
    seen_starts: tuple[tuple[Member, StoreStart], ...] = ()

    @property
    def state(self) -> StoredState:
        return StoredState(self.identity, self.hard_state, self.snapshot.metadata, self.entries)


class MemoryDisk:
    """One node's disk. `content` is its durable content."""

    def __init__(self, cluster_id: str, node_id: int, rng: Rng) -> None:
        self._rng = rng
        self.content = Content(StoreIdentity(cluster_id, node_id, rng.uuid()))
        self.owner: MemoryStore | None = None
        self._openings = 0

    def open(self, speed: DiskSpeed, rng: Rng) -> "MemoryStore":
        """Open the store for a node that starts or restarts. Raise `StoreRefused` if another node has it open."""
        if self.owner is not None:
            node_id = self.content.identity.node_id
            raise StoreRefused(f"the store of node {node_id} is in use", "stop the process that has it")
        self._openings += 1  # unlike the count on the disk, this never decreases
        self.content = replace(self.content, starts=self.content.starts.followed_by(self._openings))
        self.owner = MemoryStore(self, speed, rng)
        return self.owner

    def wipe(self) -> None:
        """Replace the disk by an empty one: the node comes back as another member."""
        assert self.owner is None, "in use"
        identity = self.content.identity
        self.content = Content(replace(identity, directory_id=self._rng.uuid()))

    def put_back(self, copy: Content) -> None:
        """Restore an earlier content of the disk."""
        assert self.owner is None, "in use"
        assert copy.identity == self.content.identity, "of another disk"
        self.content = copy


_Change: TypeAlias = Callable[[Content], Content]
_Result: TypeAlias = Callable[[Content], Any]


def _unchanged(content: Content) -> Content:
    return content


def _nothing(content: Content) -> None:
    """Return no result, for operations that only change the content."""


@dataclass(slots=True, eq=False)
class _Operation:
    change: _Change
    result: _Result
    done: "asyncio.Future[Any]"


class MemoryStore:
    """A `Store`. Operations queued while the disk is busy share its next transaction."""

    def __init__(self, disk: MemoryDisk, speed: DiskSpeed, rng: Rng) -> None:
        self._disk = disk
        self._speed = speed
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._shape = shape_of(disk.content.state)
        self._queue: list[_Operation] = []
        self._round: list[_Operation] = []  # being written
        self._is_busy = False  # until the loop is notified of the round's end
        self._failure: StoreFailed | None = None
        self._is_killed = False
        self._is_closed = False
        self._starts = disk.content.starts
        self._seen_starts = dict(disk.content.seen_starts)
        self.fsyncs = 0

    @property
    def identity(self) -> StoreIdentity:
        return self._disk.content.identity

    @property
    def starts(self) -> StoreStarts:
        return self._starts

    @property
    def seen_starts(self) -> Mapping[Member, StoreStart]:
        return self._seen_starts

    # -- the contract

    async def load(self) -> StoredState:
        state: StoredState = await self._submit(_unchanged, lambda content: content.state)
        return state

    async def note_start(self, member: Member, start: StoreStart) -> None:
        def noted(content: Content) -> Content:
            return replace(content, seen_starts=tuple({**dict(content.seen_starts), member: start}.items()))

        await self._submit(noted)

    async def initialise(self, voters: Configuration) -> None:
        self._check()
        self._shape.initialise(voters)
        snapshot = Snapshot(SnapshotMetadata(0, 0, voters), b"")
        await self._submit(lambda content: replace(content, snapshot=snapshot))

    async def save(self, hard_state: HardState | None, entries: Sequence[Entry], snapshot: Snapshot | None) -> None:
        self._check()
        saved = tuple(entries)
        if self._shape.save(hard_state, saved, snapshot.metadata if snapshot is not None else None):
            await self._submit(lambda content: _saved(content, hard_state, saved, snapshot))

    async def save_own_snapshot(self, snapshot: Snapshot) -> None:
        self._check()
        if self._shape.save_own_snapshot(snapshot.metadata):
            await self._submit(lambda content: _compacted(content, snapshot))

    async def read_snapshot(self) -> Snapshot | None:
        snapshot: Snapshot = await self._submit(_unchanged, lambda content: content.snapshot)
        return snapshot if snapshot.metadata.index > 0 else None

    async def close(self) -> None:
        """Perform all queued operations, then release the disk."""
        if self._is_killed:
            raise SimulatedCrash("the store's node has crashed")
        if not self._is_closed:
            self._is_closed = True
            if self._failure is None:
                await self._enqueue(_unchanged, _nothing)
            self._leave()

    # -- faults

    def kill(self) -> None:
        """Kill the node. Its transaction in progress takes effect or not, and no caller is notified."""
        self._is_killed = True
        if self._round and self._rng.random() < 0.5:
            self._apply()
        self._round.clear()
        self._queue.clear()
        self._leave()

    def fail(self, cause: str) -> None:
        """Break the disk. The transaction in progress takes effect or not; nothing after it becomes durable."""
        if self._round and self._rng.random() < 0.5:
            self._apply()
        self._failure = StoreFailed(f"node {self.identity.node_id}", cause)
        waiting, self._round, self._queue = [*self._round, *self._queue], [], []
        for operation in waiting:
            if not operation.done.done():
                operation.done.set_exception(self._failure)

    def _leave(self) -> None:
        if self._disk.owner is self:
            self._disk.owner = None

    # -- transactions

    def _check(self) -> None:
        if self._is_killed:
            raise SimulatedCrash("the store's node has crashed")
        assert not self._is_closed, "used after close"
        if self._failure is not None:
            raise self._failure

    async def _submit(self, change: _Change, result: _Result = _nothing) -> Any:
        self._check()
        return await self._enqueue(change, result)

    def _enqueue(self, change: _Change, result: _Result) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = self._loop.create_future()
        self._queue.append(_Operation(change, result, done))
        self._start_round()
        return done

    def _start_round(self) -> None:
        if self._queue and not self._is_busy:
            self._is_busy = True
            self._round, self._queue = self._queue, []
            self._loop.call_later(self._speed.work_s(), self._commit)

    def _commit(self) -> None:
        if self._round:  # false if the disk failed or the node was killed meanwhile
            operations, results = self._round, self._apply()
            self._round = []
            self._loop.call_later(self._speed.notice_s(), self._tell, operations, results)
        else:
            self._tell([], [])

    def _apply(self) -> list[Any]:
        """Apply the round's operations in one transaction."""
        content = self._disk.content
        results = []
        for operation in self._round:
            content = operation.change(content)
            results.append(operation.result(content))
        if content is not self._disk.content:
            self.fsyncs += 1
            self._disk.content = content
        return results

    def _tell(self, operations: list[_Operation], results: list[Any]) -> None:
        if self._is_killed:
            return
        self._is_busy = False
        for operation, result in zip(operations, results, strict=True):
            if not operation.done.done():
                operation.done.set_result(result)
        self._start_round()


def _saved(
    content: Content, hard_state: HardState | None, entries: tuple[Entry, ...], snapshot: Snapshot | None
) -> Content:
    if snapshot is not None:
        content = replace(content, snapshot=snapshot, entries=())
    if entries:
        kept = entries[0].index - content.snapshot.metadata.index - 1
        content = replace(content, entries=content.entries[:kept] + entries)
    return content if hard_state is None else replace(content, hard_state=hard_state)


def _compacted(content: Content, snapshot: Snapshot) -> Content:
    gone = snapshot.metadata.index - content.snapshot.metadata.index
    return replace(content, snapshot=snapshot, entries=content.entries[gone:])
