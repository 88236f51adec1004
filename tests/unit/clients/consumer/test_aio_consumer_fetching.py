"""What a consumer asks of which broker: no more ahead than it has room for, and of a follower that is near."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.fake_controllers import until
from support.fake_log_service import FakeCluster
from support.numbered_records import ORDERS_0, consuming, numbers, poll_values, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.reading import broker_stream as fetch_line
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import encode_batch

# -- credit


@virtual
async def test_no_more_is_fetched_ahead_than_there_is_room_for() -> None:
    async with consuming((1,), fetch_buffer_bytes=2000, fetch_partition_bytes=500) as (cluster, consumer):
        store(cluster, 0, 0, 1000)
        await consumer.assign([ORDERS_0])
        await asyncio.sleep(2)
        granted = sum(request.credit_bytes for request in cluster.brokers[1].fetches)
        assert granted == 2000
        assert await poll_values(consumer, 1000) == numbers(0, 1000)
        assert len(cluster.brokers[1].fetches) < 100, "credit is not granted a few bytes at a time"


@virtual
async def test_a_batch_larger_than_the_room_comes_all_the_same() -> None:
    async with consuming((1,), fetch_buffer_bytes=1000) as (cluster, consumer):
        for _ in range(5):
            cluster.log("orders").append(encode_batch([bytes(5000)], timestamps=0))
        await consumer.assign([ORDERS_0])
        assert len(await poll_values(consumer, 5)) == 5


@virtual
async def test_what_is_dropped_makes_room_again() -> None:
    async with consuming((1,), fetch_buffer_bytes=2000, fetch_partition_bytes=500) as (cluster, consumer):
        store(cluster, 0, 0, 300)
        await consumer.assign([ORDERS_0])
        for _ in range(10):
            await asyncio.sleep(0.5)
            await consumer.seek(ORDERS_0, 0)
            await asyncio.sleep(0.5)
            await consumer.pause()
            await consumer.resume()
        assert await poll_values(consumer, 300) == numbers(0, 300)


@virtual
async def test_many_partitions_are_asked_for_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_line, "_MOST_AT_ONCE", 4)
    async with consuming((1,) * 10) as (cluster, consumer):
        names = [TopicPartition("orders", number) for number in range(10)]
        await consumer.assign(names)
        for name in names:
            await consumer.seek(name, 0)
            store(cluster, name.partition, 0, 1)
        assert len(await poll_values(consumer, 10)) == 10
        await consumer.assign(names[:1])
        store(cluster, 0, 1, 2)
        assert await poll_values(consumer, 1) == [b"1"]
        fetches = cluster.brokers[1].fetches
        await until(lambda: sum(len(request.remove) for request in fetches) == 9)
        assert max(len(request.add) + len(request.remove) for request in fetches) == 4


# -- from followers


@asynccontextmanager
async def consuming_near_2() -> AsyncIterator[tuple[FakeCluster, Consumer]]:
    """Broker 1 leads, in rack a; broker 2 follows, in the consumer's rack."""
    cluster = FakeCluster(racks={1: "a", 2: "b", 3: "a"})
    await cluster.start()
    cluster.create_topic("orders", [1])
    cluster.set_isr("orders", 0, 1, 2)
    store(cluster, 0, 0, 20)
    async with Consumer(cluster.bootstrap, runtime=cluster.client, rack="b", auto_offset_reset="earliest") as consumer:
        await consumer.assign([ORDERS_0])
        yield cluster, consumer


def added(cluster: FakeCluster, number: int) -> int:
    """How often a partition was asked for there."""
    return sum(len(request.add) for request in cluster.brokers[number].fetches)


@virtual
async def test_a_follower_in_the_consumers_rack_is_read_from() -> None:
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        assert (added(cluster, 1), added(cluster, 2)) == (0, 1)


@virtual
async def test_a_follower_that_leaves_the_isr_is_left() -> None:
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        cluster.set_isr("orders", 0, 1)
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        assert added(cluster, 1) == 1
        cluster.set_isr("orders", 0, 1, 2)
        await asyncio.sleep(10)
        store(cluster, 0, 40, 60)
        assert await poll_values(consumer, 20) == numbers(40, 60)
        assert added(cluster, 2) == 2, "it is in sync again"


@virtual
async def test_a_follower_that_dies_is_left_before_the_metadata_say_so() -> None:
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        cluster.kill(2)
        store(cluster, 0, 20, 40)
        async with asyncio.timeout(2):
            assert await poll_values(consumer, 20) == numbers(20, 40)


@virtual
async def test_what_a_follower_does_not_have_is_asked_of_the_leader() -> None:
    """Nothing is skipped or reset by what a follower says."""
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        log = cluster.log("orders")
        log.in_sync = (1,)  # the metadata do not say so yet
        cluster.brokers[2].forget_changes()
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        assert added(cluster, 1) == 1


@virtual
async def test_a_follower_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    """Each time costs a reader as long as it takes to notice."""
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        cluster.kill(2)  # and the metadata never say so
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        await asyncio.sleep(7)
        assert added(cluster, 1) == 2, "it is tried again soon"
        await asyncio.sleep(150)
        assert added(cluster, 1) < 8
        store(cluster, 0, 40, 60)
        assert await poll_values(consumer, 20) == numbers(40, 60)
        await cluster.start(2)
        await asyncio.sleep(170)
        store(cluster, 0, 60, 80)
        assert await poll_values(consumer, 20) == numbers(60, 80)
        assert added(cluster, 2) == 1, "it is read from again"


def test_a_rack_that_is_no_name_is_refused() -> None:
    for rack in ("", "a\n", 7):
        with pytest.raises(errors.InvalidArgument, match="rack is"):
            Consumer("localhost:1", rack=rack)  # type: ignore[arg-type]
