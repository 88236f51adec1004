"""The producer against brokers that die, move, refuse and fall silent: what it was given is stored in order, once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from zlib import crc32

import pytest
from support.fake_controllers import until
from support.fake_log_service import FakeCluster, refused
from support.raft_nodes import virtual

from lograft.chaos.virtual_stream import VirtualCallStream
from lograft.clients import errors, produce_line
from lograft.clients.aio_producer import Producer
from lograft.clients.delivery import Delivery
from lograft.clients.producer_options import ProducerKeywords
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE
from lograft.storage.batch import Compression


@asynccontextmanager
async def producing(
    leaders: tuple[int, ...] = (1,), *, seed: int = 1, **options: object
) -> AsyncIterator[tuple[FakeCluster, Producer]]:
    cluster = FakeCluster(seed=seed)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    keywords: ProducerKeywords = options  # type: ignore[assignment]
    async with Producer(cluster.bootstrap, runtime=cluster.client, **keywords) as producer:
        yield cluster, producer


async def send_all(producer: Producer, first: int, last: int) -> list[Delivery]:
    return [await producer.send("orders", b"%d" % number, partition=0) for number in range(first, last)]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


@virtual
async def test_a_record_is_stored_and_its_place_told() -> None:
    async with producing((1, 2)) as (cluster, producer):
        delivery = await producer.send("orders", b"v", key=b"k", partition=1, timestamp=5, headers=[("a", b"1")])
        assert not delivery.done()
        assert await delivery == ("orders", 1, 0, 5)
        assert delivery.done()
        assert delivery.result().offset == 0
        assert delivery.exception() is None
    (record,) = cluster.log("orders", 1).values
    assert record == b"v"


@virtual
async def test_records_sent_together_travel_together_and_have_offsets_in_order() -> None:
    async with producing() as (cluster, producer):
        deliveries = await send_all(producer, 0, 100)
        await producer.flush()
        assert [delivery.result().offset for delivery in deliveries] == list(range(100))
    assert cluster.log("orders").values == numbers(0, 100)
    assert len(cluster.log("orders").batches) <= 3


@virtual
async def test_a_batch_lingers_for_more_records_unless_it_is_full_or_flushed() -> None:
    async with producing(linger_ms=500, batch_bytes=1000) as (cluster, producer):
        clock = cluster.client.clock
        started_ms = clock.monotonic_ms()
        await (await producer.send("orders", b"x"))
        assert clock.monotonic_ms() - started_ms >= 500
        started_ms = clock.monotonic_ms()
        await asyncio.gather(*[await producer.send("orders", bytes(300), partition=0) for _ in range(3)][:2])
        assert clock.monotonic_ms() - started_ms < 400
        started_ms = clock.monotonic_ms()
        await producer.send("orders", b"y")
        await producer.flush()
        assert clock.monotonic_ms() - started_ms < 400


@virtual
async def test_leaving_the_block_delivers_what_was_sent() -> None:
    async with producing(linger_ms=10_000) as (cluster, producer):
        delivery = await producer.send("orders", b"v")
    assert cluster.log("orders").values == [b"v"]
    assert delivery.result().offset == 0


@virtual
async def test_callbacks_are_told_once_the_fate_is_known() -> None:
    async with producing() as (_, producer):
        told: list[int] = []
        delivery = await producer.send("orders", b"v")
        delivery.add_done_callback(lambda done: told.append(done.result().offset))
        assert not told
        await delivery
        await asyncio.sleep(0)
        delivery.add_done_callback(lambda done: told.append(done.result().offset))
        await asyncio.sleep(0)
        assert told == [0, 0]


# -- partitions


@virtual
async def test_the_same_key_goes_to_the_same_partition_by_crc_32() -> None:
    async with producing((1, 2, 3)) as (_, producer):
        places = [(await (await producer.send("orders", b"v", key=key))).partition for key in (b"a", b"b", b"c", b"a")]
    # CRC-32 of a, b and c is 0xe8b7be43, 0x71beeff9 and 0x06b9df6f.
    assert places == [0xE8B7BE43 % 3, 0x71BEEFF9 % 3, 0x06B9DF6F % 3, 0xE8B7BE43 % 3]


@virtual
async def test_records_without_a_key_stay_together_for_a_batch_and_then_go_elsewhere() -> None:
    async with producing((1, 2, 3)) as (_, producer):
        places = []
        for _ in range(30):
            deliveries = [await producer.send("orders", b"v") for _ in range(10)]
            partitions = {(await delivery).partition for delivery in deliveries}
            assert len(partitions) == 1
            places += partitions
    assert set(Counter(places)) == {0, 1, 2}


@virtual
async def test_partitions_that_are_added_are_used_at_once_with_and_without_keys() -> None:
    async with producing((1,)) as (cluster, producer):
        clock = cluster.client.clock
        before = [await (await producer.send("orders", b"v", key=b"%d" % number)) for number in range(10)]
        assert {stored.partition for stored in before} == {0}
        cluster.add_partition("orders", 2)
        cluster.add_partition("orders", 3)
        added_ms = clock.monotonic_ms()
        while await producer.partitions_for("orders") < 3:
            await (await producer.send("orders", b"v"))
        assert clock.monotonic_ms() - added_ms < 1000, "its source of metadata says so by itself"
        keyed = [await (await producer.send("orders", b"v", key=b"%d" % number)) for number in range(30)]
        assert [stored.partition for stored in keyed] == [crc32(b"%d" % number) % 3 for number in range(30)]
        sticky = [await (await producer.send("orders", b"v")) for _ in range(30)]
        assert {stored.partition for stored in sticky} == {0, 1, 2}


@virtual
async def test_partitions_that_are_added_are_noticed_though_the_broker_that_is_followed_is_behind() -> None:
    async with producing((1,)) as (cluster, producer):
        await (await producer.send("orders", b"v"))
        clock = cluster.client.clock
        await until(lambda: producer._cluster._watched is not None)
        (followed,) = [number for number, at in cluster.addresses.items() if at == producer._cluster._watched]
        cluster.brokers[followed].is_behind = True
        cluster.add_partition("orders", 2)
        added_ms = clock.monotonic_ms()
        places = {0}
        while places == {0}:
            places |= {(await (await producer.send("orders", b"v"))).partition}
        assert clock.monotonic_ms() - added_ms < 20_000, "another is asked now and then"


@virtual
async def test_a_partitioner_of_ones_own_decides_and_none_leaves_it_to_the_key() -> None:
    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int | None:
        assert (topic, count) == ("orders", 3)
        return None if value == b"default" else 2

    async with producing((1, 2, 3), partitioner=choose) as (_, producer):
        assert (await (await producer.send("orders", b"v", key=b"a"))).partition == 2
        assert (await (await producer.send("orders", b"default", key=b"b"))).partition == 0x71BEEFF9 % 3


# -- what it refuses


@virtual
async def test_a_topic_or_partition_that_is_not_there_is_named_at_once() -> None:
    async with producing() as (_, producer):
        with pytest.raises(errors.UnknownTopic, match="nonsense"):
            await producer.send("nonsense", b"v")
        with pytest.raises(errors.UnknownPartition, match="partition 7"):
            await producer.send("orders", b"v", partition=7)


@virtual
async def test_a_topic_that_a_broker_has_not_heard_of_yet_is_found_all_the_same() -> None:
    async with producing() as (cluster, producer):
        for broker in cluster.brokers.values():
            broker.is_behind = True
        cluster.create_topic("fresh", [2])
        assert (await (await producer.send("fresh", b"v"))).topic == "fresh"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"value": "text"}, "value is of type str"),
        ({"value": b"v", "key": 5}, "key is of type int"),
        ({"value": b"v", "headers": [("a", "b")]}, "not a header"),
    ],
)
@virtual
async def test_what_is_not_bytes_is_refused(arguments: dict[str, object], complaint: str) -> None:
    async with producing() as (_, producer):
        with pytest.raises(errors.InvalidArgument, match=complaint):
            await producer.send("orders", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"acks": "some"}, "acks"),
        ({"compression": "rar"}, "rar"),
        ({"delivery_timeout_ms": 3_600_001}, "one hour"),
        ({"batch_bytes": 0}, "batch_bytes"),
        ({"batch_bytes": 64 * 1024 * 1024}, "batch_bytes"),
        ({"batch_bytes": "large"}, "batch_bytes"),
        ({"linger_ms": None}, "linger_ms"),
        ({"partitioner": 5}, "partitioner"),
        ({"client_id": 5}, "client_id"),
        ({"linger_ms": -1}, "linger_ms"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: ProducerKeywords, complaint: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=complaint):
        Producer("localhost", **options)


@virtual
async def test_nobody_there_is_told_with_the_reasons_once_the_time_is_over() -> None:
    cluster = FakeCluster()
    async with Producer(["broker-1:9092", "elsewhere:1"], runtime=cluster.client, max_block_ms=2000) as producer:
        with pytest.raises(errors.NoBrokerAvailable, match=r"2000 ms \(.*broker-1:9092: connection refused"):
            await producer.send("orders", b"v")
    assert cluster.client.clock.monotonic_ms() < 3000


@virtual
async def test_a_closed_producer_says_so() -> None:
    async with producing() as (_, producer):
        pass
    with pytest.raises(errors.ClientClosed, match="closed"):
        await producer.send("orders", b"v")
    with pytest.raises(errors.ClientClosed, match="not started"):
        await Producer("localhost").send("orders", b"v")


# -- back-pressure


@virtual
async def test_a_full_buffer_blocks_until_there_is_room_or_patience_ends() -> None:
    async with producing(buffer_bytes=3000, max_block_ms=1000) as (cluster, producer):
        await (await producer.send("orders", b"first"))
        cluster.brokers[1].answers.clear()
        held = [await producer.send("orders", bytes(1000)) for _ in range(2)]
        started_ms = cluster.client.clock.monotonic_ms()
        with pytest.raises(errors.BufferFull, match="3000 bytes"):
            await producer.send("orders", bytes(1000))
        assert cluster.client.clock.monotonic_ms() - started_ms == 1000
        waiting = asyncio.ensure_future(producer.send("orders", bytes(1000)))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        cluster.brokers[1].answers.set()
        held.append(await waiting)
        assert [(await delivery).offset for delivery in held] == [1, 2, 3]


@virtual
async def test_a_record_larger_than_the_buffer_goes_alone() -> None:
    async with producing(buffer_bytes=1000) as (_, producer):
        assert (await (await producer.send("orders", bytes(5000)))).offset == 0


@virtual
async def test_no_more_than_five_batches_of_a_partition_are_under_way() -> None:
    async with producing(batch_bytes=300) as (cluster, producer):
        await (await producer.send("orders", b"first"))
        broker = cluster.brokers[1]
        broker.answers.clear()
        await send_all(producer, 0, 200)
        await asyncio.sleep(0.5)
        assert sum(len(request.items) for request in broker.requests) == 1 + 5
        broker.answers.set()
        await producer.flush()
        assert cluster.log("orders").values[1:] == numbers(0, 200)


@virtual
async def test_a_batch_too_large_to_go_with_others_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they might be more than a stream carries, which would be refused again and again."""
    monkeypatch.setattr(produce_line, "MAX_MESSAGE_BYTES", 1000)
    async with producing((1, 1, 1), linger_ms=5) as (cluster, producer):
        for value, partition in ((bytes(500), 0), (bytes(5000), 1), (bytes(500), 2)):
            await producer.send("orders", value, partition=partition)
        await producer.flush()
        together = [sorted(item.partition for item in request.items) for request in cluster.brokers[1].requests]
        assert together == [[0], [1], [2]]


# -- acknowledgements and formats


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@virtual
async def test_batches_are_compressed_as_asked(compression: str) -> None:
    async with producing(compression=compression) as (cluster, producer):
        await send_all(producer, 0, 50)
        await producer.flush()
        log = cluster.log("orders")
        assert log.values == numbers(0, 50)
        assert {header.compression for header, _ in log.batches} == {Compression.from_name(compression)}


@virtual
async def test_without_acknowledgements_records_are_sent_and_nobody_waits() -> None:
    async with producing(acks=0) as (cluster, producer):
        delivery = await producer.send("orders", b"v")
        assert (await delivery).offset == -1
        await until(lambda: cluster.log("orders").values == [b"v"])
        assert cluster.brokers[1].requests[0].acks == pb.ACKS_NONE
        assert cluster.log("orders").batches[0][0].producer_id == -1


@virtual
async def test_without_acknowledgements_nothing_is_sent_twice() -> None:
    """It has no sequence: what may have been stored once would be stored again."""
    async with producing(acks=0) as (cluster, producer):
        await (await producer.send("orders", b"0"))
        (line,) = producer._sender._lines.values()
        waiting = asyncio.Event()
        send = VirtualCallStream.send

        async def send_and_break(stream: VirtualCallStream, message: bytes) -> None:
            await send(stream, message)
            waiting.set()
            await asyncio.Event().wait()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(VirtualCallStream, "send", send_and_break)
            delivery = await producer.send("orders", b"1")
            await waiting.wait()
            await asyncio.sleep(0.1)
        cluster.network.break_connections("client", "broker-1")
        with pytest.raises(errors.ConnectionLost) as caught:
            await delivery
        assert caught.value.outcome_unknown
        await (await producer.send("orders", b"2"))
        await until(lambda: b"2" in cluster.log("orders").values)
        assert cluster.log("orders").values == numbers(0, 3)
        assert not line._under_way


@virtual
async def test_a_record_that_expires_while_it_is_compressed_leaves_nothing_behind() -> None:
    async with producing(compression="lz4", delivery_timeout_ms=100) as (cluster, producer):
        await (await producer.send("orders", b"0"))
        (line,) = producer._sender._lines.values()
        run_blocking = cluster.client.blocking.run_blocking

        async def slowly(*work: Any) -> Any:
            await asyncio.sleep(1)
            return await run_blocking(*work)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster.client.blocking, "run_blocking", slowly)
            with pytest.raises(errors.DeliveryTimedOut):
                await (await producer.send("orders", b"1"))
            await asyncio.sleep(2)
        assert not line._under_way
        assert (await (await producer.send("orders", b"2"))).offset == 1


@virtual
async def test_producers_are_idempotent_with_ids_of_their_own() -> None:
    async with producing(acks=1) as (cluster, producer):
        await (await producer.send("orders", b"v"))
        header, _ = cluster.log("orders").batches[0]
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1001, 0, 0)
        assert cluster.brokers[1].requests[0].acks == pb.ACKS_LEADER


# -- when things go wrong


@virtual
async def test_a_leader_that_moved_is_followed_by_the_hint_in_its_refusal() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.move_leader("orders", 0, 2, tells=False)
        delivery = await producer.send("orders", b"1")
        assert (await delivery).offset == 1
        assert cluster.brokers[2].requests


@virtual
async def test_batches_in_flight_to_a_dead_leader_go_to_the_next_one() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        deliveries = await send_all(producer, 1, 10)
        await until(lambda: len(cluster.log("orders").values) == 10)
        cluster.kill(1)
        await asyncio.sleep(0.3)
        cluster.move_leader("orders", 0, 3)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 10))
        assert cluster.log("orders").values == numbers(0, 10)


@virtual
async def test_what_one_leader_does_not_answer_goes_to_the_next_as_soon_as_there_is_one() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        deliveries = await send_all(producer, 1, 5)
        await asyncio.sleep(5)
        assert not any(delivery.done() for delivery in deliveries)
        started_ms = cluster.client.clock.monotonic_ms()
        cluster.move_leader("orders", 0, 2)
        await producer.flush()
        assert cluster.client.clock.monotonic_ms() - started_ms < 200
        assert [delivery.result().offset for delivery in deliveries] == [1, 2, 3, 4]
        assert cluster.log("orders").values == numbers(0, 5)


@virtual
async def test_a_new_leader_is_tried_at_once_however_long_the_last_one_refused() -> None:
    async with producing() as (cluster, producer):
        refusals = 0

        def refuse(_: pb.ProduceRequest.Item) -> None:
            nonlocal refusals
            refusals += 1
            raise refused(errors_pb2.NOT_ENOUGH_REPLICAS)

        cluster.brokers[1].before_append = refuse
        delivery = await producer.send("orders", b"0")
        await asyncio.sleep(5)
        before = refusals
        await until(lambda: refusals > before)
        await asyncio.sleep(0.05)
        started_ms = cluster.client.clock.monotonic_ms()
        cluster.move_leader("orders", 0, 2)
        await delivery
        assert cluster.client.clock.monotonic_ms() - started_ms < 200


@virtual
async def test_a_stream_that_is_silent_is_given_up_and_what_was_on_it_sent_again() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.cut_off(1)
        delivery = await producer.send("orders", b"1")
        await asyncio.sleep(4)
        cluster.heal()
        assert (await delivery).offset == 1
        assert cluster.log("orders").values == numbers(0, 2)
        assert cluster.brokers[1].streams.count(PRODUCE) >= 2


@virtual
async def test_a_stream_with_nothing_to_answer_may_be_silent() -> None:
    async with producing() as (cluster, producer):
        for number in range(3):
            assert (await (await producer.send("orders", b"%d" % number))).offset == number
            await asyncio.sleep(10)
        assert cluster.brokers[1].streams == [PRODUCE]


@virtual
async def test_a_partition_without_a_leader_waits_for_one() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.move_leader("orders", 0, None)
        delivery = await producer.send("orders", b"1")
        await asyncio.sleep(5)
        assert not delivery.done()
        cluster.move_leader("orders", 0, 3)
        assert (await delivery).offset == 1


@virtual
async def test_an_answer_that_says_unknown_is_asked_for_again_and_the_batch_is_there_once() -> None:
    async with producing() as (cluster, producer):
        lies = iter([errors_pb2.TIMED_OUT, errors_pb2.NOT_ENOUGH_REPLICAS_AFTER_APPEND])

        def lie(_: pb.ProduceRequest.Item) -> None:
            code = next(lies, None)
            if code is not None:
                raise refused(code)

        cluster.brokers[1].after_append = lie
        assert (await (await producer.send("orders", b"0"))).offset == 0
        assert len(cluster.brokers[1].requests) == 3
        assert cluster.log("orders").values == [b"0"]


@virtual
async def test_a_record_that_is_refused_fails_and_those_behind_it_are_stored() -> None:
    async with producing(batch_bytes=200) as (cluster, producer):

        def refuse(item: pb.ProduceRequest.Item) -> None:
            if b"bad" in item.batch:
                raise refused(errors_pb2.INVALID_RECORD, "no key in a compacted topic")

        cluster.brokers[1].before_append = refuse
        bad = await producer.send("orders", b"bad" + bytes(100))
        good = [await producer.send("orders", b"%d" % number + bytes(100)) for number in range(10)]
        with pytest.raises(errors.InvalidRecord, match="compacted") as caught:
            await bad
        assert not caught.value.outcome_unknown
        assert [(await delivery).offset for delivery in good] == list(range(10))


@virtual
async def test_a_batch_over_the_topics_limit_is_split() -> None:
    async with producing(linger_ms=5) as (cluster, producer):

        def limit(item: pb.ProduceRequest.Item) -> None:
            if len(item.batch) > 500:
                raise refused(errors_pb2.BATCH_TOO_LARGE)

        cluster.brokers[1].before_append = limit
        deliveries = await send_all(producer, 0, 100)
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))
        assert cluster.log("orders").values == numbers(0, 100)
        assert all(header.total_bytes <= 500 for header, _ in cluster.log("orders").batches)
        too_large = await producer.send("orders", bytes(1000))
        with pytest.raises(errors.BatchTooLarge):
            await too_large


@virtual
async def test_a_record_not_acknowledged_in_time_says_whether_it_may_be_stored_and_why() -> None:
    async with producing(delivery_timeout_ms=2000) as (cluster, producer):
        await (await producer.send("orders", b"0"))

        def refuse(_: pb.ProduceRequest.Item) -> None:
            raise refused(errors_pb2.NOT_ENOUGH_REPLICAS, "1 of 2 in sync")

        cluster.brokers[1].before_append = refuse
        with pytest.raises(errors.DeliveryTimedOut, match="1 of 2 in sync") as caught:
            await (await producer.send("orders", b"1"))
        assert not caught.value.outcome_unknown
        cluster.brokers[1].before_append = lambda _: None
        cluster.brokers[1].answers.clear()
        with pytest.raises(errors.DeliveryTimedOut) as caught:
            await (await producer.send("orders", b"2"))
        assert caught.value.outcome_unknown
        cluster.brokers[1].answers.set()
        assert (await (await producer.send("orders", b"3"))).offset == 2
        assert cluster.log("orders").values == [b"0", b"2", b"3"]


@virtual
async def test_a_broker_that_cannot_be_reached_is_named_by_who_waited_in_vain() -> None:
    async with producing(delivery_timeout_ms=2000) as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.kill(1)
        with pytest.raises(errors.DeliveryTimedOut, match=r"broker 1: .*refused"):
            await (await producer.send("orders", b"1"))


@virtual
async def test_records_for_a_topic_that_is_deleted_fail_and_one_of_its_name_is_another() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"old"))
        cluster.move_leader("orders", 0, None)
        waiting = await producer.send("orders", b"lost")
        await asyncio.sleep(0.1)
        cluster.delete_topic("orders")
        with pytest.raises(errors.UnknownTopicId, match="deleted"):
            await waiting
        with pytest.raises(errors.UnknownTopic):
            await producer.send("orders", b"too late")
        cluster.create_topic("orders", [2])
        assert (await (await producer.send("orders", b"new"))).offset == 0
        assert cluster.log("orders").values == [b"new"]


@virtual
async def test_metadata_is_followed_when_the_watched_broker_is_cut_off_from_it() -> None:
    """The broker that tells us of leaders hears nothing itself; every five seconds another one is asked."""
    async with producing((1, 2, 3)) as (cluster, producer):
        for number in range(3):
            await (await producer.send("orders", b"0", partition=number))
        for number in (1, 2):
            cluster.brokers[number].is_behind = True
        cluster.kill(3)
        cluster.brokers[1].is_behind = False
        cluster.move_leader("orders", 2, 1)
        started_ms = cluster.client.clock.monotonic_ms()
        await (await producer.send("orders", b"1", partition=2))
        assert cluster.client.clock.monotonic_ms() - started_ms < 15_000


@virtual
async def test_partitions_that_are_added_can_be_used_at_once_and_are() -> None:
    async with producing() as (cluster, producer):
        assert await producer.partitions_for("orders") == 1
        for broker in cluster.brokers.values():
            broker.is_behind = True
        cluster.add_partition("orders", 2)
        assert (await (await producer.send("orders", b"v", partition=1))).partition == 1
        assert await producer.partitions_for("orders") == 2
        assert {(await (await producer.send("orders", b"v"))).partition for _ in range(20)} == {0, 1}


@virtual
async def test_closing_with_no_time_fails_what_is_left_and_says_what_may_be_stored() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        delivery = await producer.send("orders", b"1")
        await until(lambda: len(cluster.log("orders").values) == 2)
        await producer.close(timeout=0.1)
        with pytest.raises(errors.ClientClosed) as caught:
            delivery.result()
        assert caught.value.outcome_unknown
        with pytest.raises(errors.ClientClosed):
            await producer.flush()


@virtual
async def test_a_flush_that_takes_too_long_says_so_and_may_be_repeated() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        delivery = await producer.send("orders", b"1")
        with pytest.raises(errors.TimedOut):
            await producer.flush(timeout=0.2)
        cluster.brokers[1].answers.set()
        await producer.flush(timeout=5)
        assert delivery.done()


# -- anything at any time


class Chaos:
    """Refuses, lies about what it stored, moves leaders, kills and cuts off brokers."""

    def __init__(self, cluster: FakeCluster, dice: Random, partitions: int) -> None:
        self._cluster = cluster
        self._dice = dice
        self._partitions = partitions
        self.is_over = False
        for broker in cluster.brokers.values():
            broker.before_append, broker.after_append = self._before, self._after

    def _before(self, _: pb.ProduceRequest.Item) -> None:
        if not self.is_over and self._dice.random() < 0.1:
            code = self._dice.choice([errors_pb2.NOT_ENOUGH_REPLICAS, errors_pb2.UNKNOWN_LEADER_EPOCH])
            raise refused(code)

    def _after(self, _: pb.ProduceRequest.Item) -> None:
        if not self.is_over and self._dice.random() < 0.1:
            code = self._dice.choice([errors_pb2.TIMED_OUT, errors_pb2.NOT_LEADER, errors_pb2.STORAGE_FAILED])
            raise refused(code)

    async def run(self) -> None:
        cluster, dice = self._cluster, self._dice
        while not self.is_over:
            await asyncio.sleep(dice.uniform(0.01, 0.5))
            match dice.choice(["move", "move", "move", "break", "cut", "heal", "hold", "answer", "restart"]):
                case "move":
                    leader = dice.choice([1, 2, 3, 3, None])
                    cluster.move_leader("orders", dice.randrange(self._partitions), leader, tells=dice.random() < 0.8)
                case "break":
                    cluster.network.break_connections("client", f"broker-{dice.randint(1, 3)}")
                case "cut":
                    cluster.cut_off(dice.randint(1, 3))
                case "heal":
                    cluster.heal()
                case "hold":
                    dice.choice(list(cluster.brokers.values())).answers.clear()
                case "answer":
                    dice.choice(list(cluster.brokers.values())).answers.set()
                case "restart":
                    number = dice.randint(1, 3)
                    cluster.kill(number)
                    await asyncio.sleep(dice.uniform(0, 1))
                    await cluster.start(number)
                    broker = cluster.brokers[number]
                    broker.before_append, broker.after_append = self._before, self._after

    def end(self) -> None:
        self.is_over = True
        self._cluster.heal()
        for broker in self._cluster.brokers.values():
            broker.answers.set()
        for number in range(self._partitions):
            self._cluster.move_leader("orders", number, self._dice.randint(1, 3))


@pytest.mark.parametrize("seed", range(12))
@virtual
async def test_under_any_faults_all_is_stored_in_order_and_once(seed: int) -> None:
    dice = Random(seed)
    compression = dice.choice(["none", "lz4"])
    async with producing((1, 2), seed=seed, batch_bytes=400, compression=compression) as (cluster, producer):
        await (await producer.send("orders", b"0-0", partition=0))
        await (await producer.send("orders", b"1-0", partition=1))
        chaos = Chaos(cluster, dice, partitions=2)
        running = asyncio.ensure_future(chaos.run())
        sent: dict[int, list[Delivery]] = {0: [], 1: []}
        for number in range(1, 300):
            for partition, deliveries in sent.items():
                value = b"%d-%d" % (partition, number)
                deliveries.append(await producer.send("orders", value, partition=partition))
            if dice.random() < 0.2:
                await asyncio.sleep(dice.uniform(0, 0.3))
        chaos.end()
        await running
        chaos.end()
        await producer.flush(timeout=60)
        for partition, deliveries in sent.items():
            assert [delivery.result().offset for delivery in deliveries] == list(range(1, 300))
            expected = [b"%d-%d" % (partition, number) for number in range(300)]
            assert cluster.log("orders", partition).values == expected
