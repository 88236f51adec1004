"""A reader's stream: how it ends, what is left then, and what is said while there is nothing to say."""

import asyncio
from typing import Any

import pytest
from support.fetch_talk import PLENTY, Fetching, add, fetching
from support.log_services import Node, Talk, detail_in, settle
from support.raft_nodes import virtual
from support.served_replicas import FakeReplica, batch

from lograft.broker.fetch.fetch_service import FetchLimits, FetchService
from lograft.broker.fetch.outbox import FetchOutbox
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import FETCH
from lograft.runtime.limits.buffer_budget import BufferBudget
from lograft.storage.log.log_reader import Batches


@virtual
async def test_a_message_that_cannot_be_read_ends_the_stream_and_not_the_node() -> None:
    node = Node()
    orders = node.lead()
    talk = await fetching(node)
    await talk.ask(add(1))
    await talk.take()
    await talk.stream.send(b"\xff\xff\xff")
    assert detail_in(await talk.fails()).code == errors_pb2.INVALID_REQUEST
    assert (node.panics, orders.waiters) == ([], {})


@pytest.mark.parametrize(
    "fields",
    [
        {"add": [pb.FetchRequest.Add(handle=1)] * 10_001},
        {"remove": [1] * 10_001},
        {"seek": [pb.FetchRequest.Seek(handle=1)] * 10_001},
    ],
)
def test_a_message_about_too_many_partitions_ends_the_stream(fields: dict[str, Any]) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        talk = await fetching(node)
        await talk.say(pb.FetchRequest(**fields))
        error = detail_in(await talk.fails())
        assert error.code == errors_pb2.INVALID_REQUEST
        assert "10001 partitions are too many" in error.message
        assert not node.panics

    run()


@virtual
async def test_something_is_said_every_half_second() -> None:
    node = Node()
    node.lead()
    talk = await fetching(node)
    await talk.ask(add(1))
    await talk.take()

    async def chatter() -> None:
        while True:
            await talk.ask(remove=[9])  # wakes the broker, which has nothing to say to it
            await settle(0.2)

    chatting = asyncio.ensure_future(chatter())
    loop = asyncio.get_running_loop()
    last = loop.time()
    for _ in range(20):
        assert not (await talk.hear()).data
        assert 0.3 < loop.time() - last < 0.7
        last = loop.time()
    chatting.cancel()


@virtual
async def test_nothing_is_left_behind_when_the_client_goes() -> None:
    node = Node()
    orders = node.lead()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=1)
    await talk.take()
    assert len(orders.waiters) == 1
    await talk.stream.half_close()
    while await talk.stream.receive() is not None:
        pass
    assert orders.waiters == {}
    other = Fetching((await node.network.host("client").connect("node:1")).open(FETCH))
    await other.ask(add(1), credit_bytes=1)
    await other.take()
    assert len(orders.waiters) == 1
    other.stream.reset()
    await settle()
    assert (orders.waiters, node.panics) == ({}, [])


@virtual
async def test_a_client_that_wants_no_more_in_the_middle_of_a_backlog_is_left_in_peace() -> None:
    node = Node()
    node.lead().append(*(batch(size=100_000) for _ in range(100)))
    talk = await fetching(node, FetchLimits(message_bytes=200_000, partition_bytes=200_000))
    await talk.ask(add(1), credit_bytes=PLENTY)
    await talk.until(1, 1)
    await talk.stream.half_close()
    while await talk.stream.receive() is not None:  # ends well, soon
        await settle(0.01)
    assert node.panics == []


@virtual
async def test_a_client_that_reads_no_answers_is_not_listened_to() -> None:
    node = Node()
    node.lead()
    talk = await fetching(node, FetchLimits(unsent_bytes=10_000))

    async def ask_much() -> None:
        for _ in range(100):
            await talk.ask(*(add(handle, topic_id=b"") for handle in range(1000)))

    asking = asyncio.ensure_future(ask_much())
    await settle(60)
    assert not asking.done()
    heard = 0
    while heard < 100_000:
        heard += len(await talk.take())
    await asking


def test_a_batch_of_any_size_goes_alone_and_nothing_changes_its_place() -> None:
    async def run() -> list[pb.FetchResponse]:
        replica, outbox = FakeReplica(), FetchOutbox()
        for handle, size in enumerate((10, 3 * 2**20, 2**20, 5 * 2**20, 10)):
            content = bytes(size)
            outbox.add_data(handle, 0, replica, Batches([content[:7], memoryview(content)[7:]], handle))
        outbox.add_error(9, 0, errors_pb2.ErrorDetail(message="no"))
        messages = list(outbox.take())
        assert (outbox.size_bytes, list(outbox.take())) == (0, [])
        return [pb.FetchResponse.FromString(message) for message in messages]

    responses = asyncio.run(run())
    assert [[data.handle for data in response.data] for response in responses] == [[0, 1], [2], [3], [4, 9]]
    assert len(responses[2].data[0].batches) == 5 * 2**20
    assert responses[3].data[1].error.message == "no"


# -- when there is no memory to spare


@virtual
async def test_who_waits_for_memory_hears_answers_and_signs_of_life_and_goes_on_when_there_is_some() -> None:
    node = Node()
    orders = node.lead()
    orders.append(*(batch(bytes(1000)) for _ in range(100)))
    budget = BufferBudget(1024 * 1024, node.runtime.clock)
    account = budget.bytes.open("another client")
    claim = budget.bytes.charge(account, 4 * 1024 * 1024)
    service = FetchService(node.runtime, node.logs, budget=budget)
    talk = Talk((await node.serve(service.handlers())).open(FETCH), pb.FetchResponse)
    await talk.say(pb.FetchRequest(add=[add(1)], credit_bytes=10**6))
    told = await talk.hear()
    assert [(each.handle, each.batches, each.high_watermark) for each in told.data] == [(1, b"", 100)]
    await talk.silence(3)
    await talk.say(pb.FetchRequest(add=[add(2, partition=7)]))
    assert (await talk.hear_until(lambda response: len(response.data) > 0)).data[0].HasField("error")
    assert len(budget.bytes.waiting) == 1
    budget.bytes.release(claim)
    got = await talk.hear_until(lambda response: len(response.data) > 0)
    assert got.data[0].next_offset == 100
    talk.stream.reset()
    await settle()
    assert (budget.bytes.held_bytes, budget.bytes.waiting) == (0, {})
