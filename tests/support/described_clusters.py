"""Clusters as an administrator is told of them, made up."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from lograft.clients.admin.model.types import (
    BrokerDescription,
    BrokerState,
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
)


def described(
    topics: Mapping[str, Sequence[Sequence[int]]],
    brokers: Collection[int] = (1, 2, 3),
    *,
    racks: Mapping[int, str] | None = None,
    fenced: Collection[int] = (),
) -> ClusterDescription:
    """`topics`: the replicas of each partition. All that are live are in sync, and the first of them leads."""
    return ClusterDescription(
        "test",
        1,
        tuple(
            BrokerDescription(
                number,
                f"broker-{number}:9092",
                (racks or {}).get(number),
                BrokerState.FENCED if number in fenced else BrokerState.ACTIVE,
                number,
                (UUID(int=number),),
            )
            for number in sorted(brokers)
        ),
        tuple(described_topic(name, topics[name], fenced) for name in sorted(topics)),
    )


def described_topic(name: str, partitions: Sequence[Sequence[int]], fenced: Collection[int] = ()) -> TopicDescription:
    return TopicDescription(
        UUID(int=sum(name.encode())),
        name,
        name.startswith("__"),
        tuple(described_partition(name, number, replicas, fenced) for number, replicas in enumerate(partitions)),
        {},
    )


def described_partition(
    topic: str, number: int, replicas: Sequence[int], fenced: Collection[int] = ()
) -> PartitionDescription:
    isr = tuple(broker for broker in replicas if broker not in fenced)
    return PartitionDescription(
        topic,
        number,
        leader=isr[0] if isr else None,
        leader_epoch=1,
        replicas=tuple(replicas),
        isr=isr,
        elr=(),
        adding=(),
        removing=(),
        unclean_epoch=None,
    )
