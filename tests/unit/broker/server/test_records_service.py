"""Plain records, for who knows nothing of batches."""

import asyncio
from typing import Any

import pytest
from support.log_services import ORDERS, Node, refused, settle
from support.raft_nodes import virtual
from support.served_replicas import NOW_MS, batch

from lograft.broker.replica.interfaces import Acks
from lograft.broker.server.records_service import RecordsService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import APPEND, READ
from lograft.proto.wire_format import varint
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.unary import exchange
from lograft.runtime.limits.buffer_budget import LARGE_BYTES
from lograft.storage.batch.codec import decode_records, encode_batch
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import checksum
from lograft.storage.log.log_config import LogConfig


class Client:
    """One connection to the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connection: Any = None

    async def call(self, method: str, request: bytes) -> bytes:
        if self._connection is None:
            service = RecordsService(self._node.runtime, self._node.logs)
            self._connection = await self._node.serve(service.handlers())
        return await exchange(self._connection, method, request)

    async def append(self, *records: pb.NewRecord, **fields: Any) -> pb.AppendResponse:
        request = pb.AppendRequest(records=records, **{"topic": "orders", **fields})
        return pb.AppendResponse.FromString(await self.call(APPEND, request.SerializeToString()))

    async def read(self, offset: int = 0, **fields: Any) -> pb.ReadResponse:
        request = pb.ReadRequest(offset=offset, **{"topic": "orders", **fields})
        return pb.ReadResponse.FromString(await self.call(READ, request.SerializeToString()))


def record(value: str | None = None, **fields: Any) -> pb.NewRecord:
    return pb.NewRecord(value=value.encode() if value is not None else None, **fields)


def values(response: pb.ReadResponse) -> list[bytes]:
    return [each.value for each in response.records]


# -- append


@virtual
async def test_a_request_that_no_batch_can_hold_is_refused_before_it_is_read() -> None:
    node = Node()
    node.lead(config=LogConfig(max_message_bytes=100_000))
    client = Client(node)
    fields = pb.AppendRequest(topic="orders").SerializeToString()
    unreadable = b"\x2a" + varint(300_000) + b"\xff" * 300_000  # says that it is a record
    error = await refused(client.call(APPEND, fields + unreadable))
    assert error.code == errors_pb2.BATCH_TOO_LARGE
    assert "over the topic's max.message.bytes of 100000: send less" in error.message
    error = await refused(client.call(APPEND, fields + b"\x2a" + varint(200_000) + b"\xff" * 200_000))
    assert error.code == errors_pb2.INVALID_REQUEST, "it may fit, so it is read"
    await client.append(record("x" * 90_000))


@virtual
async def test_large_requests_wait_for_the_disk_but_for_no_followers_of_others() -> None:
    node = Node()
    slow, other = (node.lead(number, LogConfig(max_message_bytes=2 * LARGE_BYTES)) for number in range(2))
    slow.is_held = slow.disk_is_held = True
    client = Client(node)
    large = record("x" * LARGE_BYTES)
    first = asyncio.ensure_future(client.append(large))
    await settle(1)
    second = asyncio.ensure_future(client.append(large, partition=1))
    await settle(1)
    assert (slow.log_end, other.log_end) == (1, 0)
    slow.commit()
    await asyncio.gather(first, second)
    slow.disk_is_held = False
    first = asyncio.ensure_future(client.append(large))
    await settle(1)
    assert (await client.append(large, partition=1)).base_offset == 1
    assert not first.done()
    slow.commit()
    await first


@virtual
async def test_records_come_back_as_they_were_given() -> None:
    node = Node()
    node.lead()
    client = Client(node)
    headers = [pb.Header(key="a", value=b"1"), pb.Header(key="b"), pb.Header(key="a", value=b"")]
    await client.append(record("before"))
    answer = await client.append(record("x", key=b"k", headers=headers, timestamp=5), record("", key=b""), record())
    assert (answer.base_offset, answer.log_start, answer.HasField("append_time")) == (1, 0, False)
    first, second, third = (await client.read(1)).records
    assert (first.offset, first.timestamp, first.key, first.value) == (1, 5, b"k", b"x")
    assert list(first.headers) == headers
    assert second.HasField("key")
    assert second.HasField("value")
    assert (second.key, second.value, list(second.headers)) == (b"", b"", [])
    assert not third.HasField("key")
    assert not third.HasField("value")
    assert NOW_MS <= third.timestamp < NOW_MS + 60_000


@virtual
async def test_an_answer_waits_until_the_records_are_safe_unless_none_is_wanted() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    client = Client(node)
    appending = asyncio.ensure_future(client.append(record("a"), timeout_ms=77))
    await settle(3)
    assert not appending.done()
    orders.commit()
    assert (await appending).base_offset == 0
    assert (await client.append(record("b"), acks=pb.ACKS_NONE)).base_offset == -1
    assert (orders.acks, orders.timeouts_ms) == ([Acks.ALL, Acks.NONE], [77, 30_000])


@virtual
async def test_a_disk_that_is_behind_is_waited_for_and_an_epoch_that_ends_meanwhile_is_noticed() -> None:
    node = Node()
    orders = node.lead()
    client = Client(node)
    orders.has_room.clear()
    appending = asyncio.ensure_future(client.append(record("a")))
    await settle()
    assert orders.values == []
    orders.has_room.set()
    assert (await appending).base_offset == 0
    orders.has_room.clear()
    appending = asyncio.ensure_future(client.append(record("b"), leader_epoch=orders.leader_epoch))
    await settle()
    orders.leader_epoch += 1
    orders.has_room.set()
    assert (await refused(appending)).code == errors_pb2.FENCED_LEADER_EPOCH
    assert orders.values == [b"a"]


@virtual
async def test_records_are_stored_as_the_topic_wants_them() -> None:
    node = Node()
    orders = node.lead(config=LogConfig(compression=Compression.ZSTD, append_time=True))
    answer = await Client(node).append(record("a" * 100_000, timestamp=5), topic="", topic_id=ORDERS)
    assert answer.append_time >= NOW_MS
    (stored,) = (content for _, _, content in orders.stored)
    assert len(stored) < 1000
    assert decode_records(stored)[0].timestamp == answer.append_time


APPENDS: dict[str, tuple[list[pb.NewRecord], dict[str, Any], int]] = {
    "no records": ([], {}, errors_pb2.INVALID_REQUEST),
    "no such topic": ([record("a")], {"topic": "bills"}, errors_pb2.UNKNOWN_TOPIC),
    "no topic": ([record("a")], {"topic": ""}, errors_pb2.INVALID_REQUEST),
    "another topic of the name": ([record("a")], {"topic_id": bytes(16)}, errors_pb2.UNKNOWN_TOPIC_ID),
    "an old leader epoch": ([record("a")], {"leader_epoch": 4}, errors_pb2.FENCED_LEADER_EPOCH),
    "unknown acks": ([record("a")], {"acks": 9}, errors_pb2.INVALID_REQUEST),
    "an endless timeout": ([record("a")], {"timeout_ms": 10**6}, errors_pb2.INVALID_REQUEST),
    "a time to come": ([record("a", timestamp=NOW_MS * 2)], {}, errors_pb2.INVALID_TIMESTAMP),
    "a time no batch can hold": ([record("a", timestamp=2**62)], {}, errors_pb2.INVALID_TIMESTAMP),
    "a negative time": ([record("a", timestamp=-1)], {}, errors_pb2.INVALID_TIMESTAMP),
    "the smallest time": ([record("a", timestamp=-(2**63))], {}, errors_pb2.INVALID_TIMESTAMP),
    "too much": ([record("a" * 2**21)], {}, errors_pb2.BATCH_TOO_LARGE),
}


@pytest.mark.parametrize("name", APPENDS)
def test_what_cannot_be_appended_is_refused_and_nothing_is_stored(name: str) -> None:
    records, fields, code = APPENDS[name]

    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        error = await refused(Client(node).append(*records, **fields))
        assert error.code == code
        assert (orders.values, node.panics) == ([], [])

    run()


@virtual
async def test_a_record_without_a_key_is_refused_by_a_compacted_topic() -> None:
    node = Node()
    node.lead(config=LogConfig(cleanup_compact=True))
    client = Client(node)
    assert (await refused(client.append(record("a")))).code == errors_pb2.INVALID_RECORD
    assert (await client.append(record("a", key=b"k"))).base_offset == 0


@virtual
async def test_who_leads_instead_is_told() -> None:
    node = Node()
    node.lead().refusal = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads", leader_id=2, leader_epoch=6)
    client = Client(node)
    for call in (client.append(record("a")), client.append(record("a", timestamp=-1)), client.read()):
        error = await refused(call)
        assert (error.code, error.leader_address, error.leader_epoch) == (errors_pb2.NOT_LEADER, "broker-2:9092", 6)


@virtual
async def test_nobody_appends_to_the_clusters_own_topics() -> None:
    node = Node()
    node.lead().is_internal = True
    error = await refused(Client(node).append(record("a")))
    assert (error.code, node.lead().log_end) == (errors_pb2.INVALID_TOPIC, 0)


@virtual
async def test_an_append_that_fails_later_says_so() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    appending = asyncio.ensure_future(Client(node).append(record("a")))
    await settle()
    orders.pending[0].settle(ReplicaError(errors_pb2.TIMED_OUT, "too slow"))
    assert (await refused(appending)).code == errors_pb2.TIMED_OUT


# -- read


@virtual
async def test_reading_starts_at_the_offset_and_goes_no_further_than_the_limits() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("0", "1", "2"), batch("3", "4"))
    client = Client(node)
    answer = await client.read(1)
    assert (values(answer), answer.next_offset, answer.high_watermark) == ([b"1", b"2", b"3", b"4"], 5, 5)
    answer = await client.read(1, max_records=3)
    assert (values(answer), answer.next_offset) == ([b"1", b"2", b"3"], 4)
    assert values(await client.read(answer.next_offset)) == [b"4"]
    node.lead().append(batch(bytes(1000), bytes(1000), bytes(1000)))
    answer = await client.read(max_bytes=2500)
    assert (len(answer.records), answer.next_offset) == (2, 2)
    node.lead().append(batch(size=5000), batch("small"))
    answer = await client.read(0, max_bytes=1)
    assert ([len(value) for value in values(answer)], answer.next_offset) == ([5000], 1)


@virtual
async def test_nothing_that_is_not_committed_is_read() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    orders.append(batch("a"), batch("b"))
    orders.commit(1)
    answer = await Client(node).read()
    assert (values(answer), answer.next_offset, answer.high_watermark) == ([b"a"], 1, 1)


@virtual
async def test_reading_waits_for_records_for_as_long_as_it_is_told_to() -> None:
    node = Node()
    orders = node.lead()
    client = Client(node)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    assert values(await client.read()) == []
    assert loop.time() - begin < 1
    begin = loop.time()
    assert values(await client.read(wait_ms=5000)) == []
    assert 5 <= loop.time() - begin < 6
    assert orders.waiters == {}
    reading = asyncio.ensure_future(client.read(wait_ms=5000))
    await settle(2)
    orders.append(batch("a"))
    await settle()
    assert reading.done()
    assert values(await reading) == [b"a"]


@virtual
async def test_nothing_to_read_below_the_watermark_does_not_make_it_spin() -> None:
    node = Node()
    orders = node.lead()
    orders.high_watermark = orders.log_end = 10  # a hole, as far as `read` can tell
    assert values(await Client(node).read(wait_ms=5000)) == []
    assert len(orders.reads) == 1


@virtual
async def test_a_reader_that_waits_is_told_when_another_broker_leads() -> None:
    node = Node()
    orders = node.lead()
    reading = asyncio.ensure_future(Client(node).read(wait_ms=60_000))
    await settle()
    orders.lose(ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads"))
    assert (await refused(reading)).code == errors_pb2.NOT_LEADER


@virtual
async def test_a_new_leader_does_not_tell_its_watermark() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"))
    orders.watermark_is_known = False
    answer = await Client(node).read()
    assert (values(answer), answer.HasField("high_watermark")) == ([b"a"], False)


READS: dict[str, tuple[dict[str, Any], int]] = {
    "before the start": ({"offset": 0}, errors_pb2.OFFSET_OUT_OF_RANGE),
    "after the end": ({"offset": 4}, errors_pb2.OFFSET_OUT_OF_RANGE),
    "negative records": ({"offset": 1, "max_records": -1}, errors_pb2.INVALID_REQUEST),
    "negative bytes": ({"offset": 1, "max_bytes": -1}, errors_pb2.INVALID_REQUEST),
    "a long wait": ({"offset": 1, "wait_ms": 60_001}, errors_pb2.INVALID_REQUEST),
    "no such partition": ({"offset": 1, "partition": 2}, errors_pb2.UNKNOWN_TOPIC_ID),
}


@pytest.mark.parametrize("name", READS)
def test_what_cannot_be_read_is_refused(name: str) -> None:
    request, code = READS[name]

    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        orders.append(batch("a"), batch("b"), batch("c"))
        orders.log_start = 1
        error = await refused(Client(node).read(**request))
        assert error.code == code
        if code == errors_pb2.OFFSET_OUT_OF_RANGE:
            assert (error.valid_start, error.valid_end) == (1, 3)

    run()


def spoilt() -> bytes:
    """A batch whose CRC is right, and whose content no one can decompress."""
    content = bytearray(encode_batch([bytes(1000)], timestamps=NOW_MS, compression=Compression.ZSTD))
    content[64:70] = bytes(6)
    content[17:21] = checksum(content, 21, len(content)).to_bytes(4, "big")
    return bytes(content)


@virtual
async def test_a_batch_that_is_not_as_it_was_written_is_not_served() -> None:
    node = Node()
    orders = node.lead()
    rotten = bytearray(batch("a"))
    rotten[-8] ^= 1
    orders.append(bytes(rotten))
    error = await refused(Client(node).read())
    assert error.code == errors_pb2.CORRUPT_BATCH
    assert "another replica may have intact copies" in error.message


@virtual
async def test_a_batch_that_its_producer_spoilt_is_told_of_with_the_way_past_it() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), spoilt(), batch("c"))
    client = Client(node)
    answer = await client.read()
    assert (values(answer), answer.next_offset) == ([b"a"], 1)
    error = await refused(client.read(1))
    assert error.code == errors_pb2.CORRUPT_BATCH
    assert "continue at 2" in error.message
    assert values(await client.read(2)) == [b"c"]
    assert node.panics == []


@virtual
async def test_control_batches_are_passed_over() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), encode_batch([b"x"], timestamps=NOW_MS, control=True))
    answer = await Client(node).read()
    assert (values(answer), answer.next_offset) == ([b"a"], 2)
