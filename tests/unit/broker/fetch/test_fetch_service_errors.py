"""What a reader is told when a partition cannot be read, or not here, or not from there; the others go on."""

import pytest
from support.fetch_talk import NOT_LEADER, PLENTY, add, fetching
from support.log_services import Node, settle
from support.raft_nodes import virtual
from support.served_replicas import batch

from lograft.broker.fetch.fetch_service import FetchLimits
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry

# -- errors


ADDS = {
    "no such topic": (add(1, topic_id=bytes(16)), errors_pb2.UNKNOWN_TOPIC_ID),
    "no topic id": (add(1, topic_id=b""), errors_pb2.INVALID_REQUEST),
    "an old leader epoch": (add(1, leader_epoch=4), errors_pb2.FENCED_LEADER_EPOCH),
    "before the start": (add(1, offset=0), errors_pb2.OFFSET_OUT_OF_RANGE),
    "after the end": (add(1, offset=4), errors_pb2.OFFSET_OUT_OF_RANGE),
    "a negative offset": (add(1, offset=-1), errors_pb2.OFFSET_OUT_OF_RANGE),
    "a negative size": (add(1, offset=1, max_bytes=-1), errors_pb2.INVALID_REQUEST),
    "a handle in use": (add(2, 0, offset=1), errors_pb2.INVALID_REQUEST),
}


@pytest.mark.parametrize("name", ADDS)
def test_what_is_wrong_with_one_partition_is_told_and_ends_no_other(name: str) -> None:
    wrong, code = ADDS[name]

    @virtual
    async def run() -> None:
        node = Node()
        orders, others = node.lead(0), node.lead(1)
        orders.append(batch("a"), batch("b"), batch("c"))
        orders.log_start = 1
        talk = await fetching(node)
        await talk.ask(add(2, 0, offset=3), add(3, 1), wrong, credit_bytes=PLENTY)
        error = await talk.error_of(wrong.handle)
        assert error.code == code
        if code == errors_pb2.OFFSET_OUT_OF_RANGE:
            assert (error.valid_start, error.valid_end) == (1, 3)
        others.append(batch("d"))
        assert await talk.until(3, 1) == [b"d"]
        assert len(orders.waiters) == (0 if wrong.handle == 2 else 1)

    run()


@virtual
async def test_too_many_partitions_are_refused() -> None:
    node = Node()
    node.lead()
    talk = await fetching(node, FetchLimits(partitions=2))
    await talk.ask(*(add(handle) for handle in range(3)))
    assert (await talk.error_of(2)).code == errors_pb2.INVALID_REQUEST
    await talk.ask(add(4), remove=[0])
    assert not any(each.HasField("error") for each in await talk.take())


@virtual
async def test_a_reader_that_waits_is_told_when_another_broker_leads_and_its_handle_is_free_again() -> None:
    node = Node()
    orders = node.lead()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await talk.take()
    orders.lose(ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads", leader_id=2, leader_epoch=6))
    error = await talk.error_of(1)
    assert (error.code, error.leader_id, error.leader_address) == (errors_pb2.NOT_LEADER, 2, "broker-2:9092")
    orders.refusal = None
    orders.append(batch("a"))
    await talk.silence(2)
    await talk.ask(add(1))
    assert await talk.until(1, 1) == [b"a"]


@virtual
async def test_leadership_lost_in_the_middle_of_a_backlog_is_told() -> None:
    node = Node()
    orders = node.lead()
    orders.append(*(batch(size=1000) for _ in range(10)))
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=1)
    await talk.until(1, 1)
    orders.lose(ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads"))
    await talk.ask(credit_bytes=PLENTY)
    assert (await talk.error_of(1)).code == errors_pb2.NOT_LEADER
    assert len(talk.values(1)) == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_a_position_that_retention_has_passed_is_out_of_range_and_the_range_is_told(is_known: bool) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        orders.append(*(batch("a") for _ in range(10)))
        talk = await fetching(node)
        await talk.ask(add(1))
        await talk.take()
        orders.log_start, orders.watermark_is_known = 5, is_known
        await talk.ask(credit_bytes=PLENTY)
        error = await talk.error_of(1)
        assert (error.code, error.valid_start) == (errors_pb2.OFFSET_OUT_OF_RANGE, 5)
        assert (error.valid_end if error.HasField("valid_end") else None) == (10 if is_known else None)

    run()


@virtual
async def test_a_read_that_finds_its_offset_gone_is_out_of_range() -> None:
    node = Node()
    orders = node.lead()
    orders.append(*(batch("a") for _ in range(10)))
    orders.may_read.clear()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle()
    orders.log_start = 5
    orders.may_read.set()
    assert (await talk.error_of(1)).valid_start == 5


@virtual
async def test_a_new_leader_that_does_not_know_its_watermark_tells_none_and_lets_readers_wait() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held, orders.watermark_is_known = True, False
    orders.append(batch("a"), batch("b"), batch("c"))
    orders.commit(1)
    talk = await fetching(node)
    await talk.ask(add(1, offset=0), add(2, offset=2), credit_bytes=PLENTY)
    assert await talk.until(1, 1) == [b"a"]
    await talk.silence(2)
    assert not any(each.HasField("high_watermark") for data in talk.data.values() for each in data)
    orders.watermark_is_known = True
    orders.commit()
    assert await talk.until(2, 1) == [b"c"]
    assert talk.data[2][-1].high_watermark == 3


@virtual
async def test_a_broken_invariant_of_the_replica_is_a_panic() -> None:
    node = Node()
    node.lead().refusal = AssertionError("the watermark went back")
    talk = await fetching(node)
    await talk.ask(add(1))
    await talk.fails()
    assert len(node.panics) == 1


# -- from a follower


@virtual
async def test_a_follower_in_sync_serves_who_is_content_with_that_and_says_no_watermark() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"))
    orders.refusal, orders.is_in_sync, orders.watermark_is_known = NOT_LEADER, True, False
    talk = await fetching(node)
    await talk.ask(add(1), add(2, from_follower=True), credit_bytes=PLENTY)
    assert (await talk.error_of(1)).code == errors_pb2.NOT_LEADER
    assert await talk.until(2, 2) == [b"a", b"b"]
    assert not any(each.HasField("high_watermark") for each in talk.data[2])
    orders.append(batch("c"))
    assert await talk.until(2, 3) == [b"a", b"b", b"c"]
    orders.is_in_sync = False
    orders.lose(NOT_LEADER)
    assert (await talk.error_of(2)).code == errors_pb2.NOT_LEADER


@pytest.mark.parametrize("offset", [0, 9])
@virtual
async def test_a_follower_does_not_say_that_what_it_lacks_is_not_there(offset: int) -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"))
    orders.log_start = 1
    orders.refusal, orders.is_in_sync, orders.watermark_is_known = NOT_LEADER, True, False
    talk = await fetching(node)
    await talk.ask(add(1, offset=offset, from_follower=True), credit_bytes=PLENTY)
    error = await talk.error_of(1)
    assert (error.code, error.retriable) == (errors_pb2.OFFSET_NOT_AVAILABLE, True)


# -- after an unclean election


@virtual
async def test_who_has_read_what_is_not_in_the_log_any_more_is_told_where_that_begins() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a", "b", "c"))
    orders.epochs = EpochCache([EpochEntry(3, 0), EpochEntry(5, 2)])
    talk = await fetching(node)
    await talk.ask(add(1, offset=2, last_epoch=3), add(2, offset=3, last_epoch=5), credit_bytes=PLENTY)
    assert await talk.until(1, 3) == [b"a", b"b", b"c"]
    await talk.ask(add(3, offset=3, last_epoch=3), add(4, offset=70, last_epoch=4), add(5, offset=3, last_epoch=-1))
    for handle, valid_end in ((3, 2), (4, 2)):
        [told] = [each.error for each in talk.data.get(handle, [])] or [await talk.error_of(handle)]
        assert (told.code, told.valid_end, told.retriable) == (errors_pb2.LOG_TRUNCATED, valid_end, False)
        assert f"truncated it at {valid_end}" in told.message
    orders.append(batch("d"))
    for handle in (2, 5):
        assert await talk.until(handle, 1) == [b"d"]
    assert not any(each.HasField("error") for handle in (1, 2, 5) for each in talk.data[handle])


@virtual
async def test_a_follower_leaves_it_to_the_leader_to_say_what_is_gone() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a", "b", "c"))
    orders.refusal, orders.is_in_sync = NOT_LEADER, True
    talk = await fetching(node)
    await talk.ask(add(1, offset=2, last_epoch=3, from_follower=True), credit_bytes=PLENTY)
    assert (await talk.error_of(1)).code == errors_pb2.OFFSET_NOT_AVAILABLE
    await talk.ask(add(2, offset=2, last_epoch=5, from_follower=True))
    assert len(await talk.until(2, 3)) == 3
