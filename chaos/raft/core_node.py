"""A Raft core with nothing but a disk. The simulation performs the driver's duties in its own time."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.raft.core_disk import CoreDisk
from lograft.chaos.raft.invariants import RaftInvariants
from lograft.chaos.raft.register_machine import RegisterMachine, Value
from lograft.chaos.raft.weather import Weather
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import Command, Entry, SnapshotMetadata
from lograft.raft.core.messages import Envelope, InstallSnapshot
from lograft.raft.core.raft_core import RaftCore, RaftLimits
from lograft.raft.core.ready import Ready, SnapshotToSend
from lograft.raft.interfaces import Snapshot
from lograft.runtime.rng import Rng

Answer = Callable[[Outcome, Value | None], None]
Input = Callable[[RaftCore, int], None]


class Surroundings(Protocol):
    """The simulation around a node."""

    weather: Weather
    invariants: RaftInvariants
    now_us: int

    def call_later(self, delay_us: int, action: Callable[[], None]) -> None: ...

    def send(self, envelope: Envelope) -> None: ...

    def send_snapshot(self, sender: Member, recipient: Member, message: InstallSnapshot) -> None: ...


@dataclass(frozen=True, slots=True)
class _Proposal:
    term: int
    data: bytes
    answer: Answer


class CoreNode:
    """One node; `core` is None while it is down. As with the driver, a save takes time, and input waits for it."""

    def __init__(self, node_id: int, world: Surroundings, rng: Rng) -> None:
        self.node_id = node_id
        self.disk = CoreDisk(Member(node_id, rng.uuid()))
        self.core: RaftCore | None = None
        self.machine = RegisterMachine()
        self.disk_slowdown = 1.0
        self._world = world
        self._rng = rng
        self._incarnation = 0
        self._inbox: deque[Input] = deque()
        self._saving: Ready | None = None
        self._stalled_until_us = 0
        self._wake_at_us: int | None = None
        self._clock_rate, self._clock_base_us, self._clock_base_ms = 1.0, 0, 0.0
        self._proposals: dict[int, _Proposal] = {}
        self._reads: dict[int, tuple[str, Answer]] = {}
        self._reads_waiting: list[tuple[int, str, Answer]] = []
        self._read_count = 0

    @property
    def member(self) -> Member:
        return self.disk.member

    # -- life and death

    def start(self) -> None:
        assert self.core is None
        weather = self._world.weather
        limits = RaftLimits(max_append_bytes=weather.max_append_bytes, max_in_flight=weather.max_in_flight)
        self.machine = RegisterMachine()
        if self.disk.snapshot.data:
            self.machine.restore(self.disk.snapshot.data)
        self.core = RaftCore(
            self.member, self.disk.hard_state, self.disk.log(), self._rng, self.now_ms(), limits=limits
        )
        self._world.invariants.started(self.core)
        self.pump()

    def crash(self) -> None:
        """Lose everything in memory. A save in progress has either just become durable, or is lost completely."""
        if self._saving is not None and self._rng.random() < 0.5:
            self._save(self._saving)
        self.core, self._saving = None, None
        self._incarnation += 1
        self._stalled_until_us = 0
        self._wake_at_us = None
        self._inbox.clear()
        proposals, self._proposals = self._proposals, {}
        for proposal in proposals.values():
            proposal.answer(Outcome.UNKNOWN, None)
        reads = [*self._reads.values(), *((key, answer) for _, key, answer in self._reads_waiting)]
        self._reads, self._reads_waiting = {}, []
        for _, answer in reads:
            answer(Outcome.FAIL, None)

    def wipe(self) -> CoreDisk:
        """Replace the disk by an empty one in another directory. Return the old disk."""
        assert self.core is None
        old, self.disk = self.disk, CoreDisk(Member(self.node_id, self._rng.uuid()))
        return old

    def stall(self, duration_us: int) -> None:
        """Pause the process: input queues up, and timers do not fire."""
        self._stalled_until_us = self._world.now_us + duration_us
        self._world.call_later(duration_us, self.pump)

    # -- time

    def now_ms(self) -> int:
        return int(self._clock_base_ms + (self._world.now_us - self._clock_base_us) * self._clock_rate / 1000)

    def set_clock_rate(self, rate: float) -> None:
        elapsed_us = self._world.now_us - self._clock_base_us
        self._clock_base_ms += elapsed_us * self._clock_rate / 1000
        self._clock_base_us, self._clock_rate = self._world.now_us, rate

    def _plan_wake(self, core: RaftCore) -> None:
        """Schedule a wake at the core's deadline. One wake is enough: deadlines mostly move later."""
        left_ms = core.deadline_ms - self.now_ms()
        wake_at_us = self._world.now_us + max(100, int(left_ms * 1000 / self._clock_rate) + 1)
        if self._wake_at_us is None or wake_at_us < self._wake_at_us:
            self._wake_at_us = wake_at_us
            incarnation = self._incarnation
            self._world.call_later(wake_at_us - self._world.now_us, lambda: self._wake(incarnation, wake_at_us))

    def _wake(self, incarnation: int, wake_at_us: int) -> None:
        if incarnation == self._incarnation and self._wake_at_us == wake_at_us:
            self._wake_at_us = None
            self.pump()

    # -- input

    def take(self, what: Input) -> None:
        """Pass an input to the core. Do nothing if the node is down."""
        if self.core is not None:
            self._inbox.append(what)
            self.pump()

    def propose(self, data: bytes, answer: Answer) -> None:
        if self.core is None:
            answer(Outcome.FAIL, None)
            return

        def carry_out(core: RaftCore, now_ms: int) -> None:
            index = core.propose(data)
            if index is None:
                answer(Outcome.FAIL, None)
                return
            if (replaced := self._proposals.get(index)) is not None:
                replaced.answer(Outcome.UNKNOWN, None)
            self._proposals[index] = _Proposal(core.term, data, answer)

        self.take(carry_out)

    def read(self, key: str, answer: Answer) -> None:
        if self.core is None:
            answer(Outcome.FAIL, None)
            return
        self._read_count += 1
        read_id = self._read_count
        self._reads[read_id] = (key, answer)
        self.take(lambda core, now_ms: core.read_index(read_id))

    def pump(self) -> None:
        """Process all input, then the clock, then what the core requests, until nothing is left to do."""
        world = self._world
        while self.core is not None and self._saving is None and world.now_us >= self._stalled_until_us:
            core = self.core
            while self._inbox:
                self._inbox.popleft()(core, self.now_ms())
                world.invariants.stepped(core)
            if self.now_ms() >= core.deadline_ms:
                core.tick(self.now_ms())
                world.invariants.stepped(core)
            ready = core.ready()
            if ready is None:
                self._plan_wake(core)
                return
            self._carry_out(core, ready)

    # -- requests of the core

    def _carry_out(self, core: RaftCore, ready: Ready) -> None:
        self._world.invariants.prepared(core, ready)
        for envelope in ready.messages_now:
            self._world.send(envelope)
        if not ready.must_persist:
            self._finish(core, ready)
            return
        self._saving = ready
        incarnation = self._incarnation
        low, high = self._world.weather.disk_ms
        delay_us = int(self._rng.uniform(low, high) * self.disk_slowdown * 1000)
        self._world.call_later(delay_us, lambda: self._saved(incarnation, core, ready))

    def _saved(self, incarnation: int, core: RaftCore, ready: Ready) -> None:
        if incarnation != self._incarnation:
            return
        self._save(ready)
        self._saving = None
        self._finish(core, ready)
        self.pump()

    def _save(self, ready: Ready) -> None:
        received = ready.snapshot
        snapshot = Snapshot(received.metadata, received.data) if received is not None else None
        self.disk.save(ready.hard_state, ready.entries, snapshot)

    def _finish(self, core: RaftCore, ready: Ready) -> None:
        world = self._world
        for envelope in ready.messages:
            world.send(envelope)
        if ready.snapshot is not None:
            self.machine.restore(ready.snapshot.data)
            world.invariants.applied(self.member, ready.snapshot.metadata.index, self.machine.digest)
        for order in ready.snapshots_to_send:
            self._send_snapshot(order)
        for entry in ready.committed:
            self._apply(entry)
        for read in ready.reads:
            if (waiting := self._reads.pop(read.read_id, None)) is not None:
                self._answer_read(read.index, *waiting)
        core.advance(ready)
        world.invariants.stepped(core)
        self._serve_reads()
        self._maybe_snapshot(core)

    def _apply(self, entry: Entry) -> None:
        seen = None
        if isinstance(entry.payload, Command):
            _, seen = self.machine.apply(entry.index, entry.payload.data)
        self.machine.applied_index = entry.index
        self._world.invariants.applied(self.member, entry.index, self.machine.digest)
        if (proposal := self._proposals.pop(entry.index, None)) is None:
            return
        if entry.term != proposal.term:
            proposal.answer(Outcome.FAIL, None)  # another entry has its index, permanently
        else:
            self._world.invariants.acknowledged(entry.index, proposal.data)
            proposal.answer(Outcome.OK, seen)

    def _answer_read(self, index: int | None, key: str, answer: Answer) -> None:
        if index is None:
            answer(Outcome.FAIL, None)
        else:
            self._reads_waiting.append((index, key, answer))

    def _serve_reads(self) -> None:
        if not self._reads_waiting:
            return
        waiting, self._reads_waiting = self._reads_waiting, []
        for index, key, answer in waiting:
            if index <= self.machine.applied_index:
                answer(Outcome.OK, self.machine.read(key))
            else:
                self._reads_waiting.append((index, key, answer))

    # -- snapshots

    def _maybe_snapshot(self, core: RaftCore) -> None:
        index = self._snapshot_index(core)
        if index - core.log.snapshot.index < self._world.weather.snapshot_every:
            return
        term = core.log.term_at(index)
        assert term is not None
        metadata = SnapshotMetadata(index, term, _configuration_at(core, index))
        self.disk.save_own_snapshot(Snapshot(metadata, self.machine.snapshot()))
        core.snapshot_taken(metadata)
        self._world.invariants.stepped(core)

    def _snapshot_index(self, core: RaftCore) -> int:
        """Return the index up to which the state machine has applied the log."""
        return core.log.applied_index

    def _send_snapshot(self, order: SnapshotToSend) -> None:
        """Send the latest snapshot, which may be newer than the one the core requested."""
        snapshot = self.disk.snapshot
        message = InstallSnapshot(self.member, order.term, snapshot.metadata, snapshot.data)
        self._world.send_snapshot(self.member, order.recipient, message)


def _configuration_at(core: RaftCore, index: int) -> Configuration:
    """Return the configuration in force at `index`."""
    return [configuration for at, configuration in core.log.configurations() if at <= index][-1]
