"""All batches of a range of offsets."""

from typing import Any

import pytest
from support.log_services import ORDERS, Node, Talk, detail_in, settle
from support.raft_nodes import virtual
from support.served_replicas import FakeReplica, batch, values_of

from lograft.broker.fetch.range_service import RangeService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.proto.methods import READ_RANGE
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.limits.buffer_budget import BufferBudget


async def reading(node: Node, **request: Any) -> Talk[pb.ReadRangeResponse]:
    stream = (await node.serve(RangeService(node.runtime.clock, node.logs).handlers())).open(READ_RANGE)
    await stream.send(pb.ReadRangeRequest(**{"topic_id": ORDERS, **request}).SerializeToString())
    await stream.half_close()
    return Talk(stream, pb.ReadRangeResponse)


async def read(node: Node, **request: Any) -> list[pb.ReadRangeResponse]:
    """All answers, of a range that is read to its end."""
    talk = await reading(node, **request)
    answers = [await talk.hear()]
    while not answers[-1].is_last:
        answers.append(await talk.hear())
    await talk.ends()
    return answers


async def refusal(node: Node, **request: Any) -> ErrorDetail:
    return detail_in(await (await reading(node, **request)).fails())


def filled(node: Node, count: int = 10, size: int = 1000) -> FakeReplica:
    """Partition 0, with batches of two records."""
    orders = node.lead()
    orders.append(*(batch(bytes(size), bytes(size)) for _ in range(count)))
    return orders


@pytest.mark.parametrize("max_message_bytes", [0, 1, 5000])
def test_the_whole_range_is_read_without_gaps(max_message_bytes: int) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        expected = [str(number).encode() for number in range(100)]
        orders.append(*(batch(*expected[at : at + 2]) for at in range(0, 100, 2)))
        answers = await read(node, start=4, end=96, max_message_bytes=max_message_bytes)
        assert values_of(b"".join(answer.batches for answer in answers)) == expected[4:96]
        assert [answer.start_offset for answer in answers] == [4, *(answer.next_offset for answer in answers[:-1])]
        assert answers[-1].next_offset == 96
        assert {answer.high_watermark for answer in answers} == {100}
        assert len(answers) == {0: 1, 1: 46}.get(max_message_bytes, len(answers))

    run()


@virtual
async def test_batches_that_overlap_the_range_are_sent_whole_and_no_others() -> None:
    node = Node()
    node.lead().append(batch("0", "1"), batch("2", "3"), batch("4", "5"), batch("6", "7"))
    answers = await read(node, start=3, end=5)
    assert values_of(b"".join(answer.batches for answer in answers)) == [b"2", b"3", b"4", b"5"]
    assert answers[-1].next_offset == 5
    answers = await read(node, start=3, end=4)
    assert values_of(b"".join(answer.batches for answer in answers)) == [b"2", b"3"]


@virtual
async def test_without_an_end_it_goes_to_the_high_watermark() -> None:
    node = Node()
    orders = filled(node)
    orders.is_held = True
    orders.append(batch("not committed"))
    answers = await read(node, start=0, topic="orders", topic_id=b"")
    assert answers[-1].next_offset == orders.high_watermark == 20


@virtual
async def test_an_empty_range_is_one_empty_answer() -> None:
    node = Node()
    filled(node)
    for start in (0, 7, 20):
        (answer,) = await read(node, start=start, end=start)
        assert (answer.batches, answer.start_offset, answer.next_offset) == (b"", start, start)


RANGES = {
    "starts before the log": {"start": 1, "end": 5},
    "starts after the watermark": {"start": 21, "end": 21},
    "ends after the watermark": {"start": 5, "end": 21},
    "ends before it starts": {"start": 7, "end": 6},
    "negative": {"start": -1, "end": 5},
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_that_is_not_there_is_refused_with_the_range_that_is(name: str) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        filled(node).log_start = 2
        error = await refusal(node, **RANGES[name])
        assert (error.code, error.valid_start, error.valid_end) == (errors_pb2.OFFSET_OUT_OF_RANGE, 2, 20)

    run()


OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "no such topic": ({"topic_id": bytes(16)}, errors_pb2.UNKNOWN_TOPIC_ID),
    "no such name": ({"topic_id": b"", "topic": "bills"}, errors_pb2.UNKNOWN_TOPIC),
    "another topic of the name": ({"topic_id": bytes(16), "topic": "orders"}, errors_pb2.UNKNOWN_TOPIC_ID),
    "no topic": ({"topic_id": b""}, errors_pb2.INVALID_REQUEST),
    "an old leader epoch": ({"leader_epoch": 4}, errors_pb2.FENCED_LEADER_EPOCH),
    "a size": ({"max_message_bytes": -1}, errors_pb2.INVALID_REQUEST),
    "a large size": ({"max_message_bytes": 2**25}, errors_pb2.INVALID_REQUEST),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    request, code = OTHERS[name]

    @virtual
    async def run() -> None:
        node = Node()
        filled(node)
        assert (await refusal(node, **{"start": 0, "end": 5, **request})).code == code
        assert node.panics == []

    run()


@virtual
async def test_a_new_leader_serves_what_it_knows_to_be_committed_and_asks_for_patience_beyond() -> None:
    node = Node()
    filled(node).watermark_is_known = False
    assert (await read(node, start=0, end=20))[-1].next_offset == 20
    for request in ({"start": 0}, {"start": 0, "end": 21}):
        error = await refusal(node, **request)
        assert (error.code, error.retriable) == (errors_pb2.OFFSET_NOT_AVAILABLE, True)


@virtual
async def test_who_leads_instead_is_told_in_the_middle_of_a_range() -> None:
    node = Node()
    orders = filled(node, count=400, size=1000)
    talk = await reading(node, start=0, end=800, max_message_bytes=10_000)
    await talk.hear()
    orders.lose(ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads", leader_id=2))
    error = detail_in(await talk.fails())
    assert (error.code, error.leader_address) == (errors_pb2.NOT_LEADER, "broker-2:9092")


@virtual
async def test_a_range_that_retention_overtakes_is_out_of_range() -> None:
    node = Node()
    orders = filled(node, count=400, size=1000)
    talk = await reading(node, start=0, end=800, max_message_bytes=10_000)
    await talk.hear()
    orders.log_start = 790
    error = detail_in(await talk.fails())
    assert (error.code, error.valid_start) == (errors_pb2.OFFSET_OUT_OF_RANGE, 790)


@virtual
async def test_a_reader_that_is_slow_is_not_read_ahead_for_by_much() -> None:
    node = Node()
    orders = filled(node, count=1000, size=1000)
    talk = await reading(node, start=0, end=2000, max_message_bytes=10_000)
    await settle(30)
    assert len(orders.reads) < 60  # a window's worth
    while not (await talk.hear()).is_last:
        pass


@virtual
async def test_a_hole_that_cannot_be_read_is_no_endless_loop() -> None:
    node = Node()
    orders = node.lead()
    orders.high_watermark = orders.log_end = 10
    assert (await refusal(node, start=0, end=10)).code == errors_pb2.OFFSET_NOT_AVAILABLE


@virtual
async def test_a_broken_invariant_of_the_replica_is_a_panic() -> None:
    node = Node()
    orders = filled(node, count=400, size=1000)
    talk = await reading(node, start=0, end=800, max_message_bytes=10_000)
    await talk.hear()
    orders.refusal = AssertionError("the log went back")
    await talk.fails()
    assert len(node.panics) == 1


# -- from a follower


@virtual
async def test_a_follower_in_sync_serves_a_range_that_it_has_whole() -> None:
    node = Node()
    orders = filled(node)
    orders.refusal = ReplicaError(errors_pb2.NOT_LEADER, "another leads")
    orders.is_in_sync, orders.watermark_is_known = True, False
    answers = await read(node, start=2, end=20, from_follower=True)
    assert answers[-1].next_offset == 20
    orders.high_watermark, orders.log_start = 10, 4
    for start, end in ((2, 10), (4, 12), (4, None), (30, 32)):
        request = {"start": start, "from_follower": True, **({"end": end} if end is not None else {})}
        assert (await refusal(node, **request)).code == errors_pb2.OFFSET_NOT_AVAILABLE, request
    assert (await refusal(node, start=4, end=8)).code == errors_pb2.NOT_LEADER
    orders.is_in_sync = False
    assert (await refusal(node, start=4, end=8, from_follower=True)).code == errors_pb2.NOT_LEADER


# -- readers that do not read

MEBIBYTE = 1024 * 1024


@virtual
async def test_ranges_that_nobody_reads_hold_no_more_than_there_is_for_all() -> None:
    """Each held three messages of 16 MiB before, and a hundred of them 4 GiB."""
    node = Node()
    orders = filled(node, count=400, size=32 * 1024)
    budget = BufferBudget(8 * MEBIBYTE, node.runtime.clock)
    connection = await node.serve(RangeService(node.runtime.clock, node.logs, budget=budget).handlers())
    request = pb.ReadRangeRequest(topic_id=ORDERS, start=0, max_message_bytes=16 * MEBIBYTE)
    unread = []
    for _ in range(100):
        stream = connection.open(READ_RANGE)
        await stream.send(request.SerializeToString())
        await stream.half_close()
        unread.append(stream)
    await settle(1)
    held = budget.bytes.held_bytes
    assert 0 < held <= 8 * MEBIBYTE
    assert budget.bytes.counts.peak_bytes <= 9 * MEBIBYTE, "one batch more than was claimed, here and there"
    talk = Talk(connection.open(READ_RANGE), pb.ReadRangeResponse)
    await talk.say(request)
    await talk.stream.half_close()
    found = 0
    while not (answer := await talk.hear()).is_last:
        found = answer.next_offset
    assert (found < answer.next_offset, answer.next_offset) == (True, orders.log_end)
    assert budget.cut_off > 0, "who reads gets it, once those that do not have lost their streams"
    for stream in unread:
        stream.reset()
    await settle(1)
    assert (budget.bytes.held_bytes, budget.bytes.accounts) == (0, {})
