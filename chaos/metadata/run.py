"""The course of a simulated run of a metadata cluster: faults, recovery, calm; then the checks."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from lograft.chaos.harness.failures import NotLive
from lograft.chaos.harness.schedule import Detail, Schedule
from lograft.chaos.metadata.broker import SimulatedBroker
from lograft.chaos.metadata.client import SimulatedClient
from lograft.chaos.metadata.controller import SimulatedController
from lograft.chaos.metadata.nemesis import MetadataNemesis
from lograft.chaos.metadata.rules.facts import Facts, PartitionKey
from lograft.chaos.metadata.rules.invariants import MetadataInvariants
from lograft.chaos.metadata.stub.acknowledged_ledger import Ledger
from lograft.chaos.metadata.weather import MetadataWeather
from lograft.chaos.metadata.workload import Workload
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import Partition
from lograft.metadata.image.records import ProducerIdsAllocated
from lograft.runtime.rng import Rng

_FIRST_START_MS = 10_000
_RECOVERY_MS = 60_000
_CALM_MS = 3_000
_LOOK_EVERY_MS = 100


@dataclass(frozen=True, slots=True)
class MetadataRun:
    """The figures of a successful run."""

    schedule: Schedule
    virtual_ms: int
    operations: int
    acknowledged: int
    given_up: int
    unclean_elections: int
    wishes: Counter[str]


class MetadataRunTarget(Protocol):
    weather: MetadataWeather
    schedule: Schedule
    facts: Facts
    invariants: MetadataInvariants
    ledger: Ledger
    nemesis: MetadataNemesis
    workload: Workload
    clients: list[SimulatedClient]
    quorum: list[SimulatedController]
    brokers: list[SimulatedBroker]
    group: asyncio.TaskGroup
    rng: Rng

    @property
    def now_us(self) -> int: ...

    def note(self, event: str, *details: Detail) -> None: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...

    async def start(self) -> None: ...

    async def pass_ms(self, duration_ms: float) -> None: ...


async def live_through(stage: MetadataRunTarget) -> MetadataRun:
    """Run faults and operators for a while. Then end the faults: the cluster must recover, work and stay calm."""
    await stage.start()
    await _until(stage, lambda: _unready(stage), _FIRST_START_MS)
    operators = [stage.group.create_task(stage.workload.run(client)) for client in stage.clients]
    _trouble(stage, stage.now_us + stage.weather.duration_ms * 1000)
    await stage.pass_ms(stage.weather.duration_ms)
    stage.note("recovery")
    stage.weather = replace(stage.weather, faults=())
    stage.workload.stop()
    stage.nemesis.heal()
    await asyncio.wait(operators)
    await _until(stage, lambda: _unready(stage) or _unfinished(stage), _RECOVERY_MS)
    await _give_up_what_is_lost(stage)
    await _until(stage, lambda: _unready(stage) or _unfinished(stage) or _leaderless(stage), _RECOVERY_MS)
    await _expect_calm(stage)
    await _expect_progress(stage)
    _check_all(stage)
    return _summary(stage)


def _trouble(stage: MetadataRunTarget, until_us: int) -> None:
    if stage.now_us < until_us:
        stage.nemesis.act()
        stage.call_later_ms(stage.rng.uniform(0, 2 * stage.weather.fault_every_ms), lambda: _trouble(stage, until_us))


# -- conditions to wait for


async def _until(stage: MetadataRunTarget, missing: Callable[[], str], at_most_ms: int) -> None:
    for _ in range(at_most_ms // _LOOK_EVERY_MS):
        if not missing():
            return
        await stage.pass_ms(_LOOK_EVERY_MS)
        stage.nemesis.start_all()  # nodes whose requested shutdown has finished meanwhile
    raise NotLive(f"{at_most_ms} ms after the last fault: {missing()}")


def _unready(stage: MetadataRunTarget) -> str:
    """Return what a ready cluster lacks: one active controller, no fenced broker, and the same image everywhere."""
    active = [controller for controller in stage.quorum if controller.is_active]
    if len(active) != 1:
        return f"{len(active)} active controllers"
    image = stage.invariants.image
    for broker in stage.brokers:
        registered = image.brokers.get(broker.broker_id)
        if registered is None or registered.state is not BrokerState.ACTIVE:
            return f"broker {broker.broker_id} is {registered}"
        if broker.stub is None or not broker.stub.is_current:
            return f"broker {broker.broker_id} is not registered: {registered} is of another process"
        if broker.follower is None or broker.follower.image.sequence != image.sequence:
            return f"broker {broker.broker_id} is behind"
    for controller in stage.quorum:
        if controller.node is None or controller.node.machine.image.sequence != image.sequence:
            return f"{controller.host} is behind"
    return ""


def _partitions(stage: MetadataRunTarget) -> list[tuple[PartitionKey, Partition]]:
    return [
        ((topic.topic_id, number), partition)
        for topic in stage.invariants.image.topics.values()
        for number, partition in topic.partitions.items()
    ]


def _unfinished(stage: MetadataRunTarget) -> str:
    """Return a partition that has data but no leader, not all replicas in sync, or an unfinished reassignment."""
    for key, partition in _partitions(stage):
        if partition.leader is None:
            if stage.ledger.is_anywhere(key, partition):
                return f"nobody leads {key}: {partition}"
        elif len(partition.isr) < len(partition.replicas) or partition.is_reassigning:
            return f"{key} is not whole: {partition}"
    return ""


def _leaderless(stage: MetadataRunTarget) -> str:
    lost = [f"{key}: {partition}" for key, partition in _partitions(stage) if partition.leader is None]
    return "; ".join(lost)


async def _give_up_what_is_lost(stage: MetadataRunTarget) -> None:
    """Act as an operator who elects any remaining replica where no complete copy exists."""
    for _ in range(20):
        lost = [key for key, partition in _partitions(stage) if partition.leader is None]
        if not lost:
            return
        for key in lost:
            if key[0] in stage.invariants.image.topics:
                await stage.workload.rescue(stage.clients[0], key)
        await stage.pass_ms(700)


async def _expect_calm(stage: MetadataRunTarget) -> None:
    """Wait until preferred leaders lead. From then on, expect no changes."""
    await _until(stage, lambda: _away(stage), _RECOVERY_MS)
    before = stage.invariants.index
    await stage.pass_ms(_CALM_MS)
    for index, records in stage.invariants.operations.items():
        # A request for producer ids may be old: its caller may have waited for the controller since.
        if index > before and not isinstance(records[0], ProducerIdsAllocated):
            raise NotLive(f"nothing is wrong, and still the metadata changes: {records}")


def _away(stage: MetadataRunTarget) -> str:
    away = [key for key, partition in _partitions(stage) if partition.leader != partition.preferred_leader]
    return f"not led by who should: {away}" if away else ""


async def _expect_progress(stage: MetadataRunTarget) -> None:
    """Expect every partition to accept and acknowledge writes."""
    before = {key: len(stage.ledger.acknowledged.get(key, [])) for key, _ in _partitions(stage)}
    stage.weather = replace(stage.weather, append_probability=0.5)

    def stuck() -> str:
        still = [key for key, count in before.items() if len(stage.ledger.acknowledged.get(key, [])) <= count]
        return f"nothing is acknowledged in {still}" if still else ""

    await _until(stage, stuck, _RECOVERY_MS)


def _check_all(stage: MetadataRunTarget) -> None:
    stage.workload.check_all()
    for controller in stage.quorum:
        assert controller.node is not None
        stage.invariants.check_same(controller.process, controller.node.machine.index, controller.node.machine.image)
    for broker in stage.brokers:
        assert broker.follower is not None
        stage.invariants.check_same(broker.process, broker.follower.index, broker.follower.image)


def _summary(stage: MetadataRunTarget) -> MetadataRun:
    ledger = stage.ledger
    return MetadataRun(
        schedule=stage.schedule,
        virtual_ms=stage.now_us // 1000,
        operations=len(stage.invariants.operations),
        acknowledged=sum(len(entries) for entries in ledger.acknowledged.values()),
        given_up=ledger.given_up,
        unclean_elections=ledger.unclean_elections,
        wishes=stage.workload.counts,
    )
