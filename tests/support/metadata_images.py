"""Images of small clusters, in few words.

image = image_with(broker(1), broker(2, rack="b"), broker(3, state=FENCED), topics={"orders": [partition(1, 2, 3)]})
after = apply(image, fence(image, BrokerId(1), epoch_of(1)))
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Partition,
    PartitionEpoch,
    Replica,
    TopicId,
)
from lograft.metadata.image.records import (
    BrokerRegistered,
    ConfigChanged,
    ConfigResource,
    Operation,
    PartitionChanged,
    Record,
    ResourceKind,
    TopicCreated,
)

T = TypeVar("T")

FENCED = BrokerState.FENCED
ACTIVE = BrokerState.ACTIVE
SHUTTING_DOWN = BrokerState.SHUTTING_DOWN


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def directory(broker_id: int, number: int = 0) -> UUID:
    """The id of a broker's directory: the same each time."""
    return UUID(int=0xD << 64 | broker_id << 16 | number)


def topic_id(number: int) -> TopicId:
    """The id that `image_with` gives the topic of that number, counted from 1; or one that is not used yet."""
    return TopicId(UUID(int=0x7 << 64 | number))


def epoch_of(broker_id: int) -> BrokerEpoch:
    """The epoch that `broker` gives unless told otherwise."""
    return BrokerEpoch(100 + broker_id)


def broker(
    broker_id: int,
    *,
    state: BrokerState = ACTIVE,
    rack: str | None = None,
    epoch: int | None = None,
    directories: int | Sequence[UUID] = 1,
    incarnation: int | None = None,
    boot_id: str = "boot",
) -> Broker:
    """A registered broker. `directories`: how many, or which."""
    epoch = epoch if epoch is not None else epoch_of(broker_id)
    if isinstance(directories, int):
        directories = [directory(broker_id, number) for number in range(directories)]
    return Broker(
        broker_id=BrokerId(broker_id),
        epoch=BrokerEpoch(epoch),
        incarnation=UUID(int=incarnation if incarnation is not None else 0x1 << 64 | epoch),
        address=f"broker-{broker_id}:9092",
        rack=rack,
        directories=tuple(directories),
        boot_id=boot_id,
        state=state,
        nodes_address=f"broker-{broker_id}:9094",
    )


def brokers(count: int, *, racks: Sequence[str | None] = (None,), **others: Any) -> list[Broker]:
    """Brokers 1 to `count`, over the racks in turn."""
    return [broker(number, rack=racks[(number - 1) % len(racks)], **others) for number in range(1, count + 1)]


def replica(broker_id: int, directory_number: int = 0) -> Replica:
    return Replica(BrokerId(broker_id), directory(broker_id, directory_number))


_FIRST_IN_SYNC = -1


def partition(
    *replicas: int | Replica,
    isr: Iterable[int] | None = None,
    leader: int | None = _FIRST_IN_SYNC,
    elr: Iterable[int | Replica] = (),
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    target: Iterable[int] = (),
    adding: Iterable[int] = (),
    unclean_epoch: int | None = None,
) -> Partition:
    """A partition whose replicas are in their brokers' first directories; all in sync, led by the first, unless told
    otherwise."""
    own = tuple(_replica(each) for each in replicas)
    in_sync = ids(*isr) if isr is not None else tuple(each.broker_id for each in own)
    if leader == _FIRST_IN_SYNC:
        leader = in_sync[0] if in_sync else None
    return Partition(
        replicas=own,
        isr=in_sync,
        leader=BrokerId(leader) if leader is not None else None,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        elr=tuple(_replica(each) for each in elr),
        target=ids(*target),
        adding=ids(*adding),
        unclean_epoch=LeaderEpoch(unclean_epoch) if unclean_epoch is not None else None,
    )


def _replica(given: int | Replica) -> Replica:
    return given if isinstance(given, Replica) else replica(given)


def image_with(
    *members: Broker,
    topics: Mapping[str, Sequence[Partition]] | None = None,
    topic_configs: Mapping[str, Mapping[str, str]] | None = None,
    cluster_config: Mapping[str, str] | None = None,
) -> ClusterImage:
    """These brokers, and these topics with ids `topic_id(1)`, `topic_id(2)`, ..., after one operation."""
    records: list[Record] = [BrokerRegistered(member) for member in members]
    for number, (name, partitions) in enumerate((topics or {}).items(), start=1):
        records.append(TopicCreated(topic_id(number), name))
        records += [PartitionChanged(topic_id(number), at, each) for at, each in enumerate(partitions)]
        resource = ConfigResource(ResourceKind.TOPIC, str(topic_id(number)))
        records += [ConfigChanged(resource, *item) for item in (topic_configs or {}).get(name, {}).items()]
    cluster = ConfigResource(ResourceKind.CLUSTER)
    records += [ConfigChanged(cluster, *item) for item in (cluster_config or {}).items()]
    return with_records(ClusterImage(), *records)


def with_records(image: ClusterImage, *records: Record) -> ClusterImage:
    """What the image becomes by one operation; it stays itself."""
    after = image.copy()
    assert after.apply_operation(Operation(image.sequence, records))
    return after


def apply(image: ClusterImage, decision: Decision[Any]) -> ClusterImage:
    """What the image becomes by what was decided on it."""
    return with_records(image, *decision.records)
