"""Many records at once: as lists, as Arrow, as tables; what becomes of them is told of each and of all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from support.fake_log_service import FakeCluster, refused
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.producer.aio_producer import Producer
from lograft.clients.producer.delivery_results import StoredRange
from lograft.clients.records.validation import MAX_RECORD_BYTES
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb


@asynccontextmanager
async def producing(leaders: tuple[int, ...] = (1,), **options: Any) -> AsyncIterator[tuple[FakeCluster, Producer]]:
    cluster = FakeCluster(seed=1)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    async with Producer(cluster.bootstrap, runtime=cluster.client, **options) as producer:
        yield cluster, producer


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("given", [list, lambda values: pa.array(values, pa.binary())], ids=["list", "arrow"])
@virtual
async def test_many_records_are_stored_in_order_beside_others(given: Any, compression: str) -> None:
    async with producing(batch_bytes=5000, compression=compression) as (cluster, producer):
        await producer.send("orders", b"before")
        deliveries = await producer.send_many("orders", given(numbers(2000)), timestamps=5)
        await producer.send("orders", b"after")
        assert await deliveries == [StoredRange("orders", 0, 1, 2000)]
        assert deliveries[1999].result() == ("orders", 0, 2000, 5)
        assert deliveries[-1].result().offset == 2000
        assert [each.result().offset for each in deliveries] == list(range(1, 2001))
        with pytest.raises(IndexError):
            _ = deliveries[2000]
        await producer.flush()
        assert cluster.log("orders").values == [b"before", *numbers(2000), b"after"]


@virtual
async def test_keys_decide_as_they_do_for_one_record() -> None:
    async with producing((1, 2, 3)) as (cluster, producer):
        keys = numbers(1000)
        for values, own_keys in ((numbers(1000), keys), (pa.array(numbers(1000)), pa.array(keys))):
            deliveries = await producer.send_many("orders", values, keys=own_keys)
            ranges = await deliveries
            assert sum(each.count for each in ranges) == 1000
            places = [each.result().partition for each in deliveries]
            assert places == [crc32(key) % 3 for key in keys]
        for partition in range(3):
            mine = [value for value in numbers(1000) if crc32(value) % 3 == partition]
            assert cluster.log("orders", partition).values == mine * 2


@virtual
async def test_a_table_says_all_of_its_records() -> None:
    async with producing((1, 2)) as (cluster, producer):
        headers = pa.array(
            [[{"key": "a", "value": b"1"}], [], None], pa.list_(pa.struct({"key": "str", "value": "binary"}))
        )
        table = pa.table(
            {
                "value": pa.array(["x", None, "z"]),
                "key": pa.array([b"k", None, b"m"]),
                "timestamp": pa.array([1, 2, 3], pa.timestamp("ms")),
                "partition": pa.array([1, 0, 1]),
                "headers": headers,
            }
        )
        deliveries = await producer.send_many("orders", table)
        await deliveries
        assert [each.result()[1:] for each in deliveries] == [(1, 0, 1), (0, 0, 2), (1, 1, 3)]
        assert cluster.log("orders", 1).values == [b"x", b"z"]
        assert cluster.log("orders", 0).values == [None]
        for batch in table.to_batches():
            assert sum(each.count for each in await (await producer.send_many("orders", batch))) == 3


@virtual
async def test_some_columns_may_be_lists_and_others_arrows() -> None:
    async with producing((1, 2, 3)) as (cluster, producer):
        headers: list[list[tuple[str, bytes | None]]] = [[("a", b"1")], []]
        deliveries = await producer.send_many("orders", pa.array(["x", "y"]), keys=[b"a", None], headers=headers)
        await deliveries
        assert deliveries[0].result().partition == 0xE8B7BE43 % 3
        await producer.send_many("orders", [b"z"], keys=pa.array([b"a"]))
        await producer.flush()
        assert cluster.log("orders", 0xE8B7BE43 % 3).values[-1] == b"z"


@virtual
async def test_no_records_at_all_are_soon_delivered() -> None:
    async with producing() as (_, producer):
        for nothing in ([], pa.array([], pa.binary())):  # type: ignore[var-annotated]
            deliveries = await producer.send_many("orders", nothing)
            assert (len(deliveries), deliveries.done(), await deliveries) == (0, True, [])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"values": [b"a", "b"]}, r"values\[1\] is of type str"),
        ({"values": b"ab"}, "values is of type bytes: give a list"),
        ({"values": 5}, "values is of type int"),
        ({"values": [b"a"], "keys": [b"a", b"b"]}, "1 values, and 2 keys"),
        ({"values": [b"a"], "keys": [1]}, r"keys\[0\] is of type int"),
        ({"values": [b"a"], "timestamps": [1, 2]}, "1 values, and 2 timestamps"),
        ({"values": [b"a"], "timestamps": [-1]}, "timestamp is -1"),
        ({"values": [b"a"], "timestamps": [None]}, "timestamp is None"),
        ({"values": [b"a"], "timestamps": -1}, "timestamp is -1"),
        ({"values": [b"a"], "headers": [[("a", "b")]]}, "not a header"),
        ({"values": [b"a"], "headers": []}, "1 values, and 0 headers"),
        ({"values": [b"a"], "partition": "0"}, "partition is '0'"),
        ({"values": pa.array([1])}, "cannot be sent"),
        ({"values": pa.array([b"a"]), "keys": pa.array([b"a", b"b"])}, "1 values, and 2 keys"),
        ({"values": pa.array([b"a"]), "timestamps": pa.array([None], pa.int64())}, "a timestamp is null"),
        ({"values": pa.array([b"a"]), "timestamps": pa.array([-5])}, "timestamp is -5"),
        ({"values": pa.array([b"a"]), "keys": ["text"]}, r"keys\[0\] is of type str"),
        ({"values": pa.array([b"a"]), "headers": [[("a", 5)]]}, "not a header"),
        ({"values": pa.table({"value": [b"a"], "offset": [1]})}, "a column 'offset'"),
        ({"values": pa.table({"key": [b"a"]})}, "no column 'value'"),
        ({"values": pa.table({"value": [b"a"]}), "keys": [b"a"]}, "columns of the table"),
    ],
)
@virtual
async def test_what_cannot_be_sent_is_named_and_none_of_it_is_taken(arguments: Any, complaint: str) -> None:
    async with producing() as (cluster, producer):
        with pytest.raises(errors.InvalidArgument, match=complaint):
            await producer.send_many("orders", **arguments)
        await producer.flush()
        assert cluster.log("orders").values == []


@virtual
async def test_a_record_too_large_for_any_batch_keeps_the_others_from_being_taken() -> None:
    async with producing() as (cluster, producer):
        values = [b"a", bytes(MAX_RECORD_BYTES), b"b"]
        for given in (values, pa.array(values)):
            with pytest.raises(errors.BatchTooLarge):
                await producer.send_many("orders", given)
        await producer.flush()
        assert cluster.log("orders").values == []


@virtual
async def test_an_unknown_topic_or_partition_is_named_at_once() -> None:
    async with producing() as (_, producer):
        with pytest.raises(errors.UnknownTopic, match="nonsense"):
            await producer.send_many("nonsense", [b"v"])
        with pytest.raises(errors.UnknownPartition, match="partition 7"):
            await producer.send_many("orders", [b"v"], partition=7)
        with pytest.raises(errors.UnknownPartition, match="partition -1"):
            await producer.send_many("orders", pa.table({"value": [b"a", b"b"], "partition": [0, -1]}))


@virtual
async def test_more_than_the_buffer_holds_is_taken_bit_by_bit_and_what_was_taken_is_told() -> None:
    async with producing(buffer_bytes=20_000, batch_bytes=2000, max_block_ms=500) as (cluster, producer):
        values = [b"%05d" % number + bytes(95) for number in range(1000)]
        assert await (await producer.send_many("orders", values)) == [StoredRange("orders", 0, 0, 1000)]
        assert cluster.log("orders").values == values
        cluster.brokers[1].answers.clear()
        with pytest.raises(errors.BufferFull, match=r"\d+ of 1000 records were taken") as caught:
            await producer.send_many("orders", pa.array(values))
        taken = caught.value.taken
        assert 0 < len(taken) < 200
        cluster.brokers[1].answers.set()
        assert await taken == [StoredRange("orders", 0, 1000, len(taken))]
        await producer.flush()
        assert cluster.log("orders").values == values + values[: len(taken)]


@virtual
async def test_if_some_fail_the_error_tells_how_many_and_why() -> None:
    async with producing((1, 2)) as (cluster, producer):

        def refuse(_: pb.ProduceRequest.Item) -> None:
            raise refused(errors_pb2.INVALID_RECORD, "no key")

        cluster.brokers[2].before_append = refuse
        table = pa.table({"value": numbers(10), "partition": [0, 1] * 5})
        deliveries = await producer.send_many("orders", table)
        told: list[Any] = []
        deliveries.add_done_callback(told.append)
        with pytest.raises(asyncio.InvalidStateError):
            deliveries.result()
        with pytest.raises(errors.InvalidRecord, match=r"5 of 10 records: .*no key") as caught:
            await deliveries
        assert not caught.value.outcome_unknown
        assert [each.exception() is None for each in deliveries] == [True, False] * 5
        await asyncio.sleep(0)
        assert told == [deliveries]


@virtual
async def test_serializers_make_bytes_of_keys_and_values() -> None:
    async with producing(key_serializer="string", value_serializer="json") as (cluster, producer):
        await producer.send("orders", {"a": 1}, key="k")
        await producer.send("orders", None)
        await producer.send_many("orders", [[1], "two"], keys=["a", None])
        await producer.send_many("orders", pa.array([{"b": 2}]), keys=pa.array(["c"]))
        await producer.flush()
        assert cluster.log("orders").values == [b'{"a":1}', None, b"[1]", b'"two"', b'{"b":2}']
        with pytest.raises(errors.SerializationError, match="the value of a record for topic 'orders'"):
            await producer.send("orders", object())
        with pytest.raises(errors.SerializationError, match="the key of a record for topic 'orders'"):
            await producer.send_many("orders", [1, 2], keys=["a", 5])


@virtual
async def test_metrics_count_what_was_sent_and_what_became_of_it() -> None:
    async with producing(compression="gzip", buffer_bytes=100_000) as (cluster, producer):
        before = producer.metrics()
        assert (before.records_sent, before.buffer_bytes, before.buffer_limit_bytes) == (0, 0, 100_000)
        deliveries = await producer.send_many("orders", [bytes(100)] * 400)
        assert producer.metrics().buffer_bytes > 40_000
        await deliveries
        after = producer.metrics()
        assert (after.records_sent, after.records_acknowledged, after.records_failed) == (400, 400, 0)
        assert after.batches_sent == 1
        assert after.batch_records == 400
        assert after.compression_ratio > 5
        assert after.request_latency.count == 1
        assert (after.buffer_bytes, after.batch_retries) == (0, 0)
        assert after.records_per_second > 0
        failures = [errors_pb2.NOT_ENOUGH_REPLICAS, errors_pb2.INVALID_RECORD]

        def refuse(_: pb.ProduceRequest.Item) -> None:
            raise refused(failures.pop(0))

        cluster.brokers[1].before_append = refuse
        with pytest.raises(errors.InvalidRecord):
            await (await producer.send("orders", b"v"))
        metrics = producer.metrics()
        assert (metrics.records_failed, metrics.batch_retries, metrics.records_sent) == (1, 1, 402)


@virtual
async def test_many_records_fill_their_batches() -> None:
    async with producing() as (_, producer):
        # 503 records of 1 KiB go into a batch. A MiB, which is handed on at a time, has room for twice that, and two.
        await (await producer.send_many("orders", pa.array([bytes(1024)] * 503 * 8)))
        assert producer.metrics().batches_sent == 8
