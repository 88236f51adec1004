"""Where partitions start and end, and where in them a time is."""

import asyncio
from typing import Any

import pytest
from support.log_services import Node, refused, settle
from support.raft_nodes import virtual
from support.served_replicas import FakeReplica, batch

from lograft.broker.replica.interfaces import FoundOffset, OffsetKind, OffsetSpec
from lograft.broker.server.offsets_service import OffsetsService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import LIST_OFFSETS
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.unary import exchange

Kind = pb.ListOffsetsRequest


async def ask(node: Node, *items: pb.ListOffsetsRequest.Item) -> list[pb.ListOffsetsResponse.Result]:
    connection = await node.serve(OffsetsService(node.logs).handlers())
    answer = await exchange(connection, LIST_OFFSETS, pb.ListOffsetsRequest(items=items).SerializeToString())
    return list(pb.ListOffsetsResponse.FromString(answer).results)


def item(kind: Any, **fields: Any) -> pb.ListOffsetsRequest.Item:
    return pb.ListOffsetsRequest.Item(**{"topic": "orders", "kind": kind, **fields})


def filled(node: Node) -> FakeReplica:
    orders = node.lead()
    orders.append(*(batch("a") for _ in range(10)))
    orders.is_held = True
    orders.append(batch("not committed"))
    orders.log_start = 3
    return orders


@virtual
async def test_each_question_is_answered_in_its_place() -> None:
    node = Node()
    filled(node).found = FoundOffset(7, 1234)
    earliest, latest, at_time, greatest = await ask(
        node, item(Kind.EARLIEST), item(Kind.LATEST), item(Kind.AT_TIME, timestamp=1000), item(Kind.GREATEST_TIME)
    )
    assert [each.offset for each in (earliest, latest, at_time, greatest)] == [3, 10, 7, 7]
    assert {each.leader_epoch for each in (earliest, latest, at_time, greatest)} == {5}
    assert [each.HasField("timestamp") for each in (earliest, latest, at_time)] == [False, False, True]
    assert at_time.timestamp == 1234


@virtual
async def test_the_time_is_handed_on_and_none_found_is_no_error() -> None:
    node = Node()
    orders = filled(node)
    specs: list[OffsetSpec] = []

    async def offsets(spec: OffsetSpec) -> FoundOffset:
        specs.append(spec)
        return FoundOffset(None)

    orders.offsets = offsets  # type: ignore[method-assign]
    (result,) = await ask(node, item(Kind.AT_TIME, timestamp=1000))
    assert specs == [OffsetSpec(OffsetKind.AT_TIME, 1000)]
    assert not result.HasField("offset")
    assert not result.HasField("error")


ITEMS = {
    "no kind": (item(Kind.UNSPECIFIED), errors_pb2.INVALID_REQUEST),
    "an unknown kind": (item(77), errors_pb2.INVALID_REQUEST),
    "no such topic": (item(Kind.LATEST, topic="bills"), errors_pb2.UNKNOWN_TOPIC),
    "no topic": (item(Kind.LATEST, topic=""), errors_pb2.INVALID_REQUEST),
    "no replica here": (item(Kind.LATEST, partition=2), errors_pb2.UNKNOWN_TOPIC_ID),
    "an old leader epoch": (item(Kind.LATEST, leader_epoch=4), errors_pb2.FENCED_LEADER_EPOCH),
}


@pytest.mark.parametrize("name", ITEMS)
def test_what_is_wrong_with_one_question_is_told_and_the_others_are_answered(name: str) -> None:
    wrong, code = ITEMS[name]

    @virtual
    async def run() -> None:
        node = Node()
        filled(node)
        results = await ask(node, item(Kind.LATEST), wrong, item(Kind.EARLIEST))
        assert [each.error.code for each in results] == [0, code, 0]
        assert [each.offset for each in results] == [10, 0, 3]
        assert not results[1].HasField("offset")

    run()


@virtual
async def test_a_new_leader_knows_only_where_the_log_starts() -> None:
    node = Node()
    filled(node).watermark_is_known = False
    earliest, latest = await ask(node, item(Kind.EARLIEST), item(Kind.LATEST))
    assert earliest.offset == 3
    assert (latest.error.code, latest.error.retriable) == (errors_pb2.OFFSET_NOT_AVAILABLE, True)
    assert latest.leader_epoch == 0  # an error says nothing else


@virtual
async def test_who_leads_instead_is_told() -> None:
    node = Node()
    filled(node).refusal = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads", leader_id=2)
    (result,) = await ask(node, item(Kind.EARLIEST))
    assert (result.error.code, result.error.leader_address) == (errors_pb2.NOT_LEADER, "broker-2:9092")


@virtual
async def test_only_a_few_searches_go_on_at_once_and_all_are_answered() -> None:
    node = Node()
    orders = filled(node)
    under_way = most = 0

    async def offsets(spec: OffsetSpec) -> FoundOffset:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await settle(0.01)
        under_way -= 1
        return FoundOffset(spec.timestamp_ms, spec.timestamp_ms)

    orders.offsets = offsets  # type: ignore[method-assign]
    results = await ask(node, *(item(Kind.AT_TIME, timestamp=at) for at in range(100)))
    assert [each.offset for each in results] == list(range(100))
    assert 1 < most <= 8


@virtual
async def test_many_searches_that_need_not_wait_for_the_disk_let_others_have_their_turn() -> None:
    node = Node()
    orders = filled(node)
    searches = 0
    turns: list[int] = []  # after how many searches others had theirs

    async def offsets(spec: OffsetSpec) -> FoundOffset:
        nonlocal searches
        searches += 1
        if searches == 1:
            asyncio.get_running_loop().call_soon(lambda: turns.append(searches))
        return FoundOffset(7)

    orders.offsets = offsets  # type: ignore[method-assign]
    assert len(await ask(node, *[item(Kind.AT_TIME)] * 800)) == 800
    assert turns[0] <= 10


@virtual
async def test_nothing_asked_is_nothing_answered_and_too_much_is_refused() -> None:
    node = Node()
    assert await ask(node) == []
    other = Node()
    error = await refused(ask(other, *(item(Kind.LATEST) for _ in range(10_001))))
    assert error.code == errors_pb2.INVALID_REQUEST


@virtual
async def test_a_broken_invariant_of_the_replica_is_a_panic() -> None:
    node = Node()
    filled(node).refusal = AssertionError("the log went back")
    asking = asyncio.ensure_future(ask(node, item(Kind.LATEST)))
    await asyncio.wait([asking])
    assert asking.exception() is not None
    assert len(node.panics) == 1
