"""Consumers of a group on fake brokers, and polling until they have what they should."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.fake_groups import FakeGroups
from support.fake_log_service import FakeCluster

from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.consumer.reading.options import ConsumerKeywords
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import encode_batch

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@asynccontextmanager
async def group(leaders: tuple[int, ...] = (1, 2)) -> AsyncIterator[tuple[FakeCluster, FakeGroups]]:
    cluster = FakeCluster()
    groups = FakeGroups(cluster)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    yield cluster, groups


def consumer_of(cluster: FakeCluster, **options: object) -> Consumer:
    keywords: ConsumerKeywords = {
        "group": "billing",
        "auto_offset_reset": "earliest",
        "max_poll_interval_ms": 60_000,
        **options,  # type: ignore[typeddict-item]
    }
    return Consumer(cluster.bootstrap, runtime=cluster.client, **keywords)


def store(cluster: FakeCluster, topic: str, partition: int, *values: bytes) -> None:
    cluster.log(topic, partition).append(encode_batch(list(values), timestamps=0))
    cluster.tell()


async def poll_until(*consumers: Consumer, have: int) -> list[bytes | None]:
    """So many values, in the order in which they came; the consumers take turns."""
    values: list[bytes | None] = []
    async with asyncio.timeout(60):
        while len(values) < have:
            for consumer in consumers:
                values += [record.value for record in await consumer.poll(0.05)]
    return values


async def assigned(consumer: Consumer, *partitions: TopicPartition, others: tuple[Consumer, ...] = ()) -> None:
    """Poll until the consumer has these, and no others."""
    async with asyncio.timeout(60):
        while consumer.assignment() != list(partitions):
            for each in (*others, consumer):
                await each.poll(0.05)


class Listener(RebalanceListener):
    """Remembers what it was told; and does more, if a test says so."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("assigned", partitions))

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", partitions))

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("lost", partitions))
