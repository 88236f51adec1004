"""Batches come in, get their offsets in order, and are answered when they are safe."""

import asyncio

from support.log_services import Node, settle
from support.produce_talk import broken, item, numbers, producing, request
from support.raft_nodes import virtual
from support.served_replicas import NOW_MS, batch

from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.batch.codec import encode_batch, parse_header
from lograft.storage.batch.compression import Compression
from lograft.storage.log.log_config import LogConfig

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
