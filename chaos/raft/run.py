"""The course of a simulated run, for any kind of cluster: faults, recovery, calm; then the checks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from lograft.chaos.harness.failures import NotLive
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.harness.schedule import Detail, Schedule
from lograft.chaos.raft.core_clients import CoreClients
from lograft.chaos.raft.invariants import RaftInvariants
from lograft.chaos.raft.linearizability import check_linearizable
from lograft.chaos.raft.nemesis import RaftNemesis
from lograft.chaos.raft.register_machine import Digest
from lograft.chaos.raft.weather import Weather
from lograft.raft.core.configuration import Member
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.roles import Leader
from lograft.runtime.rng import Rng

_RECOVERY_MS = 20_000
_SETTLE_MS = 1_000
_CALM_MS = 4_000
_LONGEST_DELAY_MS = 3_000


@dataclass(frozen=True, slots=True)
class RaftRun:
    """The figures of a successful run."""

    schedule: Schedule
    virtual_ms: int
    elections: int
    truncations: int
    configurations: int
    committed: int
    operations: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The position of a live node."""

    core: RaftCore
    applied_index: int
    digest: Digest


class RaftRunTarget(Protocol):
    """A cluster that can be put through a run."""

    weather: Weather
    schedule: Schedule
    invariants: RaftInvariants
    nemesis: RaftNemesis
    clients: CoreClients

    @property
    def now_us(self) -> int: ...

    def note(self, event: str, *details: Detail) -> None: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...

    async def start(self) -> None:
        """Start all nodes."""
        ...

    async def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, and let events happen."""
        ...

    def standings(self) -> list[Standing]:
        """Return the standings of the nodes that are up."""
        ...

    def propose(self, core: RaftCore, data: bytes) -> None:
        """Propose to the node with that core."""
        ...


async def live_through(stage: RaftRunTarget, rng: Rng) -> RaftRun:
    """Run faults and clients for a while. Then end the faults: the cluster must recover, work and stay calm."""
    await stage.start()
    stage.clients.start()
    _trouble(stage, rng, stage.now_us + stage.weather.duration_ms * 1000)
    await stage.pass_ms(stage.weather.duration_ms)
    stage.weather = replace(
        stage.weather, faults=(), loss_probability=0.0, duplicate_probability=0.0, long_delay_probability=0.0
    )
    stage.note("recovery")
    stage.nemesis.heal()
    await stage.pass_ms(_LONGEST_DELAY_MS)
    stage.nemesis.heal()  # meanwhile the nemesis's planned faults have happened
    stage.clients.stop()
    await stage.pass_ms(stage.weather.timeout_ms)
    await _await_recovery(stage)
    await _expect_calm(stage)
    stage.clients.read_all()
    await stage.pass_ms(stage.weather.timeout_ms)
    for standing in _members(stage):
        stage.invariants.check_complete(standing.core.member, standing.applied_index, standing.digest)
    check_linearizable(stage.clients.history.operations())
    return _summary(stage)


def _trouble(stage: RaftRunTarget, rng: Rng, until_us: int) -> None:
    if stage.now_us < until_us:
        stage.nemesis.act()
        delay_ms = rng.uniform(0, 2 * stage.weather.fault_every_ms)
        stage.call_later_ms(delay_ms, lambda: _trouble(stage, rng, until_us))


def _members(stage: RaftRunTarget) -> list[Standing]:
    """Return the standings of the present members of the cluster that run with their present disk."""
    members: tuple[Member, ...] = stage.invariants.committed_configuration[1].members
    return [standing for standing in stage.standings() if standing.core.member in members]


async def _await_recovery(stage: RaftRunTarget) -> None:
    """Wait until a leader commits a new entry and every member has applied it."""
    target = len(stage.invariants.committed) + 1
    for _ in range(_RECOVERY_MS // 100):
        for standing in stage.standings():
            if isinstance(standing.core.role, Leader):
                stage.propose(standing.core, f"append probe {stage.now_us}".encode())
        await stage.pass_ms(100)
        if all(standing.applied_index >= target for standing in _members(stage)):
            return
    behind = {str(standing.core.member): standing.applied_index for standing in _members(stage)}
    raise NotLive(f"{_RECOVERY_MS} ms after the last fault, not all have reached {target}: {behind}")


async def _expect_calm(stage: RaftRunTarget) -> None:
    """Check that the leader keeps leading while nothing is wrong."""
    await stage.pass_ms(_SETTLE_MS)
    elections, term = stage.invariants.elections, max(standing.core.term for standing in _members(stage))
    await stage.pass_ms(_CALM_MS)
    terms = {str(standing.core.member): standing.core.term for standing in _members(stage)}
    if stage.invariants.elections != elections or any(later > term for later in terms.values()):
        raise NotLive(f"a healthy leader of term {term} was deposed: {terms}")


def _summary(stage: RaftRunTarget) -> RaftRun:
    seen, history = stage.invariants, stage.clients.history
    return RaftRun(
        schedule=stage.schedule,
        virtual_ms=stage.now_us // 1000,
        elections=seen.elections,
        truncations=seen.truncations,
        configurations=seen.configurations,
        committed=len(seen.committed),
        operations=len(history),
        acknowledged=history.count(Outcome.OK),
    )
