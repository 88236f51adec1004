"""What a producer is given is stored in order and its place told; what cannot be is refused, and too much waits."""

import asyncio
from typing import Any

import pytest
from support.fake_controllers import until
from support.fake_log_service import FakeCluster
from support.numbered_records import numbers, producing, send_all
from support.raft_nodes import virtual

from lograft.chaos.world.stream import VirtualCallStream
from lograft.clients import errors
from lograft.clients.producer.aio_producer import Producer
from lograft.clients.producer.pipeline import broker_stream as produce_line
from lograft.clients.producer.pipeline.options import ProducerKeywords
from lograft.proto import log_pb2 as pb
from lograft.storage.batch.codec import Compression


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
