"""A replica gives records that are not as they were stored: the consumer gets them from another, and never passes over
them, whatever it does with batches that cannot be decoded."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from support.fake_log_service import FakeCluster
from support.numbered_records import ORDERS_0, consuming, numbers, poll_values, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.reading.fetched_partition import MOST_REFETCHES
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import iterate_batches

Read = Callable[[Consumer, int], Awaitable[Sequence[bytes | None]]]


def damaged_at(offset: int, batches: bytes) -> bytes:
    """The batch that begins there has a bit of a record that is not as it was; others are intact."""
    view = bytearray(batches)
    for at, header in iterate_batches(batches):
        if header.base_offset == offset:
            view[at + header.total_bytes - 9] ^= 1
    return bytes(view)


def damage(cluster: FakeCluster, offset: int, *brokers: int) -> list[int]:
    """These brokers give the batch at `offset` damaged; which of them did, in order."""
    asked: list[int] = []

    def spoil(number: int, batches: bytes) -> bytes:
        spoilt = damaged_at(offset, batches) if number in brokers else batches
        if spoilt != batches:
            asked.append(number)
        return spoilt

    cluster.spoil = spoil
    return asked


async def polled(consumer: Consumer, count: int) -> Sequence[bytes | None]:
    return await poll_values(consumer, count)


async def polled_as_arrow(consumer: Consumer, count: int) -> Sequence[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        values += (await consumer.poll_arrow(5.0)).column("value").to_pylist()
    return values


async def iterated(consumer: Consumer, count: int) -> Sequence[bytes | None]:
    values: list[bytes | None] = []
    async for record in consumer:
        values.append(record.value)
        if len(values) == count:
            break
    return values


READS = pytest.mark.parametrize("read", [polled, polled_as_arrow, iterated])
BOTH = pytest.mark.parametrize("on_bad_batch", ["raise", "skip"])


@READS
@BOTH
@virtual
async def test_what_the_leader_gives_damaged_comes_from_a_follower(read: Read, on_bad_batch: str) -> None:
    async with consuming(on_bad_batch=on_bad_batch) as (cluster, consumer):
        cluster.set_isr("orders", 0, 1, 2, 3)
        store(cluster, 0, 0, 50)
        asked = damage(cluster, 20, 1)
        await consumer.assign([ORDERS_0])
        assert await read(consumer, 50) == numbers(0, 50)
        assert asked == [1]
        store(cluster, 0, 50, 60)
        assert await read(consumer, 10) == numbers(50, 60)
        assert consumer.metrics().bad_batches == 0


@READS
@BOTH
@virtual
async def test_what_every_replica_gives_damaged_is_an_error_and_never_left_out(read: Read, on_bad_batch: str) -> None:
    async with consuming(on_bad_batch=on_bad_batch) as (cluster, consumer):
        cluster.set_isr("orders", 0, 1, 2, 3)
        store(cluster, 0, 0, 50)
        asked = damage(cluster, 20, 1, 2, 3)
        await consumer.assign([ORDERS_0])
        assert await read(consumer, 20) == numbers(0, 20)
        message = r"orders-0 from offset 20 on: .*seek to 30 .*`lograft verify replicas orders`"
        with pytest.raises(errors.CorruptBatch, match=message):
            await read(consumer, 1)
        assert asked == [1, 2, 3, 1, 2, 3, 1]
        assert len(asked) == MOST_REFETCHES + 1
        assert await consumer.position(ORDERS_0) == 20
        assert consumer.metrics().bad_batches == 0
        # It is tried again when somebody says so; and whoever knows better goes on behind it.
        cluster.spoil = lambda number, batches: batches
        await consumer.seek(ORDERS_0, 20)
        assert await read(consumer, 30) == numbers(20, 50)
        damage(cluster, 20, 1, 2, 3)
        await consumer.seek(ORDERS_0, 30)
        assert await read(consumer, 20) == numbers(30, 50)


@virtual
async def test_what_was_damaged_on_its_way_comes_again_from_the_only_replica() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 50)
        asked: list[int] = []

        def spoil(number: int, batches: bytes) -> bytes:
            asked.append(number)
            return damaged_at(20, batches) if len(asked) < 4 else batches

        cluster.spoil = spoil
        await consumer.assign([ORDERS_0])
        assert await poll_values(consumer, 50) == numbers(0, 50)


@pytest.mark.parametrize("spoil", [
    lambda batches: batches[:-8],
    lambda batches: bytes(len(batches)),
    lambda batches: batches[:16] + b"\x09" + batches[17:],
], ids=["cut short", "zeros", "an unknown format"])  # fmt: skip
@virtual
async def test_what_is_no_batch_comes_from_a_follower(spoil: Callable[[bytes], bytes]) -> None:
    async with consuming(on_bad_batch="skip") as (cluster, consumer):
        cluster.set_isr("orders", 0, 1, 2)
        store(cluster, 0, 0, 50)
        cluster.spoil = lambda number, batches: spoil(batches) if number == 1 and batches else batches
        await consumer.assign([ORDERS_0])
        assert await poll_values(consumer, 50) == numbers(0, 50)


@virtual
async def test_what_a_near_follower_gives_damaged_comes_from_the_leader_and_later_from_the_follower_again() -> None:
    cluster = FakeCluster(racks={1: "a", 2: "b", 3: "a"})
    await cluster.start()
    cluster.create_topic("orders", [1])
    cluster.set_isr("orders", 0, 1, 2)
    store(cluster, 0, 0, 50)
    asked = damage(cluster, 20, 2)
    async with Consumer(cluster.bootstrap, runtime=cluster.client, rack="b", auto_offset_reset="earliest") as consumer:
        await consumer.assign([ORDERS_0])
        assert await poll_values(consumer, 50) == numbers(0, 50)
        assert asked == [2]
        assert len([add for each in cluster.brokers[1].fetches for add in each.add]) == 1
        await asyncio.sleep(70)
        store(cluster, 0, 50, 60)
        assert await poll_values(consumer, 10) == numbers(50, 60)
        assert cluster.brokers[2].fetches[-1].add[0].offset == 50


@virtual
async def test_the_broker_that_sent_the_damage_is_avoided_not_the_one_that_leads_by_now() -> None:
    async with consuming() as (cluster, consumer):
        cluster.set_isr("orders", 0, 1, 2, 3)
        store(cluster, 0, 0, 50)
        asked = damage(cluster, 20, 1)
        await consumer.assign([ORDERS_0])
        await asyncio.sleep(1)
        assert asked == [1], "it came, and is not opened yet"
        cluster.move_leader("orders", 0, 2)
        cluster.set_isr("orders", 0, 1, 2, 3)
        await asyncio.sleep(1)
        assert await poll_values(consumer, 50) == numbers(0, 50)
        assert asked == [1]
        sources = {number: [add.offset for each in broker.fetches for add in each.add]
                   for number, broker in cluster.brokers.items()}  # fmt: skip
        assert sources == {1: [0], 2: [50, 20], 3: []}


@virtual
async def test_other_partitions_are_read_meanwhile() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 10)
        store(cluster, 1, 0, 30)
        damage(cluster, 0, 1)
        await consumer.assign([ORDERS_0, TopicPartition("orders", 1)])
        assert await poll_values(consumer, 30) == numbers(0, 30)
