"""Batches come in, get their offsets in order, and are answered when they are safe."""

import asyncio
from typing import Any

import pytest
from support.log_services import ORDERS, Node, Talk, detail_in, settle
from support.raft_nodes import virtual
from support.served_replicas import NOW_MS, batch

from lograft.broker import admitting
from lograft.broker.produce_service import ProduceLimits, ProduceService
from lograft.broker.replica_errors import ReplicaError
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE
from lograft.runtime.writer import DiskFailed
from lograft.storage.batch import decode_columns, encode_batch, parse_header
from lograft.storage.compression import Compression
from lograft.storage.config import LogConfig
from lograft.storage.errors import OutOfOrderSequence


async def producing(node: Node, limits: ProduceLimits | None = None) -> Talk[pb.ProduceResponse]:
    service = ProduceService(node.runtime, node.logs, limits)
    return Talk((await node.serve(service.handlers())).open(PRODUCE), pb.ProduceResponse)


def request(*items: pb.ProduceRequest.Item, acks: int = pb.ACKS_ALL, **fields: Any) -> pb.ProduceRequest:
    return pb.ProduceRequest(items=items, acks=acks, **fields)  # type: ignore[arg-type]


def item(number: int, content: bytes, partition: int = 0, **fields: Any) -> pb.ProduceRequest.Item:
    return pb.ProduceRequest.Item(
        **{"number": number, "topic_id": ORDERS, "partition": partition, "batch": content, **fields}
    )


def numbers(response: pb.ProduceResponse) -> list[int]:
    return [result.number for result in response.results]


# -- stored and answered


@virtual
async def test_a_batch_is_stored_and_answered_with_its_offset() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("before"))
    talk = await producing(node)
    await talk.say(request(item(7, batch("a", "b")), timeout_ms=1234))
    (result,) = (await talk.hear()).results
    assert (result.number, result.base_offset, result.log_start) == (7, 1, 0)
    assert not result.HasField("error")
    assert not result.HasField("append_time")
    assert orders.values == [b"before", b"a", b"b"]
    assert orders.timeouts_ms == [1234]


@virtual
async def test_nobody_writes_to_the_clusters_own_topics() -> None:
    node = Node()
    orders = node.lead()
    orders.is_internal = True
    talk = await producing(node)
    await talk.say(request(item(1, batch("a"))))
    (result,) = (await talk.hear()).results
    assert (result.error.code, orders.values) == (errors_pb2.INVALID_TOPIC, [])


@virtual
async def test_an_answer_waits_until_the_batch_is_safe() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    talk = await producing(node)
    await talk.say(request(item(1, batch("a"))))
    await talk.silence(2)
    assert orders.values == [b"a"]
    orders.commit()
    assert numbers(await talk.hear()) == [1]


@virtual
async def test_batches_of_one_partition_are_answered_in_their_order_though_a_later_one_is_known_first() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    talk = await producing(node)
    for number, content in ((1, batch("a")), (2, b"garbage"), (3, batch("b"))):
        await talk.say(request(item(number, content)))
    await settle()
    orders.pending[1].settle()
    await talk.silence(1)
    orders.pending[0].settle()
    assert numbers(await talk.hear_until(numbers)) == [1, 2, 3]  # type: ignore[arg-type]


@virtual
async def test_a_partition_that_waits_does_not_hold_up_another() -> None:
    node = Node()
    slow, quick = node.lead(0), node.lead(1)
    slow.is_held = True
    talk = await producing(node)
    await talk.say(request(item(1, batch("a"), 0), item(2, batch("b"), 1)))
    assert numbers(await talk.hear()) == [2]
    assert quick.values == [b"b"]
    slow.commit()
    assert numbers(await talk.hear()) == [1]


@virtual
async def test_what_is_ready_together_is_answered_together() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    talk = await producing(node)
    for number in range(50):
        await talk.say(request(item(number, batch(str(number)))))
    await settle()
    orders.commit()
    assert numbers(await talk.hear()) == list(range(50))
    assert orders.values == [str(number).encode() for number in range(50)]


@virtual
async def test_a_batch_of_any_size_arrives_as_it_was_sent() -> None:
    node = Node()
    orders = node.lead(config=LogConfig(max_message_bytes=2**24))
    talk = await producing(node)
    for number, size in enumerate((1, 50_000, 100_000, 3_000_000)):
        await talk.say(request(item(number, batch(size=size), leader_epoch=5), item(number + 10, batch("small"))))
        heard = [await talk.hear_until(numbers)]  # type: ignore[arg-type]
        assert [result.error.message for result in heard[0].results] == ["", ""]
    assert [len(value or b"") for value in orders.values] == [1, 5, 50_000, 5, 100_000, 5, 3_000_000, 5]


@virtual
async def test_without_acknowledgement_nothing_is_answered_not_even_an_error() -> None:
    node = Node()
    orders = node.lead()
    talk = await producing(node)
    await talk.say(request(item(1, batch("a")), item(2, b"garbage"), item(3, batch("b"), 9), acks=pb.ACKS_NONE))
    await talk.silence(2)
    assert orders.values == [b"a"]
    await talk.stream.half_close()
    await talk.ends()


@virtual
async def test_the_time_of_appending_is_told_if_the_topic_stamps_it() -> None:
    node = Node()
    node.lead(config=LogConfig(append_time=True))
    talk = await producing(node)
    await talk.say(request(item(1, encode_batch([b"a"], timestamps=5))))
    (result,) = (await talk.hear()).results
    assert NOW_MS <= result.append_time < NOW_MS + 60_000


# -- refused


def broken(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


REFUSALS = {
    "no such topic": (item(1, batch("a"), topic_id=bytes(16)), errors_pb2.UNKNOWN_TOPIC_ID),
    "no topic id": (item(1, batch("a"), topic_id=b""), errors_pb2.INVALID_REQUEST),
    "too long a topic id": (item(1, batch("a"), topic_id=bytes(17)), errors_pb2.INVALID_REQUEST),
    "a negative partition": (item(1, batch("a"), partition=-1), errors_pb2.UNKNOWN_TOPIC_ID),
    "no batch": (item(1, b""), errors_pb2.CORRUPT_BATCH),
    "garbage": (item(1, b"\xff" * 200), errors_pb2.UNSUPPORTED_FORMAT),
    "a broken batch": (item(1, broken(batch("a"))), errors_pb2.CORRUPT_BATCH),
    "a batch cut short": (item(1, batch("a")[:-8]), errors_pb2.CORRUPT_BATCH),
    "two batches": (item(1, batch("a") * 2), errors_pb2.CORRUPT_BATCH),
    "too large a batch": (item(1, batch(size=2**21)), errors_pb2.BATCH_TOO_LARGE),
    "a control batch": (item(1, encode_batch([b"a"], timestamps=NOW_MS, control=True)), errors_pb2.INVALID_RECORD),
    "a time to come": (item(1, encode_batch([b"a"], timestamps=NOW_MS * 2)), errors_pb2.INVALID_TIMESTAMP),
    "an old leader epoch": (item(1, batch("a"), leader_epoch=4), errors_pb2.FENCED_LEADER_EPOCH),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_wrong_with_one_batch_is_told_and_ends_nothing_else(name: str) -> None:
    refused, code = REFUSALS[name]

    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        talk = await producing(node)
        await talk.say(request(item(0, batch("before"), 0, leader_epoch=5), refused, item(2, batch("after"))))
        results = {result.number: result for result in (await talk.hear()).results}
        assert results[1].error.code == code
        assert results[1].error.message
        assert [results[number].HasField("error") for number in (0, 2)] == [False, False]
        assert orders.values == [b"before", b"after"]
        await talk.say(request(item(3, batch("more"), leader_epoch=-1)))
        assert (await talk.hear()).results[0].base_offset == 2
        assert node.panics == []

    run()


@pytest.mark.parametrize(
    "fields",
    [{"acks": 9}, {"timeout_ms": -1}, {"timeout_ms": 10**6}],
    ids=["unknown acks", "negative timeout", "endless timeout"],
)
def test_a_message_that_makes_no_sense_has_all_its_batches_refused(fields: dict[str, int]) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        talk = await producing(node)
        await talk.say(request(item(1, batch("a")), item(2, batch("b")), **fields))
        results = (await talk.hear()).results
        assert [(result.number, result.error.code) for result in results] == [
            (1, errors_pb2.INVALID_REQUEST),
            (2, errors_pb2.INVALID_REQUEST),
        ]
        assert orders.values == []

    run()


@virtual
async def test_who_leads_instead_is_told_with_the_address() -> None:
    node = Node()
    orders = node.lead()
    orders.refusal = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads", leader_id=2, leader_epoch=6)
    talk = await producing(node)
    await talk.say(request(item(1, batch("a"))))
    error = (await talk.hear()).results[0].error
    assert (error.code, error.retriable) == (errors_pb2.NOT_LEADER, True)
    assert (error.leader_id, error.leader_address, error.leader_epoch) == (2, "broker-2:9092", 6)
    await talk.say(request(item(2, b"garbage")))  # is not even looked at
    assert (await talk.hear()).results[0].error.code == errors_pb2.NOT_LEADER


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OutOfOrderSequence("one is missing"), errors_pb2.OUT_OF_ORDER_SEQUENCE),
        (DiskFailed("/data", OSError("gone")), errors_pb2.STORAGE_FAILED),
        (ReplicaError(errors_pb2.NOT_ENOUGH_REPLICAS, "one of two"), errors_pb2.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_the_replica_refuses_is_told(error: Exception, code: int) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        node.lead().append_error = error
        talk = await producing(node)
        await talk.say(request(item(1, batch("a"))))
        assert (await talk.hear()).results[0].error.code == code

    run()


@virtual
async def test_an_append_that_fails_later_is_told_and_those_after_it_are_answered() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    talk = await producing(node)
    await talk.say(request(item(1, batch("a")), item(2, batch("b"))))
    await settle()
    orders.pending[0].settle(ReplicaError(errors_pb2.TIMED_OUT, "too slow"))
    orders.pending[1].settle()
    results = (await talk.hear_until(numbers)).results  # type: ignore[arg-type]
    assert [(result.number, result.error.code) for result in results] == [(1, errors_pb2.TIMED_OUT), (2, 0)]


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x1a\x05ab", b"\x1a" + b"\xff" * 200_000])
def test_a_message_that_cannot_be_read_ends_the_stream_and_not_the_node(data: bytes) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        talk = await producing(node)
        await talk.stream.send(data)
        assert detail_in(await talk.fails()).code == errors_pb2.INVALID_REQUEST
        assert node.panics == []
        again = Talk((await node.network.host("client").connect("node:1")).open(PRODUCE), pb.ProduceResponse)
        await again.say(request(item(1, batch("a"))))
        assert numbers(await again.hear()) == [1]
        assert orders.values == [b"a"]

    run()


@pytest.mark.parametrize("each", [item(1, b""), pb.ProduceRequest.Item()], ids=["large", "small"])
def test_a_message_of_too_many_batches_ends_the_stream(each: pb.ProduceRequest.Item) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        talk = await producing(node)
        await talk.say(request(*[each] * 10_001))
        assert detail_in(await talk.fails()).code == errors_pb2.INVALID_REQUEST

    run()


def test_a_bug_that_a_batch_finds_is_told_and_does_not_kill_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_arguments: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(admitting, "admit", stumble)

    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        talk = await producing(node)
        await talk.say(request(item(1, batch("a"))))
        error = (await talk.hear()).results[0].error
        assert (error.code, error.retriable) == (errors_pb2.INTERNAL, False)
        assert (node.panics, orders.values) == ([], [])

    run()


@pytest.mark.parametrize("is_later", [False, True])
def test_a_broken_invariant_of_the_replica_is_a_panic(is_later: bool) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders = node.lead()
        orders.is_held = is_later
        orders.append_error = None if is_later else AssertionError("the log went back")
        talk = await producing(node)
        await talk.say(request(item(1, batch("a"))))
        await settle()
        if is_later:
            orders.pending[0].settle(AssertionError("the log went back"))
        await talk.fails()
        assert len(node.panics) == 1

    run()


# -- conversion


def zstd_topic() -> LogConfig:
    return LogConfig(compression=Compression.ZSTD, max_message_bytes=2**22)


@virtual
async def test_what_takes_long_to_convert_keeps_its_place_and_holds_up_no_other_partition() -> None:
    node = Node()
    orders, others = node.lead(0, zstd_topic()), node.lead(1)
    talk = await producing(node)
    big = batch(size=500_000)
    await talk.say(
        request(item(1, big), item(2, batch("b")), item(3, big), item(4, batch("d")), item(5, batch("e"), 1))
    )
    assert numbers(await talk.hear()) == [5]
    assert others.values == [b"e"]
    heard: list[pb.ProduceResponse.Result] = []
    while len(heard) < 4:
        heard += (await talk.hear()).results
    assert [(result.number, result.base_offset) for result in heard] == [(1, 0), (2, 1), (3, 2), (4, 3)]
    assert [len(value or b"") for value in orders.values] == [500_000, 1, 500_000, 1]
    assert {parse_header(content).compression for _, _, content in orders.stored} == {Compression.ZSTD}


@virtual
async def test_one_that_cannot_be_converted_is_refused_and_those_behind_it_are_stored() -> None:
    node = Node()
    orders = node.lead(0, zstd_topic())
    talk = await producing(node)
    await talk.say(request(item(1, broken(batch(size=500_000))), item(2, batch("b")), item(3, batch(size=400_000))))
    heard: list[pb.ProduceResponse.Result] = []
    while len(heard) < 3:
        heard += (await talk.hear()).results
    assert [(result.number, result.error.code) for result in heard] == [(1, errors_pb2.CORRUPT_BATCH), (2, 0), (3, 0)]
    assert [len(value or b"") for value in orders.values] == [1, 400_000]


@virtual
async def test_leadership_lost_while_a_batch_is_converted_is_noticed() -> None:
    node = Node()
    orders = node.lead(0, zstd_topic())
    talk = await producing(node)
    orders.has_room.clear()
    await talk.say(request(item(1, batch(size=500_000))))
    await settle()
    orders.refusal = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads")
    orders.has_room.set()
    assert (await talk.hear()).results[0].error.code == errors_pb2.NOT_LEADER
    assert orders.values == []


@virtual
async def test_a_leader_epoch_that_ends_while_a_batch_is_converted_is_noticed() -> None:
    node = Node()
    orders = node.lead(0, zstd_topic())
    talk = await producing(node)
    orders.has_room.clear()
    await talk.say(request(item(1, batch(size=500_000), leader_epoch=orders.leader_epoch)))
    await settle()
    orders.leader_epoch += 1
    orders.has_room.set()
    assert (await talk.hear()).results[0].error.code == errors_pb2.FENCED_LEADER_EPOCH
    assert orders.values == []


@pytest.mark.parametrize(
    ("content", "config", "is_quick"),
    [
        (batch(size=2**20), LogConfig(), True),
        (batch(size=2**20), LogConfig(append_time=True), True),
        (batch(size=2**20), LogConfig(cleanup_compact=True), False),
        (batch("a"), LogConfig(cleanup_compact=True), True),
        (batch("a"), LogConfig(compression=Compression.LZ4), True),
        (batch(size=2**20), LogConfig(compression=Compression.LZ4), False),
        (batch(size=2**20), LogConfig(compression=Compression.NONE), True),
        (b"short", LogConfig(compression=Compression.LZ4), True),
    ],
)
def test_only_batches_that_are_opened_go_beside_the_loop(content: bytes, config: LogConfig, is_quick: bool) -> None:
    assert admitting.is_quick(content, config) is is_quick


def test_a_compressed_batch_that_is_opened_goes_beside_the_loop_however_small_it_is() -> None:
    bomb = encode_batch([bytes(2**20)], timestamps=NOW_MS, compression=Compression.ZSTD)
    assert len(bomb) < 1000
    assert decode_columns(bomb).values == [bytes(2**20)]
    assert not admitting.is_quick(bomb, LogConfig(cleanup_compact=True))
    assert not admitting.is_quick(bomb, LogConfig(compression=Compression.NONE))
    assert admitting.is_quick(bomb, LogConfig(compression=Compression.ZSTD))


# -- limits


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


# -- the end, and signs of life


@virtual
async def test_a_client_that_has_sent_its_last_gets_all_its_answers() -> None:
    node = Node()
    orders, converted = node.lead(0), node.lead(1, zstd_topic())
    orders.is_held = True
    talk = await producing(node)
    await talk.say(request(item(1, batch("a")), item(2, batch(size=500_000), 1)))
    await talk.stream.half_close()
    assert numbers(await talk.hear()) == [2]
    await talk.silence(1)
    orders.commit()
    assert numbers(await talk.hear_until(numbers)) == [1]  # type: ignore[arg-type]
    await talk.ends()
    assert len(converted.values) == 1


@virtual
async def test_where_answers_flow_no_signs_of_life_are_needed() -> None:
    node = Node()
    node.lead(0).is_held = True
    node.lead(1)
    talk = await producing(node)
    await talk.say(request(item(0, batch("a"), 0)))
    for number in range(1, 20):
        await talk.say(request(item(number, batch("b"), 1)))
        assert numbers(await talk.hear()) == [number]
        await settle(0.1)


@virtual
async def test_while_batches_wait_something_is_said_and_idle_streams_are_quiet() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    talk = await producing(node)
    await talk.say(request(item(1, batch("a"))))
    loop = asyncio.get_running_loop()
    last = loop.time()
    for _ in range(10):
        assert numbers(await talk.hear()) == []
        assert loop.time() - last < 0.6
        last = loop.time()
    orders.commit()
    await talk.hear_until(numbers)  # type: ignore[arg-type]
    await settle(1)
    receiving = asyncio.ensure_future(talk.stream.receive())
    await asyncio.wait([receiving], timeout=30)
    assert not receiving.done()
    receiving.cancel()
