"""Whole nodes in virtual time: how they start, when they are ready, how they stop, and why they refuse to."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

import pytest
from google.protobuf.message import Message
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from support.raft_nodes import virtual

from lograft.broker.node.broker_role import _clean_epoch
from lograft.broker.node.config import NodeConfig
from lograft.broker.node.config_values import Role
from lograft.broker.node.node import HostProcess, Node, NodeRefused
from lograft.broker.replication.codec import REPLICATE
from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.loop import VirtualClock
from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.raft_store import MemoryDisk
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import BrokerId
from lograft.proto import controller_pb2, replication_pb2
from lograft.proto.admin_pb2 import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
    QuorumChangeResponse,
    ReplaceVoterRequest,
)
from lograft.proto.cluster_pb2 import ClusterDescription, DescribeRequest
from lograft.proto.log_pb2 import AppendRequest, AppendResponse, NewRecord
from lograft.proto.methods import APPEND, CREATE_TOPICS, DESCRIBE_CLUSTER, REPLACE_VOTER
from lograft.raft.bootstrap.bootstrapper import OFFER_METHOD, PROBE_METHOD
from lograft.raft.interfaces import Store
from lograft.raft.transport.peer_connection import MESSAGES_METHOD
from lograft.raft.transport.snapshot_stream import SNAPSHOT_METHOD
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import call
from lograft.runtime.files import read_whole
from lograft.runtime.network import ConnectFailed, Status, StreamError
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.data_directory import FAILED_FILE, MARKER_FILE

R = TypeVar("R", bound=Message)

BOTH = (Role.CONTROLLER, Role.BROKER)
CONTROLLERS = {number: f"n{number}:9093" for number in (1, 2, 3)}
READY = HealthCheckResponse.SERVING


def config_of(number: int, roles: tuple[Role, ...] = BOTH, controllers: dict[int, str] = CONTROLLERS) -> NodeConfig:
    return NodeConfig(
        node_id=number,
        roles=roles,
        cluster_id="test",
        data_dirs=("/data", "/more") if Role.BROKER in roles else ("/data",),
        controllers=controllers,
        listen=f"n{number}:9092" if Role.BROKER in roles else None,
        advertised=f"n{number}:9092" if Role.BROKER in roles else None,
        nodes_listen=f"n{number}:9094" if Role.BROKER in roles else None,
        nodes_advertised=f"n{number}:9094" if Role.BROKER in roles else None,
        controller_listen=f"n{number}:9093" if Role.CONTROLLER in roles else None,
        cluster_settings={"num.partitions": "4"},
    )


class Host:
    """A machine, and the node on it, which may be down. The disks outlive the node."""

    def __init__(self, world: "World", number: int, config: NodeConfig) -> None:
        self.number = number
        self.host = f"n{number}"
        self.config = config
        self._world = world
        self._rng = world.rng.fork()
        self.files = VirtualFiles(self._rng.fork())
        self.disk = MemoryDisk(config.cluster_id, number, self._rng.fork())
        self.speed = DiskSpeed(self._rng.fork())
        self.node: Node | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        speed = self.speed
        runtime = Runtime(
            clock=VirtualClock(asyncio.get_running_loop()),
            rng=self._rng.fork(),
            files=self.files,
            network=self._world.network.host(self.host),
            blocking=VirtualBlocking(speed),
            make_worker=VirtualWorkers(self._rng.fork(), speed),
        )

        async def open_store(_runtime: Runtime, directory: str, cluster_id: str, node_id: int) -> Store:
            assert (directory, cluster_id, node_id) == ("/data/metadata", self.config.cluster_id, self.number)
            return self.disk.open(speed, self._rng.fork())

        self.node = Node(runtime, self.config, HostProcess("boot", open_store), _panic)
        self._task = asyncio.ensure_future(self.node.run())
        return self._task

    async def stop(self) -> None:
        assert self.node is not None
        assert self._task is not None
        self.node.stop()
        await self._task

    async def kill(self) -> None:
        """Without ado: what is in memory is gone. (Nothing of it is on the virtual disk; locks are given back.)"""
        assert self._task is not None
        self._world.network.crash(self.host)
        self._task.cancel()
        await asyncio.wait([self._task])

    def lose_disks(self) -> None:
        """All that was there is gone; it is down."""
        self.files = VirtualFiles(self._rng.fork())
        self.disk = MemoryDisk(self.config.cluster_id, self.number, self._rng.fork())

    def fail_if_it_failed(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    @property
    def is_ready(self) -> bool:
        self.fail_if_it_failed()
        return self.node is not None and self.node.why_not_ready() is None

    async def metrics(self) -> list[str]:
        assert self.node is not None
        return (await self.node.metrics()).splitlines()

    @property
    def epoch(self) -> int:
        """Of its latest life."""
        assert self.node is not None
        assert self.node.broker is not None
        assert self.node.broker.broker_epoch is not None
        return self.node.broker.broker_epoch

    @property
    def marker(self) -> str | None:
        path = f"/data/{MARKER_FILE}"
        return read_whole(self.files, path).decode().splitlines()[0] if self.files.exists(path) else None


class World:
    """A network of hosts."""

    def __init__(self, *configs: NodeConfig, seed: int = 1) -> None:
        self.rng = Rng(seed)
        self.network = VirtualNetwork(self.rng.fork())
        self.hosts = [Host(self, config.node_id, config) for config in configs]

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 (virtual time costs nothing)
                await asyncio.sleep(0.01)

    async def until_ready(self) -> None:
        await self.until(lambda: all(host.is_ready for host in self.hosts))

    async def create_topic(self, name: str) -> None:
        request = CreateTopicsRequest(topics=[NewTopic(name=name, partitions=1, replication_factor=3)])
        answer = await self.ask("n1:9092", CREATE_TOPICS, request, CreateTopicsResponse)
        assert not answer.results[0].HasField("error")

    async def append(self, topic: str, value: bytes) -> int:
        """Whoever leads takes it; until then everybody is asked again and again."""
        request = AppendRequest(topic=topic, records=[NewRecord(value=value)])
        async with asyncio.timeout(60):
            while True:
                for host in self.hosts:
                    with contextlib.suppress(ControllerError, ConnectFailed):
                        return (await self.ask(f"{host.host}:9092", APPEND, request, AppendResponse)).base_offset
                await asyncio.sleep(0.01)

    async def ask(self, address: str, method: str, request: Message, response_type: type[R]) -> R:
        connection = await self.network.host("client").connect(address)
        try:
            return await call(connection, method, request, response_type)
        finally:
            await connection.close()

    async def describe(self, address: str) -> ClusterDescription:
        return await self.ask(address, DESCRIBE_CLUSTER, DescribeRequest(linearizable=True), ClusterDescription)

    async def health(self, address: str) -> int:
        answer = await self.ask(address, "/grpc.health.v1.Health/Check", HealthCheckRequest(), HealthCheckResponse)
        return answer.status  # type: ignore[no-any-return]


def _panic(error: BaseException) -> None:
    raise AssertionError("a handler broke") from error


@asynccontextmanager
async def three(*secrets: bytes) -> AsyncIterator[World]:
    world = World(*(replace(config_of(number), cluster_secrets=secrets) for number in CONTROLLERS))
    for host in world.hosts:
        host.start()
    await world.until_ready()
    yield world
    for host in world.hosts:
        await host.kill()


async def refused(host: Host, message: str) -> None:
    with pytest.raises(NodeRefused, match=re.escape(message)):
        await asyncio.wait_for(host.start(), 60)


@virtual
async def test_three_nodes_start_register_and_serve() -> None:
    async with three() as world:
        for number in CONTROLLERS:
            for port in (9092, 9093):
                described = await world.describe(f"n{number}:{port}")
                assert [broker.id for broker in described.brokers] == [1, 2, 3]
                assert {broker.state for broker in described.brokers} == {BrokerState.ACTIVE.value}
                assert await world.health(f"n{number}:{port}") == READY
        broker = world.hosts[0].node
        assert broker is not None
        assert broker.broker is not None
        image = broker.broker.membership.image
        assert image.config_of(CLUSTER) == {"num.partitions": "4"}
        assert [len(one.directories) for one in image.brokers.values()] == [2, 2, 2]


@virtual
async def test_controllers_and_brokers_can_be_nodes_of_their_own() -> None:
    controllers = {1: "n1:9093"}
    world = World(config_of(1, (Role.CONTROLLER,), controllers), config_of(5, (Role.BROKER,), controllers))
    for host in world.hosts:
        host.start()
    await world.until_ready()
    assert [broker.id for broker in (await world.describe("n5:9092")).brokers] == [5]
    with pytest.raises(ConnectFailed):
        await world.health("n1:9092")
    with pytest.raises(ConnectFailed):
        await world.health("n5:9093")
    assert not world.hosts[0].files.exists("/more")
    controller, broker = [await host.metrics() for host in world.hosts]
    assert {"lograft_controller_active 1", 'lograft_brokers{state="active"} 1', "lograft_node_ready 1"} <= {*controller}
    assert {"lograft_broker_active 1", "lograft_partitions 0", "lograft_node_ready 1"} <= {*broker}
    assert not [line for line in controller if "broker_active" in line]
    assert not [line for line in broker if "lograft_raft" in line]
    for host in reversed(world.hosts):
        await host.stop()


@virtual
async def test_a_broker_that_was_fenced_serves_again_once_it_is_not() -> None:
    async with three() as world:
        fourth = Host(world, 4, config_of(4, (Role.BROKER,)))
        fourth.start()
        world.hosts.append(fourth)
        await world.until_ready()
        connection = await world.network.host("client").connect("n4:9092")
        watch = connection.open("/grpc.health.v1.Health/Watch")
        await watch.send(HealthCheckRequest().SerializeToString())
        seen = [HealthCheckResponse.FromString(await watch.receive() or b"").status]
        for number in CONTROLLERS:
            world.network.break_connections("n4", f"n{number}")
            world.network.cut("n4", f"n{number}")
        assert "lograft_broker_active 1" in await fourth.metrics()
        await asyncio.sleep(10)
        states = {broker.id: broker.state for broker in (await world.describe("n1:9092")).brokers}
        assert states[4] == BrokerState.FENCED.value
        assert "lograft_broker_active 0" in await fourth.metrics(), "nobody could tell it, but it hears nothing"
        world.network.heal_all()
        for _ in range(2):
            seen.append(HealthCheckResponse.FromString(await watch.receive() or b"").status)
        assert seen == [READY, HealthCheckResponse.NOT_SERVING, READY]
        assert "lograft_broker_active 1" in await fourth.metrics()
        await connection.close()


@virtual
async def test_a_node_that_waits_for_others_says_so_and_serves_nobody() -> None:
    world = World(config_of(1))
    [host] = world.hosts
    host.start()
    node = host.node
    assert node is not None
    await world.until(lambda: "waiting for controllers 2@n2:9093 (refused), 3@" in (node.why_not_ready() or ""))
    assert await world.health("n1:9092") != READY
    assert await world.health("n1:9093") != READY
    assert {"lograft_node_ready 0", "lograft_controller_active 0", "lograft_broker_active 0"} <= {*await host.metrics()}
    started = asyncio.get_running_loop().time()
    await host.stop()
    assert asyncio.get_running_loop().time() - started < 1, "there is nothing to wait for"
    assert host.marker is None


@virtual
async def test_a_controller_that_lost_its_disk_is_not_ready_before_it_votes_again() -> None:
    """Its broker comes back by itself; its place in the quorum is for an operator to give."""
    async with three() as world:
        await world.create_topic("orders")
        victim = world.hosts[2]
        await victim.kill()
        victim.lose_disks()
        victim.start()
        node = victim.node
        assert node is not None
        await world.until(lambda: "not a voter of the quorum: `quorum replace 3` if" in (node.why_not_ready() or ""))
        await world.until(lambda: node.broker is not None and node.broker.why_not_ready() is None)
        assert not victim.is_ready
        await world.ask("n1:9092", REPLACE_VOTER, ReplaceVoterRequest(node_id=3, timeout_ms=9000), QuorumChangeResponse)
        await world.until_ready()


@virtual
async def test_an_orderly_stop_is_told_to_the_cluster_and_leaves_a_marker() -> None:
    async with three() as world:
        first = world.hosts[0]
        await first.stop()
        assert first.node is not None
        assert first.node.why_not_ready() == "shutting down"
        assert first.marker == f"broker_epoch {first.epoch}"
        states = {broker.id: broker.state for broker in (await world.describe("n2:9092")).brokers}
        assert states == {1: BrokerState.FENCED.value, 2: BrokerState.ACTIVE.value, 3: BrokerState.ACTIVE.value}
        with pytest.raises(ConnectFailed):
            await world.health("n1:9092")
        with pytest.raises(ConnectFailed):
            await world.health("n1:9093")
        first.start()
        await world.until_ready()


def internal_methods() -> list[str]:
    services = [
        service
        for file in (controller_pb2.DESCRIPTOR, replication_pb2.DESCRIPTOR)
        for service in file.services_by_name.values()
    ]
    methods = [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]
    return [*methods, MESSAGES_METHOD, SNAPSHOT_METHOD, PROBE_METHOD, OFFER_METHOD]


async def status_of(world: World, address: str, method: str) -> Status | None:
    """How a call with an empty message ends; None: well."""
    connection = await world.network.host("client").connect(address)
    try:
        stream = connection.open(method)
        await stream.send(b"")
        await stream.half_close()
        while await stream.receive() is not None:
            pass
    except StreamError as error:
        return error.status
    finally:
        await connection.close()
    return None


SECRET, OTHER = b"s" * 32, b"o" * 32


@virtual
async def test_nodes_with_one_secret_are_a_cluster_and_serve_no_one_else() -> None:
    async with three(SECRET) as world:
        await world.create_topic("orders")
        await world.append("orders", b"x")
        for method in internal_methods():
            address = "n1:9094" if method == REPLICATE else "n1:9093"
            assert await status_of(world, address, method) is Status.UNAUTHENTICATED, method
        assert await world.health("n1:9093") == READY


@pytest.mark.parametrize("secrets", [(OTHER,), ()])
def test_a_node_with_another_secret_or_none_is_kept_out_and_both_ends_say_why(
    secrets: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    @virtual
    async def scenario() -> None:
        async with three(SECRET) as world:
            third = world.hosts[2]
            await third.stop()
            right, third.config = third.config, replace(third.config, cluster_secrets=secrets)
            third.start()
            await asyncio.sleep(20)
            assert third.node is not None
            reason = third.node.why_not_ready()
            assert reason is not None
            assert "cluster_secret_file" in reason
            told = [line for line in caplog.text.splitlines() if "node_not_believed" in line and "n1:909" in line]
            assert "peer='n3'" in told[0]
            (counted,) = [
                line for line in await world.hosts[0].metrics() if line.startswith("lograft_nodes_not_believed_total ")
            ]
            assert int(counted.split()[1]) > 0
            assert "give both nodes the same cluster_secret_file" in told[0]
            assert all(host.is_ready for host in world.hosts[:2])
            await third.kill()
            third.config = right
            third.start()
            await world.until_ready()

    scenario()


@virtual
async def test_clients_are_not_served_what_nodes_say_to_each_other() -> None:
    async with three() as world:
        assert len(internal_methods()) == 14
        for method in internal_methods():
            assert await status_of(world, "n1:9092", method) is Status.UNIMPLEMENTED, method
        assert await status_of(world, "n1:9094", REPLICATE) is Status.INVALID_ARGUMENT


@virtual
async def test_clients_are_not_served_where_brokers_are() -> None:
    async with three() as world:
        for method in (APPEND, DESCRIBE_CLUSTER, CREATE_TOPICS, "/grpc.health.v1.Health/Check"):
            assert await status_of(world, "n1:9094", method) is Status.UNIMPLEMENTED, method


@virtual
async def test_a_disk_that_fails_at_the_last_moment_does_not_keep_a_node_from_stopping() -> None:
    async with three() as world:
        first = world.hosts[0]
        await world.create_topic("orders")
        await world.until_ready()
        first.files.fail_writes(f"/data/{MARKER_FILE}")
        await first.stop()
        assert first.marker is None
        assert first.files.exists(f"/more/{MARKER_FILE}")
        with pytest.raises(ConnectFailed):
            await world.health("n1:9093")
        first.files.fail_writes(None)
        first.start()
        await world.until_ready()


@virtual
async def test_the_last_node_stops_without_a_quorum_to_agree() -> None:
    world = World(*map(config_of, CONTROLLERS))
    for host in world.hosts:
        host.start()
    await world.until_ready()
    started = asyncio.get_running_loop().time()
    await asyncio.gather(*(host.stop() for host in world.hosts))
    assert asyncio.get_running_loop().time() - started < 5
    assert all(host.marker for host in world.hosts)


@virtual
async def test_a_killed_node_leaves_no_marker_and_comes_back() -> None:
    async with three() as world:
        first = world.hosts[0]
        await world.create_topic("orders")
        await world.until_ready()
        await first.stop()
        epoch = first.epoch
        assert first.marker == f"broker_epoch {epoch}"
        first.start()
        await world.until_ready()
        assert first.marker is None, "there is a log open that may be written to"
        await first.kill()
        assert first.marker is None
        first.start()
        await world.until_ready()
        assert first.epoch > epoch


@pytest.mark.parametrize("was_clean", [False, True])
@virtual
async def test_a_node_that_stops_before_its_logs_are_recovered_vouches_for_them_only_if_its_last_life_did(
    was_clean: bool,
) -> None:
    """A log that was not opened is as it was left: after a kill, some of it may be in the kernel's memory alone."""
    async with three() as world:
        first = world.hosts[0]
        await world.create_topic("orders")
        await world.until_ready()
        await (first.stop() if was_clean else first.kill())
        first.start()
        first.speed.slowdown = 1000
        await world.until(lambda: first.node is not None and first.node.why_not_ready() == "recovering its logs")
        await first.stop()
        assert first.marker == (f"broker_epoch {first.epoch}" if was_clean else None)
        first.speed.slowdown = 1


@pytest.mark.parametrize(("lost", "reason"), [
    ("high-watermarks", "high-watermarks is missing"),
    ("used-epoch", "used-epoch is missing"),
])  # fmt: skip
@virtual
async def test_a_directory_that_lost_its_own_files_is_told_of_and_trusted_once_it_has_caught_up(
    lost: str, reason: str
) -> None:
    async with three() as world:
        first = world.hosts[0]
        await world.create_topic("orders")
        await world.append("orders", b"one")
        await world.until_ready()
        await first.stop()
        first.files.remove(f"/data/{lost}")
        first.start()
        told: dict[str, None] = {}

        def is_ready() -> bool:
            if first.node is not None:
                told[first.node.why_not_ready() or ""] = None
            return first.is_ready

        await world.until(is_ready)
        stale = [words for words in told if "/data is stale" in words]
        assert stale
        assert all(
            f"(/data is stale: {reason}, its replicas are not eligible to lead until" in words for words in stale
        )
        await first.stop()
        first.start()
        told.clear()
        await world.until(is_ready)
        assert not any("stale" in words for words in told), "it is as good as any again"


@virtual
async def test_a_record_outlives_its_leader() -> None:
    async with three() as world:
        await world.create_topic("orders")
        assert await world.append("orders", b"one") == 0
        described = await world.describe("n1:9092")
        [leader] = [host for host in world.hosts if host.number == described.topics[0].partitions[0].leader]
        await leader.kill()
        assert await world.append("orders", b"two") == 1
        leader.start()
        await world.until_ready()
        for host in world.hosts:
            await host.kill()
        for host in world.hosts:
            host.start()
        await world.until_ready()
        assert await world.append("orders", b"three") == 2


@virtual
async def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    async with three() as world:
        first = world.hosts[0]
        await first.stop()
        config = first.config
        first.config = replace(config, cluster_id="other")
        await refused(first, "/data belongs to cluster 'test', not 'other'")
        first.config = config_of(2)
        await refused(first, "/data belongs to node 1, not node 2")
        first.config = config
        first.start()
        await world.until_ready()


@virtual
async def test_a_directory_in_use_is_refused_and_its_holder_not_disturbed() -> None:
    async with three() as world:
        first = world.hosts[0]
        second = Host(world, 1, first.config)
        second.files = first.files
        await refused(second, "/data is in use by another process")
        assert first.is_ready


@virtual
async def test_a_store_in_use_is_refused_and_everything_given_back() -> None:
    world = World(config_of(1, controllers={1: "n1:9093"}))
    [host] = world.hosts
    store = host.disk.open(DiskSpeed(Rng(1)), Rng(1))
    await refused(host, "the store of node 1 is in use")
    await store.close()
    host.start()
    await world.until_ready()
    await host.stop()


@pytest.mark.parametrize("port", [9092, 9093])
@virtual
async def test_an_address_in_use_is_refused_and_everything_given_back(port: int) -> None:
    world = World(config_of(1, controllers={1: "n1:9093"}))
    [host] = world.hosts
    other = await world.network.host("n1").serve(f"n1:{port}", {}, _panic)
    await refused(host, f"cannot listen on n1:{port}")
    await other.stop()
    host.start()
    await world.until_ready()
    await host.stop()


@virtual
async def test_a_node_of_another_cluster_is_refused_by_the_controllers() -> None:
    async with three() as world:
        stranger = Host(world, 9, replace(config_of(9, (Role.BROKER,)), cluster_id="other"))
        await refused(stranger, "the cluster refuses this node: ")


@virtual
async def test_a_process_whose_place_was_taken_stops() -> None:
    """Another process with a copy of its directories, which cannot be: but then only one of them may go on."""
    async with three() as world:
        first = world.hosts[0]
        moved = {"listen": "n9:9092", "advertised": "n9:9092", "nodes_listen": "n9:9094", "nodes_advertised": "n9:9094"}
        copy = Host(world, 1, replace(first.config, **moved, roles=(Role.BROKER,)))  # type: ignore[arg-type]
        copy.host = "n9"
        copy.files = first.files
        await first.kill()
        usurped = first.start()
        await world.until_ready()
        first.files.process_crash()  # its locks are gone, and it has not noticed
        copy.start()
        with pytest.raises(NodeRefused, match="the cluster refuses this node"):
            await asyncio.wait_for(asyncio.shield(usurped), 60)
        world.hosts[0] = copy
        await world.until_ready()


@virtual
async def test_a_broken_invariant_comes_out_as_it_is_and_everything_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(config_of(1, controllers={1: "n1:9093"}))
    [host] = world.hosts
    task = host.start()
    await world.until_ready()
    node = host.node
    assert node is not None
    assert node.broker is not None

    def broken() -> None:
        raise AssertionError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(node.broker.membership.session, "_ring", broken)
        with pytest.raises(AssertionError, match="broken"):
            await asyncio.wait_for(task, 60)
    assert host.marker is None
    host.start()
    await world.until_ready()
    await host.stop()


@virtual
async def test_controllers_refuse_what_they_cannot_do_yet_instead_of_failing() -> None:
    world = World(config_of(1))
    [host] = world.hosts
    host.start()
    await world.until(lambda: host.node is not None and host.node.broker is not None)
    await asyncio.sleep(1)
    with pytest.raises(ControllerError, match="no controller could tell"):
        await world.describe("n1:9092")
    await host.kill()


@pytest.mark.parametrize(
    ("directories", "epoch"),
    [
        ([(7, 1)], 7),
        ([(7, 1), (7, 2)], 7),
        ([(None, 1)], None),
        ([(7, 1), (None, 1)], None),
        ([(None, 1), (7, 1)], None),
        ([(7, 1), (6, 1)], None),  # it was away when the other was closed
        ([(7, 1), (None, 0)], 7),  # nothing was there to be left in disorder
        ([(None, 0)], None),
    ],
)
@virtual
async def test_the_last_life_was_clean_if_it_left_every_directory_so(
    directories: list[tuple[int | None, int]], epoch: int | None
) -> None:
    assert await _clean_epoch([Left(*each) for each in directories]) == epoch  # type: ignore[misc]


class Left:
    """A directory with so many partitions, as it was left."""

    def __init__(self, clean_epoch: int | None, partitions: int) -> None:
        self.clean_epoch = clean_epoch
        self._partitions = partitions

    async def partitions(self) -> list[PartitionName]:
        return [PartitionName("orders", number, UUID(int=1)) for number in range(self._partitions)]


# -- disks that failed


def fail_disk(host: Host, path: str) -> None:
    """As one whose sync failed in an earlier life of the node."""
    host.files.create(f"{path}/{FAILED_FILE}").close()


@virtual
async def test_a_broker_does_without_a_directory_that_failed_as_long_as_it_has_another() -> None:
    async with three() as world:
        fourth = Host(world, 4, config_of(4, (Role.BROKER,)))
        fourth.start()
        world.hosts.append(fourth)
        await world.until_ready()
        await fourth.stop()
        fail_disk(fourth, "/data")
        fourth.start()
        await world.until_ready()
        assert fourth.node is not None
        assert fourth.node.broker is not None
        assert len(fourth.node.broker.membership.image.brokers[BrokerId(4)].directories) == 1
        told = {'lograft_disk_failed{directory="/data"} 1', 'lograft_disk_failed{directory="/more"} 0'}
        assert told <= {*await fourth.metrics()}, "the disk is not mended by starting again"
        await fourth.stop()
        fail_disk(fourth, "/more")
        await refused(fourth, "/more could not be synced")
        world.hosts.pop()


@virtual
async def test_a_node_whose_metadata_is_in_a_directory_that_failed_is_refused() -> None:
    async with three() as world:
        first = world.hosts[0]
        await first.stop()
        fail_disk(first, "/data")
        await refused(first, "/data could not be synced")
