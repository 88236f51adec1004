"""Records whose values are their numbers, on fake brokers: sent by a producer, stored there, polled by a consumer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.fake_log_service import FakeCluster

from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.reading.options import ConsumerKeywords
from lograft.clients.producer.aio_delivery import Delivery
from lograft.clients.producer.aio_producer import Producer
from lograft.clients.producer.pipeline.options import ProducerKeywords
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import encode_batch

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@asynccontextmanager
async def consuming(
    leaders: tuple[int, ...] = (1, 2), *, seed: int = 1, **options: object
) -> AsyncIterator[tuple[FakeCluster, Consumer]]:
    cluster = FakeCluster(seed=seed)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    keywords: ConsumerKeywords = {"auto_offset_reset": "earliest", **options}  # type: ignore[typeddict-item]
    async with Consumer(cluster.bootstrap, runtime=cluster.client, **keywords) as consumer:
        yield cluster, consumer


def store(cluster: FakeCluster, partition: int, first: int, last: int, *, batch: int = 10) -> None:
    """Records whose values are their numbers, in batches."""
    for start in range(first, last, batch):
        values = [b"%d" % number for number in range(start, min(start + batch, last))]
        cluster.log("orders", partition).append(encode_batch(values, timestamps=start))
    cluster.tell()


async def poll_values(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with asyncio.timeout(60):
        while len(values) < count:
            values += [record.value for record in await consumer.poll(1.0)]
    return values


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


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
