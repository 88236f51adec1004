"""A controller as a whole: how it begins and ends, in every state, and what becomes of it when others come and go."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from support.controller_nodes import CLUSTER_ID, ControllerHost, ControllerNodes, controllers
from support.fake_controllers import until
from support.metadata_images import ids, topic_id
from support.raft_nodes import make_runtime, virtual

from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.raft_store import MemoryDisk
from lograft.chaos.world.workers import DiskSpeed
from lograft.metadata.controller_node import ControllerNode, ControllerSettings
from lograft.metadata.image.broker import BrokerState
from lograft.proto import errors_pb2
from lograft.proto.admin_pb2 import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from lograft.proto.cluster_pb2 import ClusterDescription, DescribeRequest, WatchRequest
from lograft.proto.controller_pb2 import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    FollowRequest,
    MetadataIndexRequest,
    MetadataIndexResponse,
)
from lograft.proto.methods import (
    ALLOCATE_PRODUCER_IDS,
    BROKER_HEARTBEAT,
    CREATE_TOPICS,
    DESCRIBE_CLUSTER,
    FOLLOW,
    READ_INDEX,
    WATCH_CLUSTER,
)
from lograft.raft.bootstrap.bootstrapper import Bootstrapper
from lograft.raft.driver.snapshots import SnapshotPolicy
from lograft.raft.store.errors import StoreFailed
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_controller_error
from lograft.rpc.unary import call
from lograft.runtime.network import Status, Stream, StreamError
from lograft.runtime.rng import Rng

ONE, TWO, THREE = ids(1, 2, 3)


def tasks_of_nodes() -> list[str]:
    """What still runs that belongs to no test."""
    return [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def create(cluster: ControllerNodes, number: int, **fields: Any) -> None:
    """Topic `number`, by way of the active controller."""
    topic = NewTopic(name=f"topic-{number}", topic_id=topic_id(number).bytes, **fields)
    address = (await cluster.active()).address
    response = await cluster.ask(address, CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    assert not response.results[0].HasField("error"), response


# -- the first start


@virtual
async def test_three_controllers_that_start_together_form_a_cluster() -> None:
    async with controllers() as cluster:
        await cluster.until_all(lambda node: node.machine.image.feature_level == 1)
        assert sum(host.is_active for host in cluster.hosts.values()) == 1
        for host in cluster.hosts.values():
            assert host.node.waiting_reason is None
            assert host.node.raft is not None
            assert len(host.node.raft.status().configuration.voters) == 3


@virtual
async def test_a_single_controller_is_a_cluster_of_its_own() -> None:
    async with controllers(1) as cluster:
        await cluster.ready_broker(1)
        await create(cluster, 1)


@virtual
async def test_a_first_start_says_whom_it_waits_for_and_goes_on_when_that_one_comes() -> None:
    cluster = ControllerNodes()
    for node_id in (1, 2):
        await cluster[node_id].start()
    await asyncio.sleep(30)
    for node_id in (1, 2):
        assert cluster[node_id].node.raft is None
        reason = cluster[node_id].node.waiting_reason
        assert reason is not None
        assert reason.startswith("waiting for controller 3@c3:9093 (refused)")
    await cluster[3].start()
    await cluster.active()
    assert [host.node.waiting_reason for host in cluster.hosts.values()] == [None] * 3
    await cluster.end()


@virtual
async def test_while_it_waits_it_answers_all_who_ask_and_promises_nothing() -> None:
    cluster = ControllerNodes()
    await cluster[1].start()
    await asyncio.sleep(1)
    connection = await cluster.connect(cluster[1].address)
    stream = connection.open(BROKER_HEARTBEAT)
    heartbeat = BrokerHeartbeatRequest(cluster_id=CLUSTER_ID, broker_id=1, broker_epoch=1)
    await stream.send(heartbeat.SerializeToString())
    data = await stream.receive()
    assert data is not None
    assert BrokerHeartbeatResponse.FromString(data) == BrokerHeartbeatResponse()
    for method, request, response in (
        (READ_INDEX, MetadataIndexRequest(), MetadataIndexResponse),
        (DESCRIBE_CLUSTER, DescribeRequest(), ClusterDescription),
    ):
        error = await cluster.refused(cluster[1].address, method, request, response)
        assert (error.code, error.retriable) == (errors_pb2.UNAVAILABLE, True)
    await cluster.end()


# -- the end, in every state


async def _before_it_runs(cluster: ControllerNodes) -> None:
    await cluster[1].start(run=False)


async def _while_it_waits_for_others(cluster: ControllerNodes) -> None:
    await cluster[1].start()
    await asyncio.sleep(2)
    assert cluster[1].node.raft is None


async def _at_its_first_step(cluster: ControllerNodes) -> None:
    await cluster[1].start()


async def _as_the_active_one(cluster: ControllerNodes) -> None:
    for host in cluster.hosts.values():
        await host.start()
    await _have_active(cluster, 1)


async def _as_a_standby(cluster: ControllerNodes) -> None:
    for host in cluster.hosts.values():
        await host.start()
    await _have_active(cluster, 2)


async def _without_a_majority(cluster: ControllerNodes) -> None:
    await _as_the_active_one(cluster)
    for node_id in (2, 3):
        await cluster[node_id].kill()
    await until(lambda: not cluster[1].is_active)


async def _have_active(cluster: ControllerNodes, node_id: int) -> None:
    active = await cluster.active()
    assert active.node.raft is not None
    await active.node.raft.transfer_leadership(node_id)
    await until(lambda: cluster[node_id].is_active)


STATES: list[Callable[[ControllerNodes], Awaitable[None]]] = [
    _before_it_runs, _at_its_first_step, _while_it_waits_for_others, _as_the_active_one, _as_a_standby,
    _without_a_majority,
]  # fmt: skip
STATE_NAMES = [state.__name__.strip("_") for state in STATES]


async def end_all(cluster: ControllerNodes, first: ControllerHost) -> None:
    await first.server.stop()
    first.maybe_node = first.running = None
    await cluster.end()
    await asyncio.sleep(0.1)
    assert tasks_of_nodes() == []


@pytest.mark.parametrize("times", [1, 2], ids=["closed once", "closed twice"])
@pytest.mark.parametrize("state", STATES, ids=STATE_NAMES)
def test_a_controller_that_is_closed_ends_gives_its_store_back_and_leaves_nothing_running(
    state: Callable[[ControllerNodes], Awaitable[None]], times: int
) -> None:
    @virtual
    async def scenario() -> None:
        cluster = ControllerNodes()
        await state(cluster)
        host = cluster[1]
        for _ in range(times):
            await host.node.close()
        async with asyncio.timeout(5):
            await (host.running or host.node.run())
        assert host.disk.owner is None, "the store is not closed"
        await host.node.close()
        await end_all(cluster, host)

    scenario()


@pytest.mark.parametrize("state", STATES[1:], ids=STATE_NAMES[1:])
def test_a_controller_that_is_cancelled_gives_its_store_back_and_leaves_nothing_running(
    state: Callable[[ControllerNodes], Awaitable[None]],
) -> None:
    @virtual
    async def scenario() -> None:
        cluster = ControllerNodes()
        await state(cluster)
        host = cluster[1]
        assert host.running is not None
        await asyncio.sleep(0)
        host.running.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait([host.running])
        assert host.running.cancelled()
        assert host.disk.owner is None, "the store is not closed"
        await end_all(cluster, host)

    scenario()


@pytest.mark.parametrize("way", ["close", "cancel"])
def test_whenever_in_its_beginning_it_is_to_end_it_does(way: str) -> None:
    @virtual
    async def scenario() -> None:
        stages = []
        for delay_ms in range(0, 900, 10):
            cluster = ControllerNodes(1, seed=delay_ms)
            host = cluster[1]
            await host.start()
            assert host.running is not None
            await asyncio.sleep(delay_ms / 1000)
            stages.append("active" if host.is_active else "taking part" if host.node.raft is not None else "waiting")
            if way == "close":
                await host.node.close()
            else:
                host.running.cancel()
            async with asyncio.timeout(1):
                await asyncio.wait([host.running])
            assert host.disk.owner is None, f"the store is not closed after {delay_ms} ms"
            await end_all(cluster, host)
        assert list(dict.fromkeys(stages)) == ["waiting", "taking part", "active"]

    scenario()


def test_who_is_cancelled_before_its_raft_node_has_begun_gives_its_store_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that were made but have not begun are not asked to clean up."""

    @virtual
    async def scenario() -> None:
        cluster = ControllerNodes(1)
        host = cluster[1]

        def cancel(*_: object) -> None:
            assert host.running is not None
            host.running.cancel()

        monkeypatch.setattr(Bootstrapper, "follow", cancel)
        await host.start()
        assert host.running is not None
        await asyncio.wait([host.running])
        assert host.disk.owner is None
        await end_all(cluster, host)

    scenario()


@virtual
async def test_what_waits_for_the_quorum_is_answered_when_the_controller_closes() -> None:
    async with controllers() as cluster:
        broker = await cluster.ready_broker(1)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.membership.broker_epoch)
        active = await cluster.active()
        for standby in await cluster.standbys():
            cluster.network.cut(standby.name, active.name)
        connection = await cluster.connect(active.address)
        change = asyncio.ensure_future(call(connection, ALLOCATE_PRODUCER_IDS, request, AllocateProducerIdsResponse))
        read = asyncio.ensure_future(call(connection, READ_INDEX, MetadataIndexRequest(), MetadataIndexResponse))
        await asyncio.sleep(0.1)
        assert not change.done()
        assert not read.done()
        await active.node.close()
        await asyncio.sleep(0.05)
        outcomes = [change.exception(), read.exception()]
        assert [error.code for error in outcomes if isinstance(error, ControllerError)] == [
            errors_pb2.CONTROLLER_MOVED, errors_pb2.UNAVAILABLE,
        ]  # fmt: skip
        assert active.running is not None
        await active.running
        refused = await cluster.refused(active.address, ALLOCATE_PRODUCER_IDS, request, AllocateProducerIdsResponse)
        assert refused.code == errors_pb2.NOT_CONTROLLER


@virtual
async def test_what_is_committed_to_the_last_is_answered_as_done() -> None:
    """Of changes that are made while the controller closes, none is said to be unknown that was carried out in time."""
    unknown = 0
    for delay_ms in range(12):
        async with controllers(1, seed=delay_ms) as cluster:
            broker = await cluster.ready_broker(1)
            request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.membership.broker_epoch)
            connection = await cluster.connect(cluster[1].address)
            before = cluster[1].node.machine.image.next_producer_id
            change = asyncio.ensure_future(
                call(connection, ALLOCATE_PRODUCER_IDS, request, AllocateProducerIdsResponse)
            )
            await asyncio.sleep(delay_ms / 4000)
            node = cluster[1].node
            await node.close()
            await asyncio.wait([change])
            was_applied = node.machine.image.next_producer_id != before
            error = change.exception()
            assert (error is None) == was_applied, f"applied: {was_applied}, told: {error}"
            unknown += isinstance(error, ControllerError) and error.outcome_unknown
    assert unknown, "no change was under way when the controller closed"


@pytest.mark.parametrize("moment", ["waiting", "active"])
def test_a_store_that_fails_ends_the_controller_with_that_error(moment: str) -> None:
    @virtual
    async def scenario() -> None:
        cluster = ControllerNodes()
        await cluster[1].start()
        await cluster[2].start()
        if moment == "waiting":
            failing = cluster[1]
            failing.store.fail("broken")
            await cluster[3].start()
        else:
            await cluster[3].start()
            failing = await cluster.active()
            failing.store.fail("broken")
            # Its registration is the first thing that is to be written then; another controller takes it in the end.
            await cluster.ready_broker(1)
        assert failing.running is not None
        async with asyncio.timeout(30):
            await asyncio.wait([failing.running])
        assert isinstance(failing.running.exception(), StoreFailed)
        assert failing.disk.owner is None
        assert not failing.is_active
        # Its server is still there, as it is for the moment until the process ends: it answers, and decides nothing.
        request = AllocateProducerIdsRequest()
        error = await cluster.refused(failing.address, ALLOCATE_PRODUCER_IDS, request, AllocateProducerIdsResponse)
        assert error.code == errors_pb2.NOT_CONTROLLER
        await end_all(cluster, failing)

    scenario()


@virtual
async def test_a_controller_that_was_closed_starts_again_where_it_was() -> None:
    async with controllers() as cluster:
        await cluster.ready_broker(1)
        await create(cluster, 1)
        for host in cluster.hosts.values():
            await host.stop()
        for host in cluster.hosts.values():
            await host.start()
        active = await cluster.active()
        assert list(active.node.machine.image.topics) == [topic_id(1)]


# -- leaders come and go


@virtual
async def test_when_the_active_controller_is_killed_another_takes_over_and_brokers_stay() -> None:
    async with controllers() as cluster:
        brokers = [await cluster.ready_broker(each) for each in (1, 2, 3)]
        await create(cluster, 1, partitions=3, replication_factor=3)
        active = await cluster.active()
        before = active.node.machine.image.topics[topic_id(1)].partitions
        await active.kill()
        began_ms = cluster.now_ms
        successor = await cluster.active()
        assert cluster.now_ms - began_ms < 1000
        await asyncio.sleep(10)
        image = successor.node.machine.image
        assert [broker.state for broker in image.brokers.values()] == [BrokerState.ACTIVE] * 3
        assert image.topics[topic_id(1)].partitions == before, "something happened to the partitions"
        assert [broker.state for broker in brokers] == [BrokerState.ACTIVE] * 3
        assert {broker.membership.client.active_id for broker in brokers} == {successor.node_id}


@virtual
async def test_a_successor_needs_no_replay_and_gives_each_broker_a_full_session() -> None:
    async with controllers() as cluster:
        silent, broken, living = [await cluster.ready_broker(each) for each in (1, 2, 3)]
        active, (one, other) = await cluster.active(), await cluster.standbys()
        applied = {host.node_id: host.node.machine.index for host in (one, other)}
        silent.pause()
        await asyncio.sleep(2.5)  # its session is almost over
        await active.kill()
        await broken.kill()
        successor = await cluster.active()
        began_ms = cluster.now_ms
        assert successor.node.machine.index >= applied[successor.node_id] > 0

        def state(broker_id: int) -> BrokerState:
            return successor.node.machine.image.brokers[ids(broker_id)[0]].state

        await until(lambda: state(2) is BrokerState.FENCED)
        assert cluster.now_ms - began_ms < 600, "its stream to the successor broke: the grace is enough"
        assert state(1) is BrokerState.ACTIVE
        await until(lambda: state(1) is BrokerState.FENCED)
        assert 2700 <= cluster.now_ms - began_ms <= 3200, "a full session from the new controller's first moment"
        assert state(3) is living.state is BrokerState.ACTIVE


@virtual
async def test_a_killed_broker_loses_its_partitions_within_a_second() -> None:
    async with controllers() as cluster:
        brokers = {each: await cluster.ready_broker(each) for each in (1, 2, 3)}
        await create(cluster, 1, replication_factor=3)
        image = (await cluster.active()).node.machine.image
        leader = image.topics[topic_id(1)].partitions[0].leader
        assert leader is not None
        began_ms = cluster.now_ms
        await brokers[leader].kill()
        await until(lambda: image.topics[topic_id(1)].partitions[0].leader not in (leader, None))
        assert cluster.now_ms - began_ms < 1000


@virtual
async def test_a_controller_that_was_away_for_long_catches_up_by_a_snapshot_and_can_take_over() -> None:
    settings = ControllerSettings(snapshots=SnapshotPolicy(entries=20, kept_entries=5))
    async with controllers(settings=settings) as cluster:
        await cluster.ready_broker(1)
        away = (await cluster.standbys())[0]
        await away.kill()
        for number in range(1, 60):
            await create(cluster, number)
        await away.start()
        active = await cluster.active()
        await cluster.until_all(lambda node: len(node.machine.image.topics) == 59)
        assert away.node.raft is not None
        assert away.node.raft.status().snapshot_index > 20, "it had to replay the log"
        assert active.node.raft is not None
        await active.node.raft.transfer_leadership(away.node_id)
        await until(lambda: away.is_active)
        await create(cluster, 60)


@virtual
async def test_a_broker_finds_a_controller_that_only_the_controllers_list() -> None:
    cluster = ControllerNodes()
    cluster.broker_addresses = {1: cluster.addresses[1]}
    for host in cluster.hosts.values():
        await host.start()
    await _have_active(cluster, 3)
    broker = await cluster.ready_broker(1)
    assert broker.membership.client.active_id == 3
    await cluster.end()


@virtual
async def test_the_time_that_a_session_lasts_is_a_setting() -> None:
    settings = ControllerSettings()
    settings = replace(settings, sessions=replace(settings.sessions, session_ms=10_000))
    async with controllers(settings=settings) as cluster:
        broker = await cluster.ready_broker(1)
        broker.pause()
        await asyncio.sleep(8)
        image = (await cluster.active()).node.machine.image
        assert image.brokers[ONE].state is BrokerState.ACTIVE
        await asyncio.sleep(2.5)
        assert image.brokers[ONE].state is BrokerState.FENCED


# -- bytes from anyone


def methods_of_a_controller() -> list[str]:
    async def make() -> list[str]:
        runtime = make_runtime(1, VirtualNetwork(Rng(1)), "c1")
        store = MemoryDisk(CLUSTER_ID, 1, Rng(2)).open(DiskSpeed(Rng(3)), Rng(4))
        return list(ControllerNode(runtime, store, await store.load(), {1: "c1:1"}).handlers())

    found: list[str] = []

    @virtual
    async def fill() -> None:
        found.extend(await make())

    fill()
    return found


async def outcome(stream: Stream) -> bytes | StreamError | None:
    """What comes next, within a while."""
    try:
        async with asyncio.timeout(5):
            return await stream.receive()
    except StreamError as error:
        return error


GARBAGE = [b"\xff\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05ab", b"\x08" + b"\xff" * 11]


@pytest.mark.parametrize("method", methods_of_a_controller())
def test_bytes_that_are_no_request_are_refused_and_harm_nobody(method: str) -> None:
    @virtual
    async def scenario() -> None:
        async with controllers() as cluster:
            for host in cluster.hosts.values():
                for garbage in GARBAGE:
                    stream = (await cluster.connect(host.address)).open(method)
                    await stream.send(garbage)
                    await stream.half_close()
                    with pytest.raises(StreamError) as caught:
                        async with asyncio.timeout(5):
                            await stream.receive()
                    assert caught.value.status is Status.INVALID_ARGUMENT
            assert not [panic for host in cluster.hosts.values() for panic in host.panics]
            assert all(host.running is not None and not host.running.done() for host in cluster.hosts.values())
            await cluster.ready_broker(1)

    scenario()


@pytest.mark.parametrize("method", methods_of_a_controller())
def test_a_stream_without_a_request_harms_nobody(method: str) -> None:
    @virtual
    async def scenario() -> None:
        async with controllers() as cluster:
            for host in cluster.hosts.values():
                stream = (await cluster.connect(host.address)).open(method)
                await stream.half_close()
                answer = await outcome(stream)
                if isinstance(answer, StreamError):
                    assert answer.status in (Status.INVALID_ARGUMENT, Status.CANCELLED)
                else:
                    assert answer is None
                stream = (await cluster.connect(host.address)).open(method)
                stream.reset()
            await asyncio.sleep(0.1)

    scenario()


@pytest.mark.parametrize("method", methods_of_a_controller())
def test_empty_requests_get_an_answer_or_a_refusal(method: str) -> None:
    """An empty message is one of any type, with nothing in it."""

    @virtual
    async def scenario() -> None:
        async with controllers() as cluster:
            await asyncio.sleep(1)
            stream = (await cluster.connect((await cluster.active()).address)).open(method)
            await stream.send(b"")
            await stream.half_close()
            answer = await outcome(stream)
            if isinstance(answer, StreamError):
                assert to_controller_error(answer).code not in (errors_pb2.INTERNAL, errors_pb2.TIMED_OUT)
            else:
                assert answer is not None

    scenario()


@virtual
async def test_streams_that_last_are_never_silent_for_long() -> None:
    """Every 500 ms; heartbeats are answered as they come."""
    async with controllers() as cluster:
        await cluster.ready_broker(1)
        requests = {
            FOLLOW: FollowRequest(cluster_id=CLUSTER_ID, node_id=9, from_index=0),
            WATCH_CLUSTER: WatchRequest(),
        }
        for host in cluster.hosts.values():
            for method, request in requests.items():
                stream = (await cluster.connect(host.address)).open(method)
                await stream.send(request.SerializeToString())
                await stream.half_close()
                for _ in range(20):
                    began_ms = cluster.now_ms
                    assert await stream.receive() is not None
                    assert cluster.now_ms - began_ms <= 550, f"{method} was silent"
                stream.reset()
