"""Committed records of many partitions, pushed as they come, within the client's credit."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from support.log_services import ORDERS, Node, Talk, detail_in, settle
from support.raft_nodes import virtual
from support.served_replicas import FakeReplica, batch, values_of

from lograft.broker.fetch_outbox import FetchOutbox
from lograft.broker.fetch_service import FetchLimits, FetchService
from lograft.broker.replica_errors import ReplicaError
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import FETCH
from lograft.storage.epochs import EpochCache, EpochEntry
from lograft.storage.reader import Batches

PLENTY = 2**40
NOT_LEADER = ReplicaError(errors_pb2.NOT_LEADER, "another leads")


class Fetching(Talk[pb.FetchResponse]):
    """A client that keeps what it was sent, by handle."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream, pb.FetchResponse)
        self.data: dict[int, list[pb.FetchResponse.Data]] = {}

    async def ask(self, *add: pb.FetchRequest.Add, **fields: Any) -> None:
        await self.say(pb.FetchRequest(add=add, **fields))

    async def take(self) -> Sequence[pb.FetchResponse.Data]:
        """What the next message that has any brings."""
        data = (await self.hear_until(lambda response: bool(response.data))).data
        for each in data:
            self.data.setdefault(each.handle, []).append(each)
        return data

    def values(self, handle: int) -> list[bytes | None]:
        return values_of(b"".join(each.batches for each in self.data.get(handle, [])))

    async def until(self, handle: int, count: int) -> list[bytes | None]:
        """The partition's records so far, once there are so many."""
        while len(self.values(handle)) < count:
            await self.take()
        return self.values(handle)

    async def error_of(self, handle: int) -> errors_pb2.ErrorDetail:
        while True:
            for each in await self.take():
                if each.handle == handle and each.HasField("error"):
                    return each.error


async def fetching(node: Node, limits: FetchLimits | None = None) -> Fetching:
    service = FetchService(node.runtime, node.logs, limits)
    return Fetching((await node.serve(service.handlers())).open(FETCH))


def add(handle: int, partition: int = 0, offset: int = 0, **fields: Any) -> pb.FetchRequest.Add:
    return pb.FetchRequest.Add(
        **{"handle": handle, "topic_id": ORDERS, "partition": partition, "offset": offset, **fields}
    )


def seek(handle: int, offset: int, number: int) -> pb.FetchRequest.Seek:
    return pb.FetchRequest.Seek(handle=handle, offset=offset, number=number)


# -- what is pushed


@virtual
async def test_what_is_there_is_sent_from_the_offset_on_and_then_what_comes() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a", "b"), batch("c"), batch("d"))
    talk = await fetching(node)
    await talk.ask(add(3, offset=2, leader_epoch=5), credit_bytes=PLENTY)
    assert await talk.until(3, 2) == [b"c", b"d"]
    last = talk.data[3][-1]
    assert (last.next_offset, last.high_watermark, last.log_start) == (4, 4, 0)
    orders.append(batch("e"))
    assert await talk.until(3, 3) == [b"c", b"d", b"e"]
    assert talk.data[3][-1].next_offset == 5


@virtual
async def test_a_batch_that_begins_before_the_offset_is_sent_whole() -> None:
    node = Node()
    node.lead().append(batch("a", "b", "c"))
    talk = await fetching(node)
    await talk.ask(add(1, offset=2), credit_bytes=PLENTY)
    assert await talk.until(1, 3) == [b"a", b"b", b"c"]
    assert talk.data[1][-1].next_offset == 3


@virtual
async def test_nothing_that_is_not_committed_is_sent() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    orders.append(batch("a"), batch("b"))
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await talk.take()
    await talk.silence(5)
    orders.commit(1)
    assert await talk.until(1, 1) == [b"a"]
    await talk.silence(5)
    orders.commit()
    assert await talk.until(1, 2) == [b"a", b"b"]


@virtual
async def test_an_add_is_answered_at_once_without_records_and_without_credit() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"))
    talk = await fetching(node)
    await talk.ask(add(1, offset=1), add(2, offset=0))
    answers = [(each.handle, each.next_offset, each.high_watermark, each.batches) for each in await talk.take()]
    assert answers == [(1, 1, 1, b""), (2, 0, 1, b"")]
    await talk.silence(3)


@virtual
async def test_partitions_that_have_something_together_travel_together() -> None:
    node = Node()
    replicas = [node.lead(number) for number in range(100)]
    talk = await fetching(node)
    await talk.ask(*(add(number, number) for number in range(100)), credit_bytes=PLENTY)
    await talk.take()
    for number, replica in enumerate(replicas):
        replica.append(batch(str(number)))
    data = await talk.take()
    assert {each.handle: values_of(each.batches) for each in data} == {
        number: [str(number).encode()] for number in range(100)
    }


@virtual
async def test_waiting_readers_do_not_poll() -> None:
    node = Node()
    orders = node.lead()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle(60)
    assert (len(orders.reads), len(orders.waiters)) == (0, 1)
    orders.append(batch("a"))
    await talk.until(1, 1)
    await settle(60)
    assert (len(orders.reads), len(orders.waiters)) == (1, 1)


@virtual
async def test_nothing_to_read_below_the_watermark_does_not_make_it_spin() -> None:
    node = Node()
    orders = node.lead()
    orders.high_watermark = orders.log_end = 10  # a hole, as far as `read` can tell
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle(60)
    assert len(orders.reads) == 1


# -- credit


@virtual
async def test_without_credit_nothing_is_sent_and_with_some_at_least_one_batch() -> None:
    node = Node()
    node.lead().append(*(batch(size=1000) for _ in range(5)))
    talk = await fetching(node)
    await talk.ask(add(1))
    await talk.take()
    await talk.silence(3)
    await talk.ask(credit_bytes=1)
    assert len(await talk.until(1, 1)) == 1
    await talk.silence(3)
    await talk.ask(credit_bytes=1)  # less than is owed
    await talk.silence(3)
    await talk.ask(credit_bytes=len(batch(size=1000)))
    assert len(await talk.until(1, 2)) == 2
    await talk.silence(3)


@virtual
async def test_credit_is_for_all_partitions_together() -> None:
    node = Node()
    size = len(batch(size=1000))
    for number in range(4):
        node.lead(number).append(*(batch(size=1000) for _ in range(50)))
    talk = await fetching(node)
    await talk.ask(*(add(number, number, max_bytes=size) for number in range(4)), credit_bytes=20 * size)
    while sum(len(talk.values(number)) for number in range(4)) < 20:
        await talk.take()
    await talk.silence(2)
    assert [len(talk.values(number)) for number in range(4)] == [5, 5, 5, 5]


@virtual
async def test_a_partition_far_behind_does_not_starve_another() -> None:
    node = Node()
    behind, live = node.lead(0), node.lead(1)
    behind.append(*(batch(size=100_000) for _ in range(100)))
    talk = await fetching(node, FetchLimits(message_bytes=200_000, partition_bytes=200_000))
    await talk.ask(add(0, 0), add(1, 1), credit_bytes=PLENTY)
    await talk.until(0, 5)
    live.append(batch("now"))
    await talk.until(1, 1)
    assert len(talk.values(0)) < 30
    assert len(await talk.until(0, 100)) == 100


# -- remove and seek


@virtual
async def test_a_seek_goes_on_elsewhere_and_tells_old_from_new() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"), batch("c"))
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await talk.until(1, 3)
    assert {each.seek for each in talk.data.pop(1)} == {0}
    await talk.ask(seek=[seek(1, 1, number=7)])
    assert await talk.until(1, 2) == [b"b", b"c"]
    assert {each.seek for each in talk.data[1]} == {7}
    assert talk.data[1][0].next_offset == 1
    await settle()
    assert len(orders.waiters) == 1
    orders.append(batch("d"))
    assert await talk.until(1, 3) == [b"b", b"c", b"d"]


@virtual
async def test_what_was_read_before_a_seek_is_not_sent_after_it() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"), batch("c"))
    orders.may_read.clear()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle()
    await talk.ask(seek=[seek(1, 2, number=1)])
    await settle()
    orders.may_read.set()
    assert await talk.until(1, 1) == [b"c"]
    await talk.silence(2)


@virtual
async def test_what_failed_before_a_seek_does_not_end_what_comes_after() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"), batch("c"))
    orders.may_read.clear()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle()
    orders.log_start = 1  # what is being read is out of range by now
    await talk.ask(seek=[seek(1, 2, number=1)])
    await settle()
    orders.may_read.set()
    assert await talk.until(1, 1) == [b"c"]
    assert not any(each.HasField("error") for each in talk.data[1])


@pytest.mark.parametrize("is_reading", [False, True])
def test_a_partition_that_is_removed_is_sent_no_more(is_reading: bool) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders, others = node.lead(0), node.lead(1)
        talk = await fetching(node)
        await talk.ask(add(1, 0), add(2, 1), credit_bytes=PLENTY)
        await talk.take()
        if is_reading:
            orders.may_read.clear()
            orders.append(batch("a"))
            await settle()
        await talk.ask(remove=[1])
        await settle()
        orders.may_read.set()
        assert orders.waiters == {}
        orders.append(batch("b"))
        await talk.silence(2)
        assert orders.waiters == {}
        others.append(batch("c"))
        assert await talk.until(2, 1) == [b"c"]

    run()


@virtual
async def test_what_is_not_there_can_be_removed_and_sought() -> None:
    node = Node()
    node.lead().append(batch("a"))
    talk = await fetching(node)
    await talk.ask(remove=[8], seek=[seek(9, 0, 1)], credit_bytes=PLENTY)
    await talk.ask(add(1))
    assert await talk.until(1, 1) == [b"a"]


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


# -- the stream


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
        assert f"cut it at {valid_end}" in told.message
    assert not any(each.HasField("error") for handle in (1, 2, 5) for each in talk.data.get(handle, []))


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
