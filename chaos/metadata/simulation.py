"""A complete metadata cluster of production parts on virtual time, from one seed: controllers, brokers, operators.

run = simulate_metadata(seed)       raises `InvariantBroken`, `NotLive`, or the error that made a node fail
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from lograft.chaos.harness.schedule import Detail, Schedule
from lograft.chaos.metadata.broker import SimulatedBroker
from lograft.chaos.metadata.client import SimulatedClient
from lograft.chaos.metadata.controller import PORT, SimulatedController
from lograft.chaos.metadata.nemesis import MetadataNemesis
from lograft.chaos.metadata.node import SimulatedNode
from lograft.chaos.metadata.rules.facts import Facts
from lograft.chaos.metadata.rules.invariants import MetadataInvariants
from lograft.chaos.metadata.run import MetadataRun, live_through
from lograft.chaos.metadata.stub.acknowledged_ledger import Ledger
from lograft.chaos.metadata.stub.messages import StubMessage
from lograft.chaos.metadata.weather import MetadataWeather, draw_metadata_weather
from lograft.chaos.metadata.workload import Workload
from lograft.chaos.world.link import Delays
from lograft.chaos.world.loop import VirtualClock, run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import (
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    PartitionChanged,
    Record,
    TopicCreated,
    TopicDeleted,
)
from lograft.raft.errors import RaftError
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

_MAX_VIRTUAL_SECONDS = 300.0
_HELD_BACK_MS = 50
_LONGEST_HELD_BACK_MS = 6_000


class MetadataCluster:
    """Create it on a virtual loop."""

    def __init__(self, seed: int, group: asyncio.TaskGroup, weather: MetadataWeather | None = None) -> None:
        rng = Rng(seed)
        drawn = draw_metadata_weather(rng)
        self.weather = weather or drawn
        self.rng = rng.fork()
        self.group = group
        self.schedule = Schedule()
        self._loop = asyncio.get_running_loop()
        low_ms, high_ms = self.weather.delay_ms
        self.network = VirtualNetwork(rng.fork(), delays=Delays(low_ms, high_ms))
        self._paused: dict[str, SimulatedNode] = {}
        self._cuts: dict[tuple[str, str], dict[str, None]] = {}  # the reasons why each direction is cut
        self.controllers = {number: f"controller{number}:{PORT}" for number in range(1, self.weather.controllers + 1)}
        self.quorum = [SimulatedController(number, self, rng.fork(), group) for number in self.controllers]
        self.broker_ids = [BrokerId(number) for number in range(1, self.weather.brokers + 1)]
        self.brokers = [self._make_broker(broker_id, rng.fork()) for broker_id in self.broker_ids]
        self.facts = Facts()
        self.invariants = MetadataInvariants(self.facts, self._judged)
        self.ledger = Ledger({broker.broker_id: broker.disks for broker in self.brokers}, lambda: self.invariants.image)
        self.nemesis = MetadataNemesis(self, rng.fork())
        self.workload = Workload(self, rng.fork())
        self.clients = [self._make_client(number, rng.fork()) for number in range(self.weather.clients)]
        self.note("weather", str(self.weather))

    def _make_broker(self, broker_id: BrokerId, rng: Rng) -> SimulatedBroker:
        rack = f"rack{broker_id % self.weather.racks}" if self.weather.racks else None
        return SimulatedBroker(broker_id, rack, rng.randint(1, self.weather.directories), self, rng, self.group)

    def _make_client(self, number: int, rng: Rng) -> SimulatedClient:
        unused: Any = None
        speed = DiskSpeed(rng.fork())
        network, clock = self.network.host(f"client{number}"), VirtualClock(self._loop)
        runtime = Runtime(clock, rng, unused, network, VirtualBlocking(speed), VirtualWorkers(rng.fork(), speed))
        return SimulatedClient(runtime, [broker.address for broker in self.brokers], self.controllers)

    # -- time

    @property
    def now_us(self) -> int:
        return round(self._loop.time() * 1_000_000)

    def note(self, event: str, *details: Detail) -> None:
        self.schedule.note(self.now_us, event, *details)

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None:
        self._loop.call_later(delay_ms / 1000, action)

    async def pass_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1000)

    # -- metadata

    def _judged(self, index: int, records: tuple[Record, ...], old: ClusterImage, new: ClusterImage) -> None:
        for record in records:
            for line in _told(record, new):
                self.note("metadata", index, line)
        self.ledger.judged(index, records, old, new)

    # -- between brokers

    def post(self, sender: BrokerId, receiver: BrokerId, message: StubMessage) -> None:
        source, target = self.brokers[sender - 1], self.brokers[receiver - 1]
        if source.is_up:
            delay_s = self.network.link(source.host, target.host).sample_delay_seconds()
            self._loop.call_later(delay_s, self._deliver, source, target, message, 0)

    def _deliver(self, source: SimulatedBroker, target: SimulatedBroker, message: StubMessage, waited_ms: int) -> None:
        if self.network.link(source.host, target.host).is_cut or target.clock.is_held:
            if waited_ms < _LONGEST_HELD_BACK_MS:
                waited_ms += _HELD_BACK_MS
                self.call_later_ms(_HELD_BACK_MS, lambda: self._deliver(source, target, message, waited_ms))
        elif target.stub is not None:
            target.stub.receive(message, target.clock.monotonic_ms())

    # -- called by the nemesis

    def pause(self, node: SimulatedBroker | SimulatedController, duration_ms: int) -> None:
        if node.host in self._paused:
            return
        self.note("pause", node.process, duration_ms)
        self._paused[node.host] = node
        node.clock.held_until = self._loop.time() + duration_ms / 1000
        for other in self._hosts:
            if other != node.host:
                self._cut(node.host, other, f"pause {node.host}")
                self._cut(other, node.host, f"pause {node.host}")
        self.call_later_ms(duration_ms, lambda: self._resume(node))

    def _resume(self, node: SimulatedNode) -> None:
        if not node.clock.is_held and self._paused.pop(node.host, None) is not None:
            self.note("resume", node.host)
            self._heal(f"pause {node.host}")

    def resume_all(self) -> None:
        for node in list(self._paused.values()):
            node.clock.held_until = self._loop.time()
            self._resume(node)

    @property
    def _hosts(self) -> list[str]:
        clients = [f"client{number}" for number in range(self.weather.clients)]
        return [*(controller.host for controller in self.quorum), *(broker.host for broker in self.brokers), *clients]

    def cut(self, source: str, target: str) -> None:
        self.note("cut", f"{source}>{target}")
        self._cut(source, target, "cut")

    def _cut(self, source: str, target: str, reason: str) -> None:
        self._cuts.setdefault((source, target), {})[reason] = None
        self.network.cut(source, target)

    def heal_network(self) -> None:
        self.note("heal")
        self._heal("cut")

    def _heal(self, reason: str) -> None:
        for (source, target), reasons in self._cuts.items():
            if reasons.pop(reason, "") is None and not reasons:
                self.network.heal(source, target)

    def slow(self, host: str, slowest_ms: float) -> None:
        self.note("slow", host, slowest_ms)
        for other in self._hosts:
            for source, target in ((host, other), (other, host)):
                self.network.set_delays(source, target, Delays(self.weather.delay_ms[0], slowest_ms))

    def break_connections(self, one: str, other: str) -> None:
        self.note("break", one, other)
        self.network.break_connections(one, other)

    def transfer(self, active: SimulatedController, target: SimulatedController) -> None:
        self.note("transfer", active.host, target.host)
        raft = active.node.raft if active.node is not None else None
        if raft is not None:
            self.group.create_task(_regardless(raft.transfer_leadership(target.node_id)))

    # -- a run

    async def start(self) -> None:
        for node in (*self.quorum, *self.brokers):
            node.start()

    def stop(self) -> None:
        """Kill all running nodes, so that nothing is left behind."""
        for node in (*self.quorum, *self.brokers):
            if node.is_up:
                node.kill()


def _told(record: Record, image: ClusterImage) -> list[str]:
    """Describe a record for the schedule."""
    match record:
        case PartitionChanged(topic_id=topic_id, number=number, partition=partition):
            elr = [replica.broker_id for replica in partition.elr]
            line = (
                f"{str(topic_id)[:4]}-{number} leader {partition.leader}@{partition.leader_epoch} "
                f"p{partition.partition_epoch} isr {list(partition.isr)} of {list(partition.replica_ids)}"
            )
            line += f" elr {elr}" if elr else ""
            line += f" to {list(partition.target)}" if partition.target else ""
            line += f" UNCLEAN {partition.unclean_epoch}" if partition.unclean_epoch is not None else ""
            return [line]
        case BrokerRegistered(broker=broker):
            directories = " ".join(str(directory)[:4] for directory in broker.directories)
            return [f"broker {broker.broker_id}@{broker.epoch} registered, {broker.boot_id}, {directories}"]
        case BrokerStateChanged(broker_id=broker_id, epoch=epoch, state=state):
            return [f"broker {broker_id}@{epoch} {state.name}"]
        case BrokerUnregistered(broker_id=broker_id):
            return [f"broker {broker_id} unregistered"]
        case TopicCreated(topic_id=topic_id, name=name):
            return [f"{name} created as {str(topic_id)[:4]}"]
        case TopicDeleted(topic_id=topic_id):
            return [f"{str(topic_id)[:4]} deleted"]
        case _:
            return [str(record)]


async def _regardless(request: Any) -> None:
    """Ignore failures of a request: the nemesis has no use for its outcome."""
    with contextlib.suppress(RaftError):
        await request


def simulate_metadata(
    seed: int,
    weather: MetadataWeather | None = None,
    *,
    on_made: Callable[[MetadataCluster], None] = lambda cluster: None,
) -> MetadataRun:
    """Run a cluster from `seed`. Pass it to `on_made`, for callers that print failures."""

    async def main() -> MetadataRun:
        async with asyncio.TaskGroup() as group:
            cluster = MetadataCluster(seed, group, weather)
            on_made(cluster)
            run = await live_through(cluster)
            cluster.stop()
        return run

    try:
        return run_virtual(main, max_virtual_seconds=_MAX_VIRTUAL_SECONDS)
    except BaseExceptionGroup as group:
        raise first_cause(group) from group


def first_cause(error: BaseException) -> BaseException:
    """Return the first error, unwrapped from all the task groups it passed."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
