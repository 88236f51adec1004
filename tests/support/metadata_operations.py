"""Histories of the metadata, as Hypothesis strategies: any operations that fit the image they are applied to."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from hypothesis import strategies as st
from support.metadata_images import directory

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
    BrokerEpochsUsed,
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    ConfigChanged,
    ConfigResource,
    FeatureLevelChanged,
    Operation,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)

Draw: TypeAlias = st.DrawFn

BROKER_IDS = st.integers(0, 6).map(BrokerId)
EPOCHS = st.integers(0, 2**31 - 1)
# A byte that says all sixteen: what is drawn for a history must stay small, or Hypothesis gives up on it.
UUIDS = st.integers(0, 255).map(lambda byte: UUID(bytes=bytes((byte + at * 7) % 256 for at in range(16))))
TEXTS = st.text(max_size=4)
NAMES = st.sampled_from(("orders", "payments", "page.views", "__offsets", "größe"))


@st.composite
def histories(draw: Draw, max_operations: int = 12) -> list[Operation]:
    """Operations that take effect one after the other, beginning with an empty image."""
    image = ClusterImage()
    history: list[Operation] = []
    for _ in range(draw(st.integers(0, max_operations))):
        after, records = image.copy(), []
        for _ in range(draw(st.integers(0, 3))):
            record = draw(fitting_records(after))
            after.apply(record)
            records.append(record)
        operation = Operation(image.sequence, tuple(records))
        assert image.apply_operation(operation)
        history.append(operation)
    return history


@st.composite
def fitting_records(draw: Draw, image: ClusterImage) -> Record:
    """A record that may come next."""
    makers: list[Callable[[Draw, ClusterImage], Record]] = [_registered, _config, _counters]
    if len(image.topic_ids) < 4:
        makers.append(_topic_created)
    if image.brokers:
        makers.append(_state_changed)
        if any(not image.replica_count(broker_id) for broker_id in image.brokers):
            makers.append(_unregistered)
    if image.topics:
        makers.append(_topic_deleted)
        if image.brokers:
            makers += [_partition_changed] * 4
    return draw(st.sampled_from(makers))(draw, image)


def brokers(broker_ids: st.SearchStrategy[BrokerId], epochs: st.SearchStrategy[int]) -> st.SearchStrategy[Broker]:
    return st.builds(
        Broker,
        broker_id=broker_ids,
        epoch=epochs.map(BrokerEpoch),
        incarnation=UUIDS,
        address=TEXTS,
        rack=st.none() | TEXTS,
        directories=st.lists(UUIDS, max_size=3, unique=True).map(tuple),
        boot_id=TEXTS,
        state=st.sampled_from(BrokerState),
        names_used_epochs=st.booleans(),
        version=st.none() | TEXTS,
    )


def partitions(broker_ids: st.SearchStrategy[list[BrokerId]]) -> st.SearchStrategy[Partition]:
    """Partitions whose replicas are on those brokers; the rest of it anything that can be said of them."""

    @st.composite
    def any_of_them(draw: Draw) -> Partition:
        replicas = draw(broker_ids)
        some = st.lists(st.sampled_from(replicas), unique=True).map(tuple)
        isr = draw(some)
        unclean_epoch = draw(st.none() | EPOCHS)
        return Partition(
            replicas=tuple(Replica(broker, directory(broker, draw(st.integers(0, 1)))) for broker in replicas),
            isr=isr,
            leader=draw(st.sampled_from(isr)) if isr else None,
            leader_epoch=LeaderEpoch(draw(EPOCHS)),
            partition_epoch=PartitionEpoch(draw(EPOCHS)),
            elr=tuple(Replica(broker, draw(UUIDS)) for broker in replicas if broker not in isr and draw(st.booleans())),
            target=draw(some),
            adding=draw(some),
            unclean_epoch=LeaderEpoch(unclean_epoch) if unclean_epoch is not None else None,
        )

    return any_of_them()


def _registered(draw: Draw, image: ClusterImage) -> Record:
    return BrokerRegistered(draw(brokers(BROKER_IDS, st.just(image.last_broker_epoch + 1))))


def _state_changed(draw: Draw, image: ClusterImage) -> Record:
    broker = draw(st.sampled_from(list(image.brokers.values())))
    return BrokerStateChanged(broker.broker_id, broker.epoch, draw(st.sampled_from(BrokerState)))


def _unregistered(draw: Draw, image: ClusterImage) -> Record:
    return BrokerUnregistered(draw(st.sampled_from([id_ for id_ in image.brokers if not image.replica_count(id_)])))


def _topic_created(draw: Draw, image: ClusterImage) -> Record:
    topic_id = TopicId(draw(UUIDS.filter(lambda topic_id: topic_id not in image.topics)))
    return TopicCreated(topic_id, draw(NAMES.filter(lambda name: name not in image.topic_ids)))


def _topic_deleted(draw: Draw, image: ClusterImage) -> Record:
    return TopicDeleted(draw(st.sampled_from(list(image.topics))))


def _partition_changed(draw: Draw, image: ClusterImage) -> Record:
    topic = draw(st.sampled_from(list(image.topics.values())))
    number = draw(st.integers(0, len(topic.partitions)))
    registered = st.lists(st.sampled_from(list(image.brokers)), min_size=1, max_size=3, unique=True)
    partition = draw(partitions(registered))
    before = topic.partitions.get(number)
    epoch = before.partition_epoch + 1 if before is not None else 0
    return PartitionChanged(topic.topic_id, number, replace(partition, partition_epoch=PartitionEpoch(epoch)))


def _config(draw: Draw, image: ClusterImage) -> Record:
    resources = [ConfigResource(ResourceKind.CLUSTER)]
    resources += [ConfigResource(ResourceKind.TOPIC, str(topic_id)) for topic_id in image.topics]
    resources += [ConfigResource(ResourceKind.BROKER, str(broker_id)) for broker_id in image.brokers]
    key = draw(st.sampled_from(("retention.ms", "flush.mode", "log.level")))
    return ConfigChanged(draw(st.sampled_from(resources)), key, draw(st.none() | TEXTS))


def _counters(draw: Draw, image: ClusterImage) -> Record:
    return draw(
        st.builds(FeatureLevelChanged, st.integers(0, 2**32 - 1))
        | st.builds(ProducerIdsAllocated, st.integers(image.next_producer_id, image.next_producer_id + 2000))
        | st.builds(
            BrokerEpochsUsed,
            st.integers(0, image.last_broker_epoch + 3).map(BrokerEpoch),
            st.lists(st.tuples(UUIDS, EPOCHS.map(BrokerEpoch)), max_size=2).map(tuple),
        )
    )
