"""Whole controllers and the cluster's part of brokers, in virtual time: production code, but for disks and network.

async with controllers() as cluster:
    broker = await cluster.ready_broker(1)
    active = await cluster.active()
    await active.kill()
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import Message
from support.fake_controllers import until
from support.metadata_images import directory
from support.raft_nodes import make_runtime

from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.raft_store import MemoryDisk, MemoryStore
from lograft.chaos.world.workers import DiskSpeed
from lograft.metadata.controller_node import ControllerNode, ControllerSettings
from lograft.metadata.decisions.brokers.registration import Registration
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.membership.broker_session import ReplicaEnd, Wanted
from lograft.metadata.membership.cluster_membership import ClusterMembership
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import call
from lograft.runtime.network import Connection, Server
from lograft.runtime.rng import Rng

CLUSTER_ID = "cluster"
CLIENT = "client"

R = TypeVar("R", bound=Message)


class ControllerHost:
    """A machine with a disk that outlives the controllers on it. Down: there is no `node`."""

    def __init__(self, cluster: "ControllerNodes", node_id: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.name = f"c{node_id}"
        self.address = f"{self.name}:9093"
        self.disk = MemoryDisk(CLUSTER_ID, node_id, cluster.rng.fork())
        self.maybe_node: ControllerNode | None = None
        self.running: asyncio.Task[None] | None = None
        self.panics: list[BaseException] = []

    @property
    def node(self) -> ControllerNode:
        assert self.maybe_node is not None, f"{self.name} is down"
        return self.maybe_node

    @property
    def is_active(self) -> bool:
        return self.maybe_node is not None and self.maybe_node.active.is_active

    async def start(self, *, run: bool = True) -> ControllerNode:
        """Serve, and take part. Without `run`: served, but the rest is left to the test."""
        seed = self._cluster.rng.randrange(2**32)
        runtime = make_runtime(seed, self._cluster.network, self.name)
        self.store: MemoryStore = self.disk.open(DiskSpeed(runtime.rng.fork()), runtime.rng.fork())
        state = await self.store.load()
        addresses = self._cluster.known_addresses.get(self.node_id, self._cluster.addresses)
        node = ControllerNode(runtime, self.store, state, addresses, self._cluster.settings)
        self.server: Server = await runtime.network.serve(self.address, node.handlers(), self.panics.append)
        self.maybe_node = node
        if run:
            self.running = asyncio.ensure_future(node.run())
        return node

    async def stop(self) -> None:
        """In an orderly way, as a program would that is asked to end."""
        assert self.running is not None
        await self.node.close()
        await self.running
        await self.server.stop()
        self.maybe_node = self.running = None

    async def kill(self) -> None:
        """As kill -9: nothing in memory is left, and who was connected notices."""
        self.store.kill()
        self._cluster.network.crash(self.name)
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait([self.running])
        self.maybe_node = self.running = None


class BrokerHost:
    """A machine on which processes of a broker run, one after the other; this is one such process."""

    def __init__(self, cluster: "ControllerNodes", broker_id: int, registration: Registration) -> None:
        self._cluster = cluster
        self.name = f"b{broker_id}"
        self.address = registration.address
        self.broker_id = BrokerId(broker_id)
        self.log_ends: list[ReplicaEnd] = []
        self.panics: list[BaseException] = []
        self.runtime = make_runtime(cluster.rng.randrange(2**32), cluster.network, self.name)
        self.membership = ClusterMembership(
            self.runtime, dict(cluster.broker_addresses or cluster.addresses), CLUSTER_ID, registration,
            lambda: self.log_ends,
        )  # fmt: skip
        self.running: asyncio.Task[None] | None = None

    @property
    def state(self) -> BrokerState:
        """As the process was told."""
        return self.membership.session.state

    async def start(self) -> None:
        await self.runtime.network.serve(self.address, self.membership.handlers(), self.panics.append)
        self.running = asyncio.ensure_future(self.membership.run())

    async def be_ready(self) -> None:
        await self.membership.until_registered()
        self.membership.session.set_wanted(Wanted.READY)
        await self.membership.session.wait_until(lambda: self.state is BrokerState.ACTIVE)

    async def kill(self) -> None:
        """As kill -9."""
        assert self.running is not None
        self._cluster.network.crash(self.name)
        self.running.cancel()
        await asyncio.wait([self.running])

    def pause(self) -> None:
        """As SIGSTOP: its connections stay, and nothing comes."""
        for controller in self._cluster.hosts.values():
            self._cluster.network.cut(self.name, controller.name)
            self._cluster.network.cut(controller.name, self.name)

    def resume(self) -> None:
        for controller in self._cluster.hosts.values():
            self._cluster.network.heal(self.name, controller.name)
            self._cluster.network.heal(controller.name, self.name)


class ControllerNodes:
    """Controllers 1 to `count`, and brokers. `addresses`: of all controllers, by id.

    `known_addresses`: what single controllers know instead; `broker_addresses`: what brokers do.
    """

    def __init__(self, count: int = 3, *, seed: int = 1, settings: ControllerSettings | None = None) -> None:
        self.rng = Rng(seed)
        self.network = VirtualNetwork(self.rng.fork())
        self.settings = settings
        self.known_addresses: dict[int, dict[int, str]] = {}
        self.broker_addresses: dict[int, str] = {}
        self.hosts = {node_id: ControllerHost(self, node_id) for node_id in range(1, count + 1)}
        self.brokers: list[BrokerHost] = []
        self.addresses = {node_id: host.address for node_id, host in self.hosts.items()}
        self._connections: dict[str, Connection] = {}

    def __getitem__(self, node_id: int) -> ControllerHost:
        return self.hosts[node_id]

    @property
    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def active(self) -> ControllerHost:
        """The active controller, when there is one and all that run know it."""
        found: list[ControllerHost] = []

        def is_known() -> bool:
            living = [host for host in self.hosts.values() if host.maybe_node is not None]
            found[:] = [host for host in living if host.is_active]
            hints = {host.node.active.active_hint for host in living}
            return len(found) == 1 and hints == {found[0].node_id}

        await until(is_known)
        await until(lambda: found[0].node.machine.image.feature_level > 0)
        return found[0]

    async def standbys(self) -> list[ControllerHost]:
        active = await self.active()
        return [host for host in self.hosts.values() if host is not active and host.maybe_node is not None]

    async def broker(
        self, broker_id: int, *, incarnation: int = 1, clean_epoch: int | None = None, directories: int = 1
    ) -> BrokerHost:
        """A process that is running; whether it is registered yet is another matter."""
        registration = registration_of(
            broker_id, incarnation=incarnation, clean_epoch=clean_epoch, directories=directories
        )
        host = BrokerHost(self, broker_id, registration)
        self.brokers.append(host)
        await host.start()
        return host

    async def ready_broker(self, broker_id: int, *, incarnation: int = 1, directories: int = 1) -> BrokerHost:
        host = await self.broker(broker_id, incarnation=incarnation, directories=directories)
        async with asyncio.timeout(60):
            await host.be_ready()
        return host

    async def connect(self, address: str) -> Connection:
        """From the client's host; kept for the next time."""
        connection = self._connections.get(address)
        if connection is None or connection.broken.is_set():
            connection = self._connections[address] = await self.network.host(CLIENT).connect(address)
        return connection

    async def ask(self, address: str, method: str, request: Message, response_type: type[R]) -> R:
        """Of that node, as a client would."""
        return await call(await self.connect(address), method, request, response_type)

    async def refused(
        self, address: str, method: str, request: Message, response_type: type[Message]
    ) -> ControllerError:
        try:
            answer = await self.ask(address, method, request, response_type)
        except ControllerError as error:
            return error
        raise AssertionError(f"not refused: {answer}")

    async def until_all(self, condition: Callable[[ControllerNode], bool]) -> None:
        """Return when it holds of every controller that runs."""
        await until(lambda: all(condition(host.node) for host in self.hosts.values() if host.maybe_node is not None))

    async def end(self) -> None:
        """Stop what still runs. A broken handler, or a controller that failed, is told now at the latest."""
        for broker in self.brokers:
            if broker.running is not None:
                broker.running.cancel()
                await asyncio.wait([broker.running])
        for host in self.hosts.values():
            if host.running is not None:
                await host.stop()
        panics = [panic for host in self.hosts.values() for panic in host.panics]
        panics += [panic for broker in self.brokers for panic in broker.panics]
        assert not panics, panics


@asynccontextmanager
async def controllers(
    count: int = 3, *, seed: int = 1, settings: ControllerSettings | None = None
) -> AsyncIterator[ControllerNodes]:
    """Controllers that run, one of them active; stopped at the end, if they still run."""
    cluster = ControllerNodes(count, seed=seed, settings=settings)
    for host in cluster.hosts.values():
        await host.start()
    await cluster.active()
    yield cluster
    await cluster.end()


def registration_of(
    broker_id: int,
    *,
    incarnation: int = 1,
    clean_epoch: int | None = None,
    directories: int = 1,
    boot_id: str = "boot",
) -> Registration:
    """Of a broker at host `b<id>`, with the directories that `metadata_images.directory` gives."""
    return Registration(
        broker_id=BrokerId(broker_id),
        incarnation=UUID(int=broker_id << 32 | incarnation),
        address=f"b{broker_id}:9092",
        rack=None,
        directories=tuple(directory(broker_id, number) for number in range(directories)),
        boot_id=boot_id,
        clean_epoch=BrokerEpoch(clean_epoch) if clean_epoch is not None else None,
        min_feature_level=1,
        max_feature_level=1,
    )
