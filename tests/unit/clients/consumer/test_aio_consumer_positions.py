"""Where a consumer begins and where it goes: as it is told, and what was fetched ahead does not get in the way."""

import asyncio

import pytest
from support.numbered_records import ORDERS_0, ORDERS_1, consuming, numbers, poll_values, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.types import TopicPartition
from lograft.proto.log_pb2 import FetchResponse
from lograft.storage.batch.codec import encode_batch, stamp

# -- where to begin


@pytest.mark.parametrize(("reset", "expected"), [("earliest", numbers(5, 12)), ("latest", numbers(10, 12))])
@virtual
async def test_it_begins_where_it_is_told(reset: str, expected: list[bytes]) -> None:
    async with consuming(auto_offset_reset=reset) as (cluster, consumer):
        store(cluster, 0, 0, 10, batch=1)
        log = cluster.log("orders")
        log.start, log.batches = 5, log.batches[5:]
        await consumer.assign([ORDERS_0])
        await consumer.position(ORDERS_0)
        store(cluster, 0, 10, 12)
        assert await poll_values(consumer, len(expected)) == expected


@virtual
async def test_without_a_reset_one_has_to_say_where_to_begin() -> None:
    async with consuming(auto_offset_reset="none") as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        with pytest.raises(errors.OffsetOutOfRange, match="seek"):
            await consumer.poll(1.0)
        await consumer.pause()
        assert await consumer.poll(0.1) == []
        await consumer.resume()
        with pytest.raises(errors.OffsetOutOfRange, match="seek"):
            await consumer.poll(1.0)
        await consumer.seek(ORDERS_0, 8)
        assert await poll_values(consumer, 2) == numbers(8, 10)


@virtual
async def test_an_offset_that_is_not_there_any_more_is_reset_or_told_with_the_range_that_is() -> None:
    for reset, expected in (("earliest", b"5"), ("none", None)):
        async with consuming(auto_offset_reset=reset) as (cluster, consumer):
            store(cluster, 0, 0, 10, batch=1)
            log = cluster.log("orders")
            log.start, log.batches = 5, log.batches[5:]
            await consumer.assign([ORDERS_0])
            await consumer.seek(ORDERS_0, 2)
            if expected is not None:
                assert (await poll_values(consumer, 1))[0] == expected
                continue
            with pytest.raises(errors.OffsetOutOfRange) as caught:
                await consumer.poll(5.0)
            assert (caught.value.valid_start, caught.value.valid_end) == (5, 10)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@virtual
async def test_what_came_is_given_before_an_offset_that_is_not_there_any_more_is_reset(reset: str) -> None:
    options = {"fetch_buffer_bytes": 2000, "fetch_partition_bytes": 400}
    async with consuming((1,), auto_offset_reset=reset, **options) as (cluster, consumer):
        store(cluster, 0, 0, 100)
        await consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 0)
        assert [record.value for record in await consumer.poll(1.0, max_records=1)] == [b"0"]
        await asyncio.sleep(1)
        log = cluster.log("orders")
        log.start, log.batches = 80, log.batches[8:]
        cluster.network.break_connections("client", "broker-1")
        await asyncio.sleep(1.3)
        assert sum(len(request.add) for request in cluster.brokers[1].fetches) == 2, "once more, and it was told"
        started_ms = cluster.client.clock.monotonic_ms()
        values: list[bytes | None] = []
        while records := await consumer.poll(1.0, max_records=7):
            values += [record.value for record in records]
            assert await consumer.position(ORDERS_0) >= len(values)
            assert cluster.client.clock.monotonic_ms() - started_ms < 500, "it goes on at once"
        came = values.index(b"80") if b"80" in values else len(values)
        assert 1 < came < 80, "some was fetched ahead, and not all"
        assert values == [*numbers(1, 1 + came), *(numbers(80, 100) if reset == "earliest" else [])]
        assert await consumer.position(ORDERS_0) == 100


@virtual
async def test_an_offset_that_is_gone_is_reset_once_the_last_record_that_came_is_given() -> None:
    async with consuming((1,)) as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        assert [(await anext(consumer)).value for _ in range(9)] == numbers(0, 9)
        cluster.cut_off(1)
        store(cluster, 0, 10, 100)
        log = cluster.log("orders")
        log.start, log.batches = 80, log.batches[8:]
        cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(5)
        assert (await anext(consumer)).value == b"9"
        assert await poll_values(consumer, 20) == numbers(80, 100)


# -- moving about


@virtual
async def test_seeking_drops_what_was_fetched_ahead() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 100)
        await consumer.assign([ORDERS_0])
        await consumer.poll(1.0, max_records=5)
        await asyncio.sleep(1)
        await consumer.seek(ORDERS_0, 50)
        assert await consumer.position(ORDERS_0) == 50
        assert (await poll_values(consumer, 50)) == numbers(50, 100)
        await consumer.seek_to_beginning(ORDERS_0)
        assert (await poll_values(consumer, 100)) == numbers(0, 100)
        await consumer.seek(ORDERS_0, 0)
        await consumer.seek_to_end()
        assert await consumer.position(ORDERS_0) == 100
        store(cluster, 0, 100, 101)
        assert await poll_values(consumer, 1) == [b"100"]


@virtual
async def test_a_paused_partition_gives_nothing_and_goes_on_where_it_was() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 20)
        store(cluster, 1, 100, 110)
        await consumer.assign([ORDERS_0, ORDERS_1])
        await asyncio.sleep(0.5)
        assert {record.partition for record in await consumer.poll(1.0, max_records=5)} == {0}
        await consumer.pause(ORDERS_0)
        assert await poll_values(consumer, 10) == numbers(100, 110)
        assert await consumer.poll(1.0) == []
        await consumer.resume(ORDERS_0)
        assert await poll_values(consumer, 15) == numbers(5, 20)


@virtual
async def test_what_stays_assigned_goes_on_and_what_is_new_begins() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 20)
        store(cluster, 1, 100, 110)
        await consumer.assign([ORDERS_0])
        await consumer.poll(1.0, max_records=5)
        await consumer.assign([ORDERS_0, ORDERS_1])
        assert sorted(await poll_values(consumer, 25)) == sorted([*numbers(5, 20), *numbers(100, 110)])  # type: ignore[type-var]
        await consumer.assign([ORDERS_1])
        assert consumer.assignment() == [ORDERS_1]
        store(cluster, 0, 20, 30)
        store(cluster, 1, 110, 111)
        assert await poll_values(consumer, 1) == [b"110"]
        assert await consumer.poll(1.0) == []


@virtual
async def test_what_is_not_there_or_not_assigned_is_named() -> None:
    async with consuming() as (_, consumer):
        with pytest.raises(errors.UnknownTopic, match="nonsense"):
            await consumer.assign([TopicPartition("nonsense", 0)])
        with pytest.raises(errors.UnknownPartition, match="partition 9"):
            await consumer.assign([TopicPartition("orders", 9)])
        with pytest.raises(errors.NotAssigned):
            await consumer.seek(ORDERS_0, 0)
        await consumer.assign([ORDERS_0])
        for offset in (-1, 2**63, "5", 1.5):
            with pytest.raises(errors.InvalidArgument, match=str(offset)):
                await consumer.seek(ORDERS_0, offset)  # type: ignore[arg-type]
        for count in (0, -1, "5"):
            with pytest.raises(errors.InvalidArgument, match=f"max_records is {count!r}"):
                await consumer.poll(1.0, max_records=count)  # type: ignore[arg-type]
        for partition in ("orders", ("orders",), ("orders", "0"), (5, 0), ("\udcff", 0), None):
            with pytest.raises(errors.InvalidArgument, match="is not a partition"):
                await consumer.assign([partition])  # type: ignore[list-item]
            with pytest.raises(errors.InvalidArgument, match="is not a partition"):
                await consumer.end_offsets([partition])  # type: ignore[list-item]
            with pytest.raises(errors.InvalidArgument, match="is not a partition"):
                await consumer.seek(partition, 5)  # type: ignore[arg-type]
        for moment in (2**63, -(2**63) - 1, "now"):
            with pytest.raises(errors.InvalidArgument, match=str(moment)):
                await consumer.offsets_for_times({ORDERS_0: moment})  # type: ignore[arg-type]
        assert consumer.assignment() == [ORDERS_0]
        assert await consumer.offsets_for_times({ORDERS_0: -5}) == {ORDERS_0: None}
        with pytest.raises(errors.InvalidArgument, match="topic"):
            await consumer.partitions_for(5)  # type: ignore[arg-type]
    with pytest.raises(errors.ClientClosed):
        await consumer.poll(0)
    with pytest.raises(errors.ClientClosed):
        Consumer("localhost").assignment()
    with pytest.raises(errors.InvalidArgument, match="auto_offset_reset"):
        Consumer("localhost", auto_offset_reset="never")


@virtual
async def test_offsets_are_asked_of_whoever_leads() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 20)
        store(cluster, 1, 0, 7)
        both = [ORDERS_0, ORDERS_1]
        assert await consumer.beginning_offsets(both) == {ORDERS_0: 0, ORDERS_1: 0}
        assert await consumer.end_offsets(both) == {ORDERS_0: 20, ORDERS_1: 7}
        assert await consumer.offsets_for_times({ORDERS_0: 10, ORDERS_1: 10}) == {ORDERS_0: 10, ORDERS_1: None}
        cluster.move_leader("orders", 0, None)
        asking = asyncio.ensure_future(consumer.end_offsets(both))
        await asyncio.sleep(2)
        assert not asking.done()
        cluster.move_leader("orders", 0, 3)
        assert await asking == {ORDERS_0: 20, ORDERS_1: 7}
        assert await consumer.partitions_for("orders") == both


@virtual
async def test_a_seek_counts_even_while_the_beginning_is_being_looked_for() -> None:
    async with consuming((1,)) as (cluster, consumer):
        store(cluster, 0, 0, 10)
        for delay_ms in range(8):
            await consumer.assign([])
            await consumer.assign([ORDERS_0])
            await asyncio.sleep(delay_ms / 1000)
            await consumer.seek_to_end()
            assert await consumer.position(ORDERS_0) == 10


@virtual
async def test_what_arrives_between_a_seek_and_the_broker_hearing_of_it_is_passed_over() -> None:
    async with consuming((1,)) as (cluster, consumer):
        store(cluster, 0, 0, 50)
        await consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 50)
        assert await consumer.poll(1.0) == []
        (line,) = consumer._reader._fetcher._lines.values()
        (handle,) = line._subscriptions
        await consumer.seek(ORDERS_0, 0)
        batch = stamp(encode_batch([b"50"], timestamps=0), 50, 0)
        line._take(FetchResponse.Data(handle=handle, next_offset=51, high_watermark=51), batch)
        assert await poll_values(consumer, 50) == numbers(0, 50)
