"""The driver: runs a core on an event loop, with a store, a transport and a state machine around it.

node = RaftNode(runtime, store, state, transport, state_machine)
group.create_task(node.run())
result = await node.propose(b"command")
index = await node.read_index()         # local reads from now on are at least that recent
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, assert_never

from lograft.raft.core.configuration import Configuration, ConfigurationChange, Member
from lograft.raft.core.entries import Command, Entry, NewConfiguration, NoOperation, SnapshotMetadata
from lograft.raft.core.messages import Envelope, Message
from lograft.raft.core.raft_core import RaftCore, RaftLimits, RaftTiming
from lograft.raft.core.raft_log import RaftLog
from lograft.raft.core.ready import Ready
from lograft.raft.driver.inputs import (
    ChangeConfiguration,
    ConnectionBroken,
    Input,
    InputQueue,
    NodeLimits,
    Propose,
    ReadIndex,
    Received,
    SnapshotReported,
    SnapshotSaved,
    TransferLeadership,
)
from lograft.raft.driver.observers import LeadershipWatch, NodeObserver, Observers
from lograft.raft.driver.reads import AppliedWaiters, Reads
from lograft.raft.driver.requests import Requests
from lograft.raft.driver.snapshots import SnapshotPolicy, SnapshotSender, SnapshotTaker
from lograft.raft.driver.status import status_of
from lograft.raft.errors import EntryTooLarge, NodeStopped
from lograft.raft.interfaces import RaftStatus, Snapshot, StateMachine, Store, StoredState, Transport
from lograft.runtime.clock import Clock
from lograft.runtime.histogram import Histogram
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.silence import PatientTimer
from lograft.runtime.world import Runtime


class Alarm:
    """Calls `ring` at a time of the node's clock. Its one task belongs to `group`."""

    def __init__(self, group: asyncio.TaskGroup, clock: Clock, ring: Callable[[], None]) -> None:
        self._group = group
        self._clock = clock
        self._ring = ring
        self._wake_ms = 0
        self._task: asyncio.Task[None] | None = None

    def set(self, wake_ms: int) -> None:
        """Ring at `wake_ms` or earlier. An alarm that is set for an earlier time stays."""
        if self._task is not None and self._wake_ms <= wake_ms:
            return
        self.stop()
        self._wake_ms = wake_ms
        self._task = self._group.create_task(self._sleep(), name="raft-alarm")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _sleep(self) -> None:
        await self._clock.sleep_ms(max(self._wake_ms - self._clock.monotonic_ms(), 0))
        self._task = None
        self._ring()


log = get_logger(__name__)

_LAST_SAVE_SECONDS = 2.0
"""How long a node that is to stop waits for its store, which may be waiting for room on its disk."""


class _Stop(Exception):
    """Unwinds the node's tasks when it is closed."""


class RaftNode:
    """One node. All its work happens in `run`, a task of its owner. `run` ends after `close`, or with the exception
    that broke the node: a failed store or a broken invariant. A broken node never continues.

    Inputs wait while a Ready is carried out, so proposals that arrive during one transaction share the next one.
    """

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        state: StoredState,
        transport: Transport,
        state_machine: StateMachine,
        *,
        timing: RaftTiming | None = None,
        limits: RaftLimits | None = None,
        policy: SnapshotPolicy | None = None,
        node_limits: NodeLimits | None = None,
    ) -> None:
        self._clock = runtime.clock
        self._store = store
        self._transport = transport
        self._state_machine = state_machine
        self.core = RaftCore(
            state.identity.member,
            state.hard_state,
            RaftLog(state.snapshot, state.entries),
            runtime.rng.fork(),
            runtime.clock.monotonic_ms(),
            timing,
            limits,
        )
        self._timer = PatientTimer(self.core.timing.heartbeat_ms // 2)
        self._inputs = InputQueue(node_limits or NodeLimits())
        self._taken: deque[Input] = deque()  # inputs being handled: they are answered even if that breaks the node
        self._requests = Requests(self.core)
        self._reads = Reads(runtime.rng)
        self._applied_waiters = AppliedWaiters()
        self._applied_index = state.snapshot.index
        self._applied_configuration = state.snapshot.configuration
        self._observers = Observers()
        self._leadership = LeadershipWatch(self._observers)
        self._taker = SnapshotTaker(
            policy or SnapshotPolicy(), state_machine, store, runtime.blocking, self._own_snapshot_saved
        )
        self._taker.start(state.snapshot)
        self._sender = SnapshotSender(store, transport)
        self.append_seconds = Histogram()  # time to make a part of the log durable
        self.commit_seconds = Histogram()  # time from a proposal to its result
        self._has_begun = False
        self._is_stopping = False
        self._saving: asyncio.Timeout | None = None
        self._has_ended = asyncio.Event()

    # -- requests

    @property
    def member(self) -> Member:
        return self.core.member

    @property
    def applied_index(self) -> int:
        return self._applied_index

    def observe(self, observer: NodeObserver) -> None:
        """Notify `observer` of events from now on."""
        self._observers.add(observer)

    def status(self) -> RaftStatus:
        return status_of(self.core, self._applied_index)

    async def propose(self, data: bytes) -> Any:
        """Commit and apply `data`; return the state machine's result. The class of an error tells whether the outcome
        is known.

        Cancelling the caller does not withdraw an entry that was appended.
        """
        if len(data) > self.core.limits.max_entry_bytes:
            raise EntryTooLarge(len(data), self.core.limits.max_entry_bytes)
        answer: asyncio.Future[Any] = self._future()
        began_seconds = self._clock.monotonic_seconds()
        self._inputs.put_proposal(Propose(data, answer), self._requests.appended, self._requests.appended_bytes)
        result = await answer
        self.commit_seconds.observe(self._clock.monotonic_seconds() - began_seconds)
        return result

    async def read_index(self) -> int:
        """Wait until this node has applied everything committed anywhere at the time of the call; return that index.
        The caller then reads from the state machine. Raise ReadLost if it must ask again.

        A request lost on the way to the leader is not repeated: bound the call (`asyncio.timeout`), and retry.
        """
        answer: asyncio.Future[int] = self._future()
        self._inputs.put_read(ReadIndex(answer))
        return await answer

    async def change_configuration(self, change: ConfigurationChange) -> Configuration:
        """Commit `change` and return the configuration after it. Raise InvalidChange if it does not apply."""
        answer: asyncio.Future[Configuration] = self._future()
        self._inputs.put(ChangeConfiguration(change, answer))
        return await answer

    async def transfer_leadership(self, node_id: int) -> None:
        """Hand leadership to voter `node_id` and wait until it leads; refuse proposals meanwhile. Raise TransferFailed
        if another node leads then."""
        answer: asyncio.Future[None] = self._future()
        self._inputs.put(TransferLeadership(node_id, answer))
        await answer

    async def wait_applied(self, index: int) -> None:
        """Wait until `index` is applied on this node."""
        answer: asyncio.Future[int] = self._future()
        if index > self._applied_index:
            self._applied_waiters.add(index, answer)
            await answer

    def _future(self) -> "asyncio.Future[Any]":
        if self._is_stopping:
            raise NodeStopped
        return asyncio.get_running_loop().create_future()

    # -- what the transport delivers

    def receive(self, message: Message) -> None:
        self._inputs.put_message(message)

    def connection_broken(self, member: Member) -> None:
        self._inputs.put(ConnectionBroken(member))

    def snapshot_reported(self, recipient: Member, is_delivered: bool) -> None:
        self._inputs.put(SnapshotReported(recipient, is_delivered))

    def _own_snapshot_saved(self, metadata: SnapshotMetadata) -> None:
        self._inputs.put(SnapshotSaved(metadata))

    # -- life

    async def run(self) -> None:
        """Take part until `close`. Close transport and store at the end, whatever ended the node."""
        assert not self._has_begun, "run twice"
        self._has_begun = True
        try:
            await self._live()
        except BaseException:
            self._answer_all()
            await self._close_after_failure()
            raise
        else:
            self._answer_all()
            await self._transport.close()
            await self._store.close()
        finally:
            self._has_ended.set()

    async def close(self) -> None:
        """Stop, fail waiting requests, and wait until `run` has closed transport and store. A transaction that the
        store cannot finish is left as a crash leaves it: applied whole, or not at all."""
        self._is_stopping = True
        self._inputs.wake.set()
        if self._saving is not None:
            self._saving.reschedule(asyncio.get_running_loop().time() + _LAST_SAVE_SECONDS)
        if self._has_begun:
            await self._has_ended.wait()
        else:
            self._answer_all()

    async def _live(self) -> None:
        await self._restore_own_snapshot()
        self._transport.start(self)
        try:
            async with asyncio.TaskGroup() as group:
                await self._work(group)
                raise _Stop
        except BaseExceptionGroup as failures:
            for failure in failures.exceptions:
                if not isinstance(failure, _Stop):
                    raise failure from None

    async def _restore_own_snapshot(self) -> None:
        metadata = self.core.log.snapshot
        if metadata.index > 0:
            snapshot = await self._store.read_snapshot()
            assert snapshot is not None
            assert snapshot.metadata == metadata, f"the store has {snapshot.metadata}, not {metadata}"
            self._state_machine.restore(snapshot.data)

    def _answer_all(self) -> None:
        """Fail every waiting request. Appended entries may yet be committed; other requests had no effect."""
        self._is_stopping = True
        self._requests.stop()
        self._reads.stop(NodeStopped())
        self._applied_waiters.stop(NodeStopped())
        for item in [*self._taken, *self._inputs.drain()]:
            if (
                isinstance(item, Propose | ChangeConfiguration | TransferLeadership | ReadIndex)
                and not item.answer.done()
            ):
                item.answer.set_exception(NodeStopped())

    async def _close_after_failure(self) -> None:
        for part in (self._transport, self._store):
            try:
                await part.close()
            except Exception:  # report the node's first failure, not its consequences
                log.exception("raft_close_failed", part=type(part).__name__)

    # -- the loop

    async def _work(self, group: asyncio.TaskGroup) -> None:
        alarm = Alarm(group, self._clock, self._inputs.wake.set)
        while not self._is_stopping:
            self._inputs.wake.clear()
            self._take_in_all()
            self._fire_timer()
            self._leadership.note_loss(self.core)
            ready = self.core.ready()
            if ready is not None:
                await self._carry_out(ready, group)
            self._settle()
            if ready is None:
                alarm.set(self._timer.wake_ms(self.core.deadline_ms))
                await self._inputs.wake.wait()

    def _fire_timer(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._timer.is_due(self.core.deadline_ms, now_ms):
            self.core.tick(now_ms)

    async def _carry_out(self, ready: Ready, group: asyncio.TaskGroup) -> None:
        """Carry out a Ready in the order that its class gives, except that committed entries already on our disk are
        applied first: their callers need not wait for the next transaction."""
        self._send(ready.messages_now)
        committed_index = ready.committed[-1].index if ready.committed else 0
        is_early = ready.snapshot is None and committed_index <= self.core.log.stable_index
        if is_early:
            self._apply(ready, group)
        if ready.must_persist:
            if ready.messages_now:
                await asyncio.sleep(
                    0
                )  # let the messages go out first, so that our disk and the others' work in parallel
            await self._save(ready)
        elif ready.committed:
            await asyncio.sleep(0)  # a long log must not block the loop
        self._send(ready.messages)
        if not is_early:
            self._restore(ready)
            self._apply(ready, group)
        for order in ready.snapshots_to_send:
            self._sender.send(order, group)
        self.core.advance(ready)

    async def _save(self, ready: Ready) -> None:
        snapshot = None
        if ready.snapshot is not None:
            snapshot = Snapshot(ready.snapshot.metadata, ready.snapshot.data)
            self._taker.start(snapshot.metadata)
        began_seconds = self._clock.monotonic_seconds()
        limit = asyncio.timeout(_LAST_SAVE_SECONDS if self._is_stopping else None)
        try:
            async with limit:
                self._saving = limit
                await self._store.save(ready.hard_state, ready.entries, snapshot)
        except TimeoutError:
            if not limit.expired():
                raise
            log.warning("raft_stops_without_its_store", seconds=_LAST_SAVE_SECONDS)
            raise _Stop from None
        finally:
            self._saving = None
        self.append_seconds.observe(self._clock.monotonic_seconds() - began_seconds)

    def _send(self, envelopes: tuple[Envelope, ...]) -> None:
        for envelope in envelopes:
            self._transport.send(envelope)

    def _restore(self, ready: Ready) -> None:
        if ready.snapshot is not None:
            metadata = ready.snapshot.metadata
            assert metadata.index > self._applied_index
            self._state_machine.restore(ready.snapshot.data)
            self._applied_index = metadata.index
            self._applied_configuration = metadata.configuration
            log.info("raft_snapshot_restored", index=metadata.index, term=metadata.term)
            self._observers.committed(metadata.index)

    def _apply(self, ready: Ready, group: asyncio.TaskGroup) -> None:
        before = self._applied_index
        for entry in ready.committed:
            assert entry.index == self._applied_index + 1, f"entry {entry.index} after {self._applied_index}"
            result = self._apply_entry(entry)
            self._applied_index = entry.index
            self._requests.applied(entry, result)
        for read in ready.reads:
            self._reads.answered(read.read_id, read.index, self._applied_waiters)
        self._applied_waiters.applied(self._applied_index)
        if ready.committed:
            self._taker.applied(ready.committed, self._applied_configuration, group)
        if self._applied_index > before:
            self._observers.committed(self._applied_index)

    def _apply_entry(self, entry: Entry) -> Any:
        match entry.payload:
            case Command(data=data):
                return self._state_machine.apply(entry.index, data)
            case NewConfiguration(configuration=configuration):
                self._applied_configuration = configuration
                return configuration
            case NoOperation():
                return None
            case _:
                assert_never(entry.payload)

    def _settle(self) -> None:
        """Fail the requests that this node can no longer serve."""
        self._leadership.note(self.core, self._applied_index)
        self._requests.settle()
        self._reads.keep_only(self.core.term, self.core.leader)

    # -- inputs that wait for the loop

    def _take_in_all(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._taken = self._inputs.drain()
        reads: list[ReadIndex] = []
        for item in self._taken:
            if isinstance(item, ReadIndex):
                reads.append(item)
            else:
                self._take_in(item, now_ms)
        if reads:
            answers = [read.answer for read in reads]
            self.core.read_index(self._reads.ask(answers, self.core.term, self.core.leader))
        self._taken = deque()

    def _take_in(self, item: Input, now_ms: int) -> None:
        match item:
            case Received(message=message):
                self.core.step(message, now_ms)
            case Propose():
                self._requests.propose(item)
            case ConnectionBroken(member=member):
                self.core.connection_broken(member, now_ms)
            case SnapshotReported(recipient=recipient, is_delivered=is_delivered):
                self._sender.reported(recipient)
                self.core.snapshot_reported(recipient, is_delivered)
            case SnapshotSaved(metadata=metadata):
                if metadata.index > self.core.log.snapshot.index:
                    self.core.snapshot_taken(metadata)
            case ChangeConfiguration():
                self._requests.change_configuration(item)
            case TransferLeadership():
                self._requests.transfer_leadership(item)
            case ReadIndex():
                raise AssertionError("asked together")
            case _:
                assert_never(item)
