"""A topic that broker 1 leads and the others follow, with records or without; and who leads it next."""

from dataclasses import replace

from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers

from lograft.broker.replica.replica import Replica
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch, TopicId

ONE, TWO, THREE = ids(1, 2, 3)


async def led(metadata: Metadata, count: int = 3, **config: str) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """A topic with a replica on each of `count` brokers, led by the first; all in sync and followed."""
    brokers = await start_brokers(metadata, count)
    topic = metadata.create("orders", place(metadata, *range(1, count + 1)), **config)
    leader = await brokers[ONE].leads(topic)
    for number in range(2, count + 1):
        await brokers[BrokerId(number)].follows(topic)
    return brokers, topic, leader


async def led_with_records(
    metadata: Metadata, count: int = 3, disks: int = 1
) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """A topic of small segments, so that most of what is read is not in memory, with some records."""
    brokers = await start_brokers(metadata, count, disks)
    topic = metadata.create("orders", place(metadata, *range(1, count + 1)), segment_bytes="1024")
    leader = await brokers[ONE].leads(topic)
    for _ in range(20):
        await append(leader, timeout_ms=60_000).outcome()
    return brokers, topic, leader


def next_leader(partition: Partition, leader: BrokerId | None, **changes: object) -> Partition:
    return replace(
        partition,
        leader=leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        **changes,  # type: ignore[arg-type]
    )
