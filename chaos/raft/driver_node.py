"""A simulated Raft node made of production parts on a virtual loop: driver, store contract, transport."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.harness.schedule import Detail
from lograft.chaos.raft.core_node import Answer
from lograft.chaos.raft.invariants import RaftInvariants
from lograft.chaos.raft.message_fabric import Fabric
from lograft.chaos.raft.register_machine import RegisterMachine
from lograft.chaos.raft.weather import Weather
from lograft.chaos.world.crash import is_simulated_crash
from lograft.chaos.world.loop import VirtualClock
from lograft.chaos.world.raft_store import Content, MemoryDisk, MemoryStore
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.raft.core.configuration import Member
from lograft.raft.core.entries import HardState
from lograft.raft.core.messages import Envelope
from lograft.raft.core.raft_core import RaftCore, RaftLimits
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.driver.snapshots import SnapshotPolicy
from lograft.raft.errors import RaftError
from lograft.raft.interfaces import Snapshot, Transport
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

_STEPS = (
    "step", "tick", "connection_broken", "propose", "change_configuration", "read_index", "transfer_leadership",
    "snapshot_taken", "snapshot_reported", "advance",
)  # fmt: skip


class NodeWorld(Protocol):
    weather: Weather
    invariants: RaftInvariants
    fabric: Fabric

    def note(self, event: str, *details: Detail) -> None: ...


class DurableContent:
    """A disk's content at some moment, for the checker."""

    def __init__(self, content: Content) -> None:
        self._content = content

    @property
    def hard_state(self) -> HardState:
        return self._content.hard_state

    @property
    def first_index(self) -> int:
        return self._content.snapshot.metadata.index + 1

    @property
    def last_index(self) -> int:
        return self._content.snapshot.metadata.index + len(self._content.entries)

    def term_at(self, index: int) -> int | None:
        metadata = self._content.snapshot.metadata
        if index == metadata.index:
            return metadata.term
        is_there = self.first_index <= index <= self.last_index
        return self._content.entries[index - self.first_index].term if is_there else None


class HeldClock(VirtualClock):
    """A clock whose timers do not fire while the node is stalled, although its time continues."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._time = loop.time
        self.held_until = 0.0

    async def sleep_ms(self, duration_ms: float) -> None:
        await super().sleep_ms(duration_ms)
        while (left := self.held_until - self._time()) > 0:  # noqa: ASYNC110  (the hold may be extended meanwhile)
            await asyncio.sleep(left)


class WatchedMachine(RegisterMachine):
    """Reports every command it applies to the checker."""

    def __init__(self, applied: Callable[[RegisterMachine], None]) -> None:
        super().__init__()
        self._applied = applied

    def apply(self, index: int, data: bytes) -> Any:
        result = super().apply(index, data)
        self._applied(self)
        return result

    def restore(self, data: bytes) -> None:
        super().restore(data)
        self._applied(self)


class WatchedTransport:
    """Reports every message to the checker before sending it, and every snapshot to the schedule."""

    def __init__(self, transport: Transport, node_id: int, world: NodeWorld) -> None:
        self._transport = transport
        self._node_id = node_id
        self._world = world
        self.start = transport.start
        self.set_addresses = transport.set_addresses
        self.close = transport.close

    def send(self, envelope: Envelope) -> None:
        self._world.invariants.sent(envelope)
        self._transport.send(envelope)

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        self._world.note("snapshot", f"{self._node_id}>{order.recipient.node_id}", snapshot.metadata.index)
        self._transport.send_snapshot(order, snapshot)


class DriverNode:
    """One node, whose disk outlives it. `raft` is None while it is down."""

    def __init__(self, node_id: int, world: NodeWorld, rng: Rng, group: asyncio.TaskGroup) -> None:
        self.node_id = node_id
        self.disk = MemoryDisk("simulated", node_id, rng.fork())
        self.raft: RaftNode | None = None
        self.machine = RegisterMachine()
        self.clock = HeldClock(asyncio.get_running_loop())
        self._world = world
        self._rng = rng
        self._group = group
        self.speed = DiskSpeed(rng.fork())
        self._store: MemoryStore | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def member(self) -> Member:
        return self.disk.content.identity.member

    @property
    def core(self) -> RaftCore | None:
        return self.raft.core if self.raft is not None else None

    @property
    def is_up(self) -> bool:
        return self._task is not None

    # -- life and death

    def start(self) -> None:
        assert self._task is None
        self._store = self.disk.open(self.speed, self._rng.fork())
        self._task = self._group.create_task(self._live(self._store), name=f"node-{self.node_id}")

    def crash(self) -> None:
        """Kill the process: none of its code runs from now on, and only the network lets others notice."""
        assert self._task is not None
        assert self._store is not None
        task, self._task, self.raft = self._task, None, None
        self._world.fabric.crash(self.node_id)
        self._store.kill()
        task.cancel()

    def close(self) -> None:
        """Ask the process to shut down in an orderly way. It is up until it has."""
        if self.raft is not None:
            self._group.create_task(self.raft.close())

    async def _live(self, store: MemoryStore) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                await self._take_part(store, group)
        except BaseException as error:
            if self._store is store and self._task is asyncio.current_task():
                raise  # not killed: this is a genuine error
            if not isinstance(error, asyncio.CancelledError) and not is_simulated_crash(error):
                raise

    async def _take_part(self, store: MemoryStore, group: asyncio.TaskGroup) -> None:
        world = self._world
        weather = world.weather
        runtime = self._runtime()
        joined = await world.fabric.join(runtime, store, await store.load(), group)
        machine = WatchedMachine(self._applied)
        raft = RaftNode(
            runtime,
            store,
            joined.state,
            WatchedTransport(joined.transport, self.node_id, world),
            machine,
            limits=RaftLimits(max_append_bytes=weather.max_append_bytes, max_in_flight=weather.max_in_flight),
            policy=SnapshotPolicy(entries=weather.snapshot_every, kept_entries=weather.snapshot_every // 3),
        )
        self.raft, self.machine = raft, machine
        self._watch(raft.core)
        joined.follow(lambda: raft.status().configuration)
        await raft.run()
        assert self.disk.owner is None, "the store was not given back"
        self._task = self.raft = None
        world.fabric.crash(self.node_id)

    def _runtime(self) -> Runtime:
        unused: Any = None
        network: Any = self._world.fabric.network(self.node_id)
        rng = self._rng
        workers = VirtualWorkers(rng.fork(), self.speed)
        return Runtime(self.clock, rng.fork(), unused, network, VirtualBlocking(self.speed), workers)

    # -- hooks of the checker

    def _applied(self, machine: RegisterMachine) -> None:
        self._world.invariants.applied(self.member, machine.applied_index, machine.digest)

    def _watch(self, core: RaftCore) -> None:
        """Make the checker inspect the core after each step, and every `Ready` it returns."""
        invariants = self._world.invariants

        def watched(step: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                result = step(*arguments)
                invariants.stepped(core)
                return result

            return call

        original_ready = core.ready

        def ready() -> Any:
            result = original_ready()
            if result is not None:
                invariants.prepared(core, result)
            return result

        for name in _STEPS:
            setattr(core, name, watched(getattr(core, name)))
        setattr(core, "ready", ready)  # noqa: B010  (type checkers forbid replacing a method)
        invariants.started(core)

    # -- requests of clients

    def propose(self, data: bytes, answer: Answer) -> None:
        if self.raft is None:
            answer(Outcome.FAIL, None)
        else:
            self._group.create_task(self._propose(self.raft, data, answer))

    async def _propose(self, raft: RaftNode, data: bytes, answer: Answer) -> None:
        try:
            index, seen = await raft.propose(data)
        except RaftError as error:
            answer(Outcome.UNKNOWN if error.outcome_unknown else Outcome.FAIL, None)
        else:
            self._world.invariants.acknowledged(index, data)
            answer(Outcome.OK, seen)

    def read(self, key: str, answer: Answer) -> None:
        if self.raft is None:
            answer(Outcome.FAIL, None)
        else:
            self._group.create_task(self._read(self.raft, self.machine, key, answer))

    async def _read(self, raft: RaftNode, machine: RegisterMachine, key: str, answer: Answer) -> None:
        try:
            async with asyncio.timeout(self._world.weather.timeout_ms / 1000):
                await raft.read_index()
        except (RaftError, TimeoutError):
            answer(Outcome.FAIL, None)
        else:
            answer(Outcome.OK, machine.read(key))
