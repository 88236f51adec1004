"""No more is read than can be stored and answered: of a stream, of all streams, for a disk that is behind."""

import asyncio

import pytest
from support.log_services import Node, Talk, settle
from support.produce_talk import item, numbers, producing, request
from support.raft_nodes import virtual
from support.served_replicas import FakeReplica, batch

from lograft.broker.produce.produce_service import ProduceLimits, ProduceService
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE
from lograft.runtime.limits.buffer_budget import LARGE_BYTES, BufferBudget
from lograft.storage.log.log_config import LogConfig


async def send_all(talk: Talk[pb.ProduceResponse], requests: list[pb.ProduceRequest]) -> None:
    for each in requests:
        await talk.say(each)


@pytest.mark.parametrize(
    "limits",
    [ProduceLimits(stream_batches=10), ProduceLimits(stream_bytes=10 * len(batch(size=1000)))],
    ids=["batches", "bytes"],
)
def test_a_stream_with_too_much_on_its_way_is_not_read_until_some_is_answered(limits: ProduceLimits) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        orders.is_held = True
        talk = await producing(node, limits)
        await send_all(talk, [request(item(number, batch(size=1000))) for number in range(40)])
        await settle()
        assert len(orders.pending) == 10
        orders.commit(4)
        await settle()
        assert len(orders.pending) == 10
        assert orders.log_end == 14
        orders.is_held = False
        orders.commit()
        heard: list[int] = []
        while len(heard) < 40:
            heard += numbers(await talk.hear())
        assert heard == list(range(40))

    run()


@virtual
async def test_a_client_that_does_not_read_its_answers_is_not_read_from() -> None:
    node = Node()
    orders = node.lead()
    talk = await producing(node, ProduceLimits(stream_batches=2000))
    many = [request(*(item(number, b"") for number in range(1000))) for _ in range(30)]
    sending = asyncio.ensure_future(send_all(talk, many))
    await settle(60)
    assert not sending.done()
    heard = 0
    while heard < 30_000:
        heard += len((await talk.hear()).results)
    await sending
    assert orders.values == []


@virtual
async def test_all_streams_together_have_a_limit_but_none_is_shut_out() -> None:
    node = Node()
    stuck, free = node.lead(0), node.lead(1)
    stuck.is_held = True
    limits = ProduceLimits(total_bytes=5 * len(batch(size=1000)))
    greedy = await producing(node, limits)
    other = Talk((await node.network.host("client").connect("node:1")).open(PRODUCE), pb.ProduceResponse)
    await send_all(greedy, [request(item(number, batch(size=1000))) for number in range(20)])
    await settle()
    assert stuck.log_end == 5
    for number in range(3):
        await other.say(request(item(number, batch("b"), 1)))
        assert numbers(await other.hear()) == [number]
    assert free.log_end == 3
    stuck.is_held = False
    stuck.commit()
    heard: list[int] = []
    while len(heard) < 20:
        heard += numbers(await greedy.hear())
    assert heard == list(range(20))


@virtual
async def test_a_stream_that_waits_for_all_goes_on_when_another_is_answered() -> None:
    node = Node()
    one, other = node.lead(0), node.lead(1)
    one.is_held = other.is_held = True
    first = await producing(node, ProduceLimits(total_bytes=5 * len(batch(size=1000))))
    second = Talk((await node.network.host("client").connect("node:1")).open(PRODUCE), pb.ProduceResponse)
    await send_all(first, [request(item(number, batch(size=1000))) for number in range(4)])
    await settle()
    await send_all(second, [request(item(number, batch(size=1000), 1)) for number in range(3)])
    await settle()
    assert (one.log_end, other.log_end) == (4, 1)
    one.commit()
    await settle(0.02)  # not only with its own next sign of life
    assert other.log_end == 3


@virtual
async def test_what_a_lost_stream_had_on_its_way_no_longer_counts() -> None:
    node = Node()
    node.lead().is_held = True
    service = ProduceService(node.runtime, node.logs)
    stream = (await node.serve(service.handlers())).open(PRODUCE)
    await stream.send(request(item(1, batch("a"))).SerializeToString())
    await settle()
    assert service.total.size_bytes > 0
    stream.reset()
    await settle()
    assert service.total.size_bytes == 0


@virtual
async def test_a_disk_that_is_behind_stops_the_reading() -> None:
    node = Node()
    orders = node.lead()
    orders.has_room.clear()
    talk = await producing(node)
    await send_all(talk, [request(item(number, batch("a"))) for number in range(5)])
    await settle()
    assert orders.log_end == 1
    orders.has_room.set()
    await settle()
    assert orders.log_end == 5


# -- the budget of all clients


@virtual
async def test_nothing_is_received_while_clients_hold_all_there_is_and_goes_on_when_it_is_stored() -> None:
    """Also of streams with nothing on their way: forty with a large message each would be too much together."""
    node = Node()
    orders = node.lead()
    orders.is_held = True
    content = batch(size=400_000)
    budget = BufferBudget(1_000_000, node.runtime.clock)
    service = ProduceService(node.runtime, node.logs, budget=budget)
    connection = await node.serve(service.handlers())
    talks = [Talk(connection.open(PRODUCE), pb.ProduceResponse) for _ in range(6)]
    for talk in talks:
        await talk.say(request(item(1, content)))
    await settle()
    assert len(orders.pending) == 6, "what has come is taken"
    second = [asyncio.ensure_future(talk.say(request(item(2, content)))) for talk in talks]
    await settle(1)
    assert len(orders.pending) == 6, "and nothing else is, before some of it is stored"
    assert budget.bytes.held_bytes > 6 * 400_000
    orders.is_held = False
    orders.commit()
    await asyncio.gather(*second)
    for talk in talks:
        heard: list[int] = []
        while len(heard) < 2:
            heard += numbers(await talk.hear())
        assert heard == [1, 2]
    await settle(1)
    assert budget.bytes.held_bytes == 0


LARGE = LogConfig(max_message_bytes=2 * LARGE_BYTES)


async def two_large(disk_is_held: bool) -> tuple[FakeReplica, FakeReplica]:
    """A large message for each of two partitions, of two streams; the first one's followers take nothing."""
    node = Node()
    slow, other = node.lead(0, LARGE), node.lead(1, LARGE)
    slow.is_held, slow.disk_is_held = True, disk_is_held
    service = ProduceService(node.runtime, node.logs)
    connection = await node.serve(service.handlers())
    first, second = (Talk(connection.open(PRODUCE), pb.ProduceResponse) for _ in range(2))
    content = batch(size=LARGE_BYTES)
    await first.say(request(item(1, content)))
    await settle()
    sending = asyncio.ensure_future(second.say(request(item(2, content, 1))))
    await settle(1)
    if disk_is_held:
        assert other.log_end == 0
        slow.commit()
    assert numbers(await second.hear_until(numbers)) == [2]  # type: ignore[arg-type]
    await sending
    return slow, other


@virtual
async def test_a_large_message_waits_for_no_followers_of_another() -> None:
    slow, other = await two_large(disk_is_held=False)
    assert (len(slow.pending), other.log_end) == (1, 1)


@virtual
async def test_large_messages_are_stored_one_after_the_other() -> None:
    slow, other = await two_large(disk_is_held=True)
    assert (len(slow.pending), other.log_end) == (0, 1)


@virtual
async def test_a_large_message_that_is_refused_gives_its_turn_back() -> None:
    node = Node()
    node.lead(0)  # takes a megabyte
    node.lead(1, LARGE)
    talk = await producing(node)
    for number in range(2):
        await talk.say(request(item(number, batch(size=LARGE_BYTES), number)))
        assert numbers(await talk.hear_until(numbers)) == [number]  # type: ignore[arg-type]


@virtual
async def test_a_stream_that_waits_for_room_says_that_it_lives() -> None:
    """Else its client takes it for dead, and begins another, whose first message is taken whatever there is."""
    node = Node()
    node.lead()
    budget = BufferBudget(1_000_000, node.runtime.clock)
    service = ProduceService(node.runtime, node.logs, budget=budget)
    connection = await node.serve(service.handlers())
    talk = Talk(connection.open(PRODUCE), pb.ProduceResponse)
    others = budget.bytes.open("others")
    held = budget.bytes.charge(others, 1_000_000)
    await talk.say(request(item(1, batch("a"))))
    assert numbers(await talk.hear()) == [1]
    second = asyncio.ensure_future(talk.say(request(item(2, batch("a")))))
    for _ in range(5):
        async with asyncio.timeout(1):
            assert numbers(await talk.hear()) == []
    budget.bytes.release(held)
    assert numbers(await talk.hear_until(numbers)) == [2]  # type: ignore[arg-type]
    await second


@virtual
async def test_answers_that_nobody_reads_hold_nothing() -> None:
    """A batch that is stored is in the log: the memory of its message is free, whether its answer is read or not."""
    node = Node()
    node.lead()
    budget = BufferBudget(100_000_000, node.runtime.clock)
    connection = await node.serve(ProduceService(node.runtime, node.logs, budget=budget).handlers())
    stream = connection.open(PRODUCE)
    for number in range(5):
        await stream.send(request(item(number, batch(size=200_000))).SerializeToString())
    await settle(1)
    assert budget.bytes.counts.peak_bytes > 200_000
    assert budget.bytes.held_bytes == 0
    stream.reset()
    await settle()
    assert budget.bytes.accounts == {}
