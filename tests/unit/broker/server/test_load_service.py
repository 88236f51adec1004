"""What a broker says that it has had to do."""

import asyncio

from support.log_services import ORDERS, Node, Talk
from support.metadata_images import ids
from support.raft_nodes import virtual
from support.served_replicas import batch
from support.virtual_log import ROOT, Machine

from lograft.broker.fetch.fetch_service import FetchService
from lograft.broker.produce.produce_service import ProduceService
from lograft.broker.requests.call_stats import ServerStats, counted
from lograft.broker.server.load_service import LoadService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DESCRIBE_LOAD, FETCH, PRODUCE
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.unary import exchange
from lograft.runtime.network import Connection
from lograft.runtime.rng import Rng
from lograft.runtime.tasks.loop_lag import LoopLag
from lograft.runtime.world import Runtime
from lograft.storage.log.data_directory import open_directory

FOLLOWS = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads")


async def serve(node: Node, lag: LoopLag | None = None) -> Connection:
    stats = ServerStats()
    load = LoadService(node.runtime.clock, ids(1)[0], lambda: node.image, node.replicas, stats, lag)
    handlers = {
        **load.handlers(),
        **ProduceService(node.runtime, node.logs, stats=stats).handlers(),
        **FetchService(node.runtime, node.logs, stats=stats).handlers(),
    }
    return await node.serve(counted(handlers, stats, node.runtime.clock))


async def ask(connection: Connection, **fields: object) -> pb.DescribeLoadResponse:
    request = pb.DescribeLoadRequest(**fields)  # type: ignore[arg-type]
    return pb.DescribeLoadResponse.FromString(await exchange(connection, DESCRIBE_LOAD, request.SerializeToString()))


@virtual
async def test_partitions_with_traffic_are_told_of_with_their_names() -> None:
    node = Node()
    led, followed, _ = node.lead(0), node.lead(1), node.lead(2)
    led.traffic.took_in(100, 3)
    led.traffic.gave_out(50, 2)
    followed.refusal = FOLLOWS
    followed.traffic.replicated_bytes_in += 7
    load = await ask(await serve(node))
    assert (load.broker_id, load.bytes_in, load.records_in, load.bytes_out, load.records_out) == (1, 100, 3, 50, 2)
    assert load.replicated_bytes_in == 7
    first, second = load.partitions
    assert first == pb.DescribeLoadResponse.Partition(
        topic="orders", topic_id=ORDERS, partition=0, is_leader=True,
        bytes_in=100, records_in=3, bytes_out=50, records_out=2,
    )  # fmt: skip
    assert (second.partition, second.is_leader, second.replicated_bytes_in) == (1, False, 7)


@virtual
async def test_totals_are_of_all_though_partitions_are_chosen_or_left_out() -> None:
    node = Node()
    node.lead().traffic.took_in(100, 3)
    connection = await serve(node)
    for fields in ({"topics": ["others"]}, {"omit_partitions": True}):
        load = await ask(connection, **fields)
        assert load.bytes_in == 100
        assert not load.partitions
    assert (await ask(connection, topics=["orders"])).partitions


@virtual
async def test_time_passes_from_the_start() -> None:
    connection = await serve(Node())
    first = await ask(connection)
    await asyncio.sleep(5)
    second = await ask(connection)
    assert second.at_ms - first.at_ms == second.uptime_ms - first.uptime_ms >= 5000
    assert first.uptime_ms < 1000


@virtual
async def test_lag_is_told_if_it_is_measured() -> None:
    node = Node()
    assert not (await ask(await serve(node))).HasField("event_loop_lag_ms")
    node = Node()
    assert (await ask(await serve(node, LoopLag(node.runtime.clock)))).event_loop_lag_ms == 0


@virtual
async def test_calls_and_messages_on_streams_count_as_requests() -> None:
    node = Node()
    node.lead()
    connection = await serve(node)
    before = await ask(connection)
    talk = Talk(connection.open(PRODUCE), pb.ProduceResponse)
    item = pb.ProduceRequest.Item(number=1, topic_id=ORDERS, batch=batch("a"))
    for _ in range(2):
        await talk.say(pb.ProduceRequest(items=[item]))
        await talk.hear()
    after = await ask(connection)
    assert after.requests - before.requests == 3
    assert (before.open_streams, after.open_streams) == (1, 2)
    assert (before.errors, after.errors) == (0, 0)


@virtual
async def test_errors_on_streams_count_each() -> None:
    node = Node()
    node.lead().refusal = FOLLOWS
    connection = await serve(node)
    producing, fetching = (
        Talk(connection.open(PRODUCE), pb.ProduceResponse),
        Talk(connection.open(FETCH), pb.FetchResponse),
    )
    items = [pb.ProduceRequest.Item(number=number, topic_id=ORDERS, batch=batch("a")) for number in range(2)]
    await producing.say(pb.ProduceRequest(items=items))
    await producing.hear()
    await fetching.say(pb.FetchRequest(add=[pb.FetchRequest.Add(handle=1, topic_id=ORDERS)]))
    await fetching.hear()
    assert (await ask(connection)).errors == 3


@virtual
async def test_what_a_reader_was_sent_counts_as_going_out() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a", "b"))
    connection = await serve(node)
    fetching = Talk(connection.open(FETCH), pb.FetchResponse)
    await fetching.say(pb.FetchRequest(add=[pb.FetchRequest.Add(handle=1, topic_id=ORDERS)], credit_bytes=1000))
    await fetching.hear_until(lambda response: any(each.batches for each in response.data))
    load = await ask(connection)
    assert (load.bytes_out, load.records_out) == (len(batch("a", "b")), 2)


@virtual
async def test_others_have_their_turn_while_many_partitions_are_told_of() -> None:
    node = Node()
    for number in range(5000):
        node.lead(number).traffic.took_in(1, 1)
    load = LoadService(node.runtime.clock, ids(1)[0], lambda: node.image, node.replicas, ServerStats(), None)
    describing = asyncio.ensure_future(load._describe(pb.DescribeLoadRequest()))
    turns = 0
    while not describing.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(describing.result().partitions) == 5000
    assert turns > 10


@virtual
async def test_it_says_what_is_left_on_each_disk() -> None:
    machine = Machine()
    runtime = Runtime(machine.clock, Rng(1), machine.files, None, machine.blocking, machine.workers)  # type: ignore[arg-type]
    directory = await open_directory(runtime, f"{ROOT}/d")
    machine.files.size_bytes = 1_000_000
    machine.files.set_capacity(machine.files.used_bytes() + 40_000)
    await directory.reserve(None)
    node = Node()
    load = LoadService(
        node.runtime.clock, ids(1)[0], lambda: node.image, node.replicas, ServerStats(), None, [directory]
    )
    (disk,) = (await load._describe(pb.DescribeLoadRequest())).disks
    assert (disk.directory_id, disk.path) == (directory.identity.bytes, f"{ROOT}/d")
    assert (disk.free_bytes, disk.total_bytes, disk.reserve_bytes, disk.is_full) == (40_000, 1_000_000, 50_000, True)
