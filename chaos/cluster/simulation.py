"""A complete cluster of production nodes and clients, on virtual time, from one seed.

run = simulate_cluster(seed)        raises `InvariantBroken`, `NotLive`, or the error that made a node fail
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from lograft.broker.hosting.topic_log_config import log_config_of
from lograft.broker.node.config import NodeConfig
from lograft.broker.node.config_values import Role
from lograft.chaos.cluster.checks.continuous import ClusterWatch
from lograft.chaos.cluster.checks.coverage_counters import Sights
from lograft.chaos.cluster.checks.groups import GroupHistory
from lograft.chaos.cluster.checks.history import ClusterHistory, FinalPartition, PartitionKey
from lograft.chaos.cluster.clients.base import Client
from lograft.chaos.cluster.clients.members import MemberClient
from lograft.chaos.cluster.clients.readers import AskingClient, ReadingClient
from lograft.chaos.cluster.clients.registers import RegisterClient
from lograft.chaos.cluster.clients.senders import AppendingClient, SendingClient
from lograft.chaos.cluster.faults.allowed_losses import Losses
from lograft.chaos.cluster.faults.nemesis import ClusterNemesis
from lograft.chaos.cluster.faults.stranger import Stranger
from lograft.chaos.cluster.operator import Operator
from lograft.chaos.cluster.run import ClusterRun, live_through, partitions_of
from lograft.chaos.cluster.to_live_history import live_history
from lograft.chaos.cluster.world.node import (
    BROKER_PORT,
    CLUSTER_ID,
    CLUSTER_SECRET,
    CONTROLLER_PORT,
    NODES_PORT,
    SimulatedHost,
)
from lograft.chaos.cluster.world.quorum import missing_voters, quorum_of
from lograft.chaos.cluster.world.selection import EVERYTHING, Selection
from lograft.chaos.cluster.world.weather import ClusterWeather, draw_cluster_weather
from lograft.chaos.harness.schedule import Detail, Schedule
from lograft.chaos.history.entries import Done, Fault, Moment
from lograft.chaos.history.history import History
from lograft.chaos.metadata.simulation import _told, first_cause
from lograft.chaos.world.link import Delays
from lograft.chaos.world.loop import VirtualClock, run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import PartitionChanged, Record, TopicDeleted
from lograft.metadata.image.state_machine import MachineListener, MetadataMachine
from lograft.raft.errors import RaftError
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime
from lograft.storage.log.log_config import LogConfig

_MAX_VIRTUAL_SECONDS = 400.0
_LOOK_EVERY_MS = 20
_NETWORK_BUFFER_BYTES = 256 * 1024  # small enough that clients sometimes have to wait for each other
_UNLIMITED = (LogConfig().retention_bytes, LogConfig().retention_ms)


class SimulatedCluster:
    """Create it on a virtual loop."""

    def __init__(self, seed: int, weather: ClusterWeather | None = None, selection: Selection = EVERYTHING) -> None:
        rng = Rng(seed)
        drawn = draw_cluster_weather(rng)
        self.weather = weather or drawn
        self.selection = selection
        if selection.duration_ms is not None:
            self.weather = replace(self.weather, duration_ms=selection.duration_ms)
        self.final: dict[PartitionKey, FinalPartition] = {}  # set at the end of the run
        self.rng = rng.fork()
        self.schedule = Schedule()
        self.history = ClusterHistory()
        self.group = GroupHistory(self.history)
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        low_ms, high_ms = self.weather.delay_ms
        self.network = VirtualNetwork(rng.fork(), delays=Delays(low_ms, high_ms))
        self._image = ClusterImage()
        self._metadata_index = 0
        self._watched: dict[str, None] = {}  # processes whose controller is watched
        self._cuts: dict[tuple[str, str], None] = {}
        # Not drawn from the random numbers, so that runs without a secret stay the same.
        self.secrets = (CLUSTER_SECRET,) if seed % 2 == 0 else ()
        self.hosts = [SimulatedHost(config, self.weather.upkeep, self, rng.fork()) for config in self._configs()]
        for host in self.hosts[len(self.hosts) - self.weather.late_brokers :]:
            host.is_expected = False
        self.losses = Losses(self)
        self._watch = ClusterWatch(self)
        self.sights = Sights(self)
        self._client_rng = rng.fork()
        self.nemesis = ClusterNemesis(self, rng.fork(), selection)
        self.operators, self.clients = self._make_clients(rng.fork())
        self._background: dict[asyncio.Task[None], None] = {}
        if self.weather.client_delay_ms is not None:
            self._set_client_delays(Delays(*self.weather.client_delay_ms))
        self.note("weather", str(self.weather))

    # -- nodes and clients

    def _configs(self) -> list[NodeConfig]:
        weather = self.weather
        brokers = list(range(1, weather.brokers + 1))
        first = 1 if weather.is_combined else 101
        controllers = {number: f"n{number}:{CONTROLLER_PORT}" for number in range(first, first + weather.controllers)}
        numbers = list(dict.fromkeys([*controllers, *brokers]))
        directories = tuple(f"/data{number}" for number in range(weather.directories))
        configs = []
        for number in numbers:
            roles = [Role.CONTROLLER] * (number in controllers) + [Role.BROKER] * (number in brokers)
            address = f"n{number}:{BROKER_PORT}" if number in brokers else None
            nodes_address = f"n{number}:{NODES_PORT}" if number in brokers else None
            configs.append(
                NodeConfig(
                    node_id=number,
                    roles=tuple(roles),
                    cluster_id=CLUSTER_ID,
                    data_dirs=directories,
                    controllers=controllers,
                    listen=address,
                    advertised=address,
                    controller_listen=controllers.get(number),
                    nodes_listen=nodes_address,
                    nodes_advertised=nodes_address,
                    cluster_secrets=self.secrets,
                    network_buffer_bytes=_NETWORK_BUFFER_BYTES,
                    rack=f"rack{number % weather.racks}" if weather.racks else None,
                    cluster_settings={
                        "replica.lag.time.max.ms": str(weather.lag_ms),
                        "offsets.topic.num.partitions": "1",
                        "offsets.topic.replication.factor": str(min(3, weather.brokers - weather.late_brokers)),
                        "offsets.topic.segment.bytes": str(min(weather.segment_bytes, 1 << 24)),
                    },
                )
            )
        return configs

    def _make_clients(self, rng: Rng) -> tuple[list[Operator], list[Client]]:
        weather = self.weather
        controllers = [host.number for host in self.hosts if host.config.is_controller]
        brokers = [host.number for host in self.hosts if host.is_broker]
        operators = [
            Operator(f"operator{number}", self, rng.fork(), controllers, brokers)
            for number in range(max(1, weather.operators))
        ]
        clients: list[Client] = [*operators[: weather.operators]]
        clients += [SendingClient(f"producer{number}", self, rng.fork()) for number in range(weather.producers)]
        clients += [AppendingClient(f"appender{number}", self, rng.fork()) for number in range(weather.appenders)]
        clients += [ReadingClient(f"consumer{number}", self, rng.fork()) for number in range(weather.consumers)]
        clients += [MemberClient(f"member{number}", self, rng.fork()) for number in range(weather.members)]
        clients += [AskingClient(f"asker{number}", self, rng.fork()) for number in range(weather.askers)]
        clients += [RegisterClient(f"registrar{number}", self, rng.fork()) for number in range(weather.registrars)]
        return operators, clients

    def _set_client_delays(self, delays: Delays) -> None:
        for host in self.hosts:
            for client in self.client_hosts:
                self.network.set_delays(host.host, client, delays)
                self.network.set_delays(client, host.host, delays)

    @property
    def addresses(self) -> list[str]:
        return [host.address for host in self.hosts if host.is_broker]

    @property
    def missing_voters(self) -> list[int] | None:
        configuration = quorum_of(self.hosts)
        return None if configuration is None else [one.number for one in missing_voters(self.hosts, configuration)]

    def lost_stores(self, number: int) -> tuple[UUID, ...]:
        return next(tuple(host.lost_stores) for host in self.hosts if host.number == number)

    @property
    def client_hosts(self) -> list[str]:
        return [client.name for client in self.clients]

    def client_runtime(self, host: str) -> Runtime:
        unused: Any = None
        rng = self._client_rng.fork()
        speed = DiskSpeed(rng.fork())
        clock, network = VirtualClock(self._loop), self.network.host(host)
        return Runtime(clock, rng, unused, network, VirtualBlocking(speed), VirtualWorkers(rng.fork(), speed))

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

    # -- outside view

    @property
    def image(self) -> ClusterImage:
        """The latest image ever seen on a controller."""
        for host in self.hosts:
            image = host.image
            if image is not None and image.sequence > self._image.sequence:
                self._image = image.copy()
        return self._image

    def failed(self, error: BaseException) -> None:
        self.note("failed", repr(error))
        if not self.failure.done():
            self.failure.set_exception(error)

    async def watch(self) -> None:
        """Look at leaders, replicas and metadata at regular intervals."""
        looked_at = -1
        while True:
            await self.pass_ms(_LOOK_EVERY_MS)
            for host in self.hosts:
                self._listen_to(host)
            if self.image.sequence != looked_at:
                looked_at = self.image.sequence
                self._note_promises(self.image)
            self.sights.look()
            self._watch.look()

    def _listen_to(self, host: SimulatedHost) -> None:
        controller = host.node.controller if host.node is not None else None
        if controller is not None and host.process not in self._watched:
            self._watched[host.process] = None
            controller.node.machine.listen(_Listener(self, controller.node.machine))

    def check_committed(self, key: PartitionKey, leader_epoch: int, end: int, what: object) -> None:
        self._watch.check_committed(key, leader_epoch, end, what)

    def note_replicas(self) -> None:
        self._watch.note_replicas()

    def crashed_in(self, place: str) -> None:
        self.sights.crashes[place] += 1

    def about_to_end(self, host: SimulatedHost) -> None:
        self._watch.look()

    def applied(self, index: int, records: tuple[Record, ...], image: ClusterImage) -> None:
        if index <= self._metadata_index:
            return
        self._metadata_index = index
        for record in records:
            if isinstance(record, TopicDeleted):
                self.history.to_be_deleted(record.topic_id, self.now_us)
            for line in _told(record, image):
                self.note("metadata", index, line)
            if isinstance(record, PartitionChanged):
                self.sights.changed((record.topic_id, record.number), record.partition)
        self._note_promises(image)

    def _note_promises(self, image: ClusterImage) -> None:
        """Note the promises that the metadata revoke, through unclean elections and cleanup policies."""
        for key, partition in partitions_of(image):
            if partition.unclean_epoch is not None:
                self.history.elected_uncleanly(key, partition.unclean_epoch, self.now_us)
        for topic_id in image.topics:
            config = log_config_of(image, topic_id)
            if config.cleanup_compact:
                self.history.compacted_topics[topic_id] = None
            if config.cleanup_delete and (config.retention_bytes, config.retention_ms) != _UNLIMITED:
                self.history.limited_topics[topic_id] = None

    # -- called by the nemesis

    def may_lose_power(self, host: SimulatedHost) -> bool:
        return self.nemesis.may_lose_power(host)

    def began_fault(self, number: int, fault: str) -> None:
        now = Moment(self.now_us)
        self.history.entries.append(Fault("nemesis", number, now, fault, "", Done(now)))

    def cut(self, source: str, target: str) -> None:
        self.note("cut", f"{source}>{target}")
        self._cuts[source, target] = None
        self.network.cut(source, target)

    def heal_network(self) -> None:
        self.note("heal")
        cuts, self._cuts = self._cuts, {}
        for source, target in cuts:
            self.network.heal(source, target)

    def slow(self, one: str, other: str, slowest_ms: float) -> None:
        self.network.set_delays(one, other, Delays(self.weather.delay_ms[0], slowest_ms))

    def break_connections(self, one: str, other: str) -> None:
        self.note("break", one, other)
        self.network.break_connections(one, other)

    def transfer(self, active: SimulatedHost, target: SimulatedHost) -> None:
        self.note("transfer", active.host, target.host)
        controller = active.node.controller if active.node is not None else None
        raft = controller.node.raft if controller is not None else None
        if raft is not None:
            task = self._loop.create_task(_regardless(raft.transfer_leadership(target.number)))
            self._background[task] = None
            task.add_done_callback(lambda done: self._background.pop(done, None))

    # -- end of a run

    def live_history(self) -> History:
        """Return the run so far in the form that the checkers of live clusters judge."""
        internal: dict[UUID, str] = {
            each.topic_id: each.name for each in self.image.topics.values() if each.is_internal
        }
        return live_history(self.history, self.final, self.now_us, internal)

    def stop(self) -> None:
        """Kill all running nodes, so that nothing is left behind."""
        for host in self.hosts:
            if host.is_up:
                host.kill()


class _Listener(MachineListener):
    """Reports the metadata changes of one controller process to the cluster."""

    def __init__(self, cluster: SimulatedCluster, machine: MetadataMachine) -> None:
        self._cluster = cluster
        self._machine = machine

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        self._cluster.applied(index, records, self._machine.image)


async def _regardless(request: Any) -> None:
    """Ignore failures of a request: the nemesis has no use for its outcome."""
    with contextlib.suppress(RaftError):
        await request


def simulate_cluster(
    seed: int,
    weather: ClusterWeather | None = None,
    selection: Selection = EVERYTHING,
    *,
    on_made: Callable[[SimulatedCluster], None] = lambda cluster: None,
    story: Callable[[SimulatedCluster], Awaitable[None]] | None = None,
) -> ClusterRun:
    """Run a cluster from `seed`. Pass it to `on_made`, for callers that print failures. `story`, if given, replaces the
    random faults."""

    async def main() -> ClusterRun:
        cluster = SimulatedCluster(seed, weather, selection)
        on_made(cluster)
        loop = asyncio.get_running_loop()
        trouble = partial(story, cluster) if story is not None else None
        life = loop.create_task(live_through(cluster, trouble), name="run")
        watching = [loop.create_task(cluster.watch(), name="watch")]
        if cluster.secrets:
            watching.append(loop.create_task(Stranger(cluster, Rng(~seed)).run(), name="stranger"))
        futures: list[asyncio.Future[Any]] = [cluster.failure, *watching, life]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        for future in futures:
            if future.done():
                future.result()
        run = life.result()
        for task in watching:
            task.cancel()
        cluster.stop()
        return run

    try:
        return run_virtual(main, max_virtual_seconds=_MAX_VIRTUAL_SECONDS)
    except BaseExceptionGroup as group:
        raise first_cause(group) from group
