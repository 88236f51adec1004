"""What a consumer gives: records in order, as many as were asked for, in the form that was asked for."""

import asyncio

import pyarrow
import pytest
from support.numbered_records import ORDERS_0, ORDERS_1, consuming, numbers, poll_values, store
from support.raft_nodes import virtual

import lograft
from lograft.clients import errors
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.storage.batch.codec import Compression, Record, encode_batch, parse_header

# -- records


@virtual
async def test_records_come_in_order_with_all_that_belongs_to_them() -> None:
    async with consuming() as (cluster, consumer):
        batch = encode_batch([b"v", None], keys=[b"k", None], timestamps=[5, 6], headers=[[("h", b"1")], []])
        cluster.log("orders").append(batch)
        await consumer.assign([ORDERS_0])
        assert await consumer.poll(5.0) == [
            ("orders", 0, 0, 5, b"k", b"v", (("h", b"1"),)),
            ("orders", 0, 1, 6, None, None, ()),
        ]


@virtual
async def test_poll_waits_for_what_is_not_there_yet_and_gives_nothing_after_its_time() -> None:
    async with consuming() as (cluster, consumer):
        await consumer.assign([ORDERS_0])
        clock = cluster.client.clock
        started_ms = clock.monotonic_ms()
        assert await consumer.poll(2.0) == []
        assert clock.monotonic_ms() - started_ms == 2000
        polling = asyncio.ensure_future(consumer.poll())
        await asyncio.sleep(1)
        started_ms = clock.monotonic_ms()
        store(cluster, 0, 0, 1)
        assert [record.value for record in await polling] == [b"0"]
        assert clock.monotonic_ms() - started_ms < 50, "pushed, not asked for"
        assert await consumer.poll(0) == []


@virtual
async def test_a_poll_gives_no_more_than_it_is_asked_for_and_goes_on_where_it_was() -> None:
    async with consuming(max_poll_records=7) as (cluster, consumer):
        store(cluster, 0, 0, 40)
        await consumer.assign([ORDERS_0])
        assert [len(await consumer.poll(1.0)) for _ in range(2)] == [7, 7]
        assert await consumer.position(ORDERS_0) == 14
        assert [record.offset for record in await consumer.poll(1.0, max_records=3)] == [14, 15, 16]
        assert await poll_values(consumer, 23) == numbers(17, 40)


@virtual
async def test_partitions_that_are_added_show_and_can_be_assigned() -> None:
    async with consuming((1,)) as (cluster, consumer):
        assert await consumer.partitions_for("orders") == [ORDERS_0]
        cluster.add_partition("orders", 2)
        store(cluster, 1, 0, 3)
        await consumer.assign([ORDERS_1])
        assert await poll_values(consumer, 3) == numbers(0, 3)
        assert await consumer.partitions_for("orders") == [ORDERS_0, ORDERS_1]
        cluster.add_partition("orders", 3)
        async with asyncio.timeout(1):
            while len(await consumer.partitions_for("orders")) < 3:
                await consumer.poll(0.1)


@virtual
async def test_partitions_take_turns() -> None:
    async with consuming(max_poll_records=10) as (cluster, consumer):
        store(cluster, 0, 0, 100)
        store(cluster, 1, 0, 100)
        await consumer.assign([ORDERS_0, ORDERS_1])
        await asyncio.sleep(1)
        polls = [await consumer.poll(1.0) for _ in range(20)]
        served = [{record.partition for record in records} for records in polls]
        assert [len(records) for records in polls] == [10] * 20
        assert served == [{0}, {1}] * 10


@virtual
async def test_iteration_goes_on_for_ever() -> None:
    async with consuming() as (cluster, consumer):
        await consumer.assign([ORDERS_0])
        store(cluster, 0, 0, 3)
        values = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == 3:
                store(cluster, 0, 3, 6)
            if len(values) == 6:
                break
        assert values == numbers(0, 6)


@virtual
async def test_whoever_stops_iterating_goes_on_behind_the_last_record_that_was_given() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 30)
        store(cluster, 1, 0, 5)
        await consumer.assign([ORDERS_0])
        given: list[bytes | None] = []
        for stop in (3, 4, 12):
            async for record in consumer:
                given.append(record.value)
                if len(given) == stop:
                    break
            assert given == numbers(0, stop)
        assert [record.value for record in await consumer.poll(1.0, max_records=3)] == numbers(12, 15)
        assert (await anext(consumer)).value == b"15"
        assert await consumer.position(ORDERS_0) == 16
        await consumer.assign([ORDERS_0, ORDERS_1])
        assert (await anext(consumer)).value == b"16"
        await consumer.pause(ORDERS_0)
        assert await poll_values(consumer, 5) == numbers(0, 5)
        await consumer.resume()
        assert (await anext(consumer)).value == b"17"
        await consumer.seek(ORDERS_0, 2)
        assert (await anext(consumer)).value == b"2"
        await consumer.seek(ORDERS_0, 29)
        assert await poll_values(consumer, 1) == [b"29"]
        assert await consumer.position(ORDERS_0) == 30
        await consumer.seek_to_beginning()
        first = await anext(consumer)
        await consumer.seek_to_beginning()
        assert (first.value, (await anext(consumer)).value) == (b"0", b"0")
        await consumer.seek_to_beginning()
        await anext(consumer)
        await consumer.assign([ORDERS_1])
        await consumer.seek_to_beginning()
        assert (await anext(consumer)).partition == 1
        await consumer.assign([ORDERS_0])
        assert (await anext(consumer)).partition == 0


@virtual
async def test_offsets_need_not_be_dense_and_control_batches_are_passed_over() -> None:
    async with consuming() as (cluster, consumer):
        log = cluster.log("orders")
        parts = [
            encode_batch([b"a", b"b"], timestamps=0, offset_deltas=[0, 3], last_offset_delta=5, base_offset=0),
            encode_batch([], timestamps=0, last_offset_delta=3, base_offset=6),
            encode_batch([b"control"], timestamps=0, control=True, base_offset=10),
            encode_batch([b"c"], timestamps=0, base_offset=20),
            encode_batch([], timestamps=0, last_offset_delta=9, base_offset=21),
        ]
        log.batches = [(parse_header(part), part) for part in parts]
        await consumer.assign([ORDERS_0])
        records = [*await consumer.poll(1.0), *await consumer.poll(1.0)]
        assert [(record.offset, record.value) for record in records] == [(0, b"a"), (3, b"b"), (20, b"c")]
        assert await consumer.position(ORDERS_0) == 31


# -- waking up


@virtual
async def test_a_poll_that_waits_is_woken_and_else_the_next_one() -> None:
    async with consuming() as (cluster, consumer):
        await consumer.assign([ORDERS_0])
        for waiting in (consumer.poll(), consumer.poll_arrow(), anext(consumer)):
            polling = asyncio.ensure_future(waiting)
            await asyncio.sleep(1)
            assert not polling.done()
            consumer.wakeup()
            with pytest.raises(errors.WakeupError):
                await polling
        store(cluster, 0, 0, 30)
        assert (await anext(consumer)).value == b"0"
        for poll in (consumer.poll, consumer.poll_arrow, consumer.__anext__):
            consumer.wakeup()
            consumer.wakeup()
            with pytest.raises(errors.WakeupError):
                await poll()
        assert await poll_values(consumer, 29) == numbers(1, 30)
        assert await consumer.poll(0) == []


# -- what came, in another form


@virtual
async def test_what_cannot_be_deserialized_is_told_when_it_is_next_and_can_be_passed_over() -> None:
    async with consuming((1,), key_deserializer="string", value_deserializer="json") as (cluster, consumer):
        values = [b'{"a": 1}', b"[2]", b"nonsense", b"4", None]
        keys = [b"k", None, None, b"\xff", "ü".encode()]
        cluster.log("orders").append(encode_batch(values, keys=keys, timestamps=0))
        await consumer.assign([ORDERS_0])
        assert [(record.key, record.value) for record in await consumer.poll(1.0)] == [("k", {"a": 1}), (None, [2])]
        for poll in (consumer.poll, consumer.poll, consumer.__anext__, consumer.__anext__):
            with pytest.raises(errors.DeserializationError, match=r"value of the record at offset 2 of orders-0"):
                await poll()
            assert await consumer.position(ORDERS_0) == 2
        await consumer.seek(ORDERS_0, 3)
        with pytest.raises(errors.DeserializationError, match=r"key of the record at offset 3") as caught:
            await anext(consumer)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 0, 3)
        await consumer.seek(ORDERS_0, 4)
        assert [(record.key, record.value) for record in await consumer.poll(1.0)] == [("ü", None)]


@virtual
async def test_tables_hold_what_records_do_and_either_goes_on_where_the_other_stopped() -> None:
    async with consuming((1,)) as (cluster, consumer):
        for magic, compression in ((3, Compression.NONE), (2, Compression.NONE), (3, Compression.ZSTD)):
            cluster.log("orders").append(
                encode_batch(
                    [b"a", None, b"", b"d"],
                    keys=[None, b"k", b"", None],
                    headers=[[], [("h", b"1"), ("h", None)], [], []],
                    timestamps=[5, 6, 7, 8],
                    magic=magic,
                    compression=compression,
                )
            )
        cluster.log("orders").append(encode_batch([b"control"], timestamps=0, control=True))
        compacted = encode_batch([b"x", b"y"], timestamps=9, offset_deltas=[1, 3], last_offset_delta=5)
        cluster.log("orders").append(compacted)
        await consumer.assign([ORDERS_0])
        expected = await poll_records(consumer, 14)
        for limits in ((14,), (1, 2, 3, 4, 4), (4, 4, 4, 2), (13, 1)):
            await consumer.seek(ORDERS_0, 0)
            found: list[Record] = []
            for index, limit in enumerate(limits):
                if index % 2:
                    found += await poll_records(consumer, limit)
                    continue
                table = await consumer.poll_arrow(1.0, max_records=limit)
                assert table.schema == lograft.ARROW_SCHEMA
                assert table.num_rows == limit
                found += rows_of(table)
            assert found == expected
            assert await consumer.position(ORDERS_0) == 19
        empty = await consumer.poll_arrow(0)
        assert (empty.num_rows, empty.schema) == (0, lograft.ARROW_SCHEMA)


def rows_of(table: "pyarrow.Table") -> list[Record]:
    return [
        Record(
            row["topic"],
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((pair["key"], pair["value"]) for pair in row["headers"]),
        )
        for row in table.to_pylist()
    ]


async def poll_records(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            records += await consumer.poll(1.0, max_records=count - len(records))
    return records


# -- figures


@virtual
async def test_a_consumer_says_how_much_it_gets_and_how_far_it_is_behind() -> None:
    async with consuming((1,), fetch_buffer_bytes=1_000_000) as (cluster, consumer):
        assert consumer.metrics().assigned_partitions == 0
        await consumer.assign([ORDERS_0])
        assert consumer.lag(ORDERS_0) is None
        assert consumer.metrics().current_lag == {ORDERS_0: None}
        store(cluster, 0, 0, 100)
        await asyncio.sleep(1)
        stored_bytes = sum(len(batch) for _, batch in cluster.log("orders").batches)
        waiting = consumer.metrics()
        assert (waiting.buffered_bytes, waiting.bytes, waiting.records) == (stored_bytes, stored_bytes, 0)
        assert waiting.current_lag == {ORDERS_0: 100}
        await consumer.poll(1.0, max_records=30)
        assert consumer.lag(ORDERS_0) == 70
        await poll_values(consumer, 70)
        done = consumer.metrics()
        assert (done.assigned_partitions, done.buffered_bytes, done.records) == (1, 0, 100)
        assert done.current_lag == {ORDERS_0: 0}
        assert done.records_per_second > 0
        assert done.bytes_per_second > done.records_per_second
        assert done.fetch_latency.count == 1
        await asyncio.sleep(20)
        assert consumer.metrics().records_per_second == 0
        await consumer.pause(ORDERS_0)
        assert consumer.paused() == [ORDERS_0]
        await consumer.resume()
        assert consumer.paused() == []
        with pytest.raises(errors.NotAssigned):
            consumer.lag(ORDERS_1)
