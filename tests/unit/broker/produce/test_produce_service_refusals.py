"""What is wrong with a batch is told and ends nothing else; a message that cannot be read ends its stream."""

import pytest
from support.log_services import Node, Talk, detail_in, settle
from support.produce_talk import broken, item, numbers, producing, request
from support.raft_nodes import virtual
from support.served_replicas import NOW_MS, batch

from lograft.broker.produce import batch_admission as admitting
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.storage.batch.codec import encode_batch
from lograft.storage.errors import OutOfOrderSequence

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
    "a part of a transaction": (
        item(1, encode_batch([b"a"], timestamps=NOW_MS, transactional=True)),
        errors_pb2.INVALID_RECORD,
    ),
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
