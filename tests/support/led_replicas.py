"""A topic that broker 1 leads and the others follow, and who leads it next."""

from dataclasses import replace

from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, place, start_brokers

from lograft.broker.replica import Replica
from lograft.metadata.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch, TopicId

ONE, TWO, THREE = ids(1, 2, 3)


async def led(metadata: Metadata, count: int = 3, **config: str) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    brokers = await start_brokers(metadata, count)
    topic = metadata.create("orders", place(metadata, *range(1, count + 1)), **config)
    leader = await brokers[ONE].leads(topic)
    for number in range(2, count + 1):
        await brokers[BrokerId(number)].follows(topic)
    return brokers, topic, leader


def next_leader(partition: Partition, leader: BrokerId | None, **changes: object) -> Partition:
    return replace(
        partition,
        leader=leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        **changes,  # type: ignore[arg-type]
    )
