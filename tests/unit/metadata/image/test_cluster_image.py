"""The image: operations take effect whole or not at all, copies are apart, and what it counts is what there is."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from support.metadata_images import (
    ACTIVE,
    FENCED,
    broker,
    directory,
    epoch_of,
    ids,
    image_with,
    partition,
    replica,
    topic_id,
    with_records,
)
from support.metadata_operations import histories

from lograft.metadata.image.cluster_image import REMEMBERED_DELETED_TOPICS, ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Replica
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
from lograft.metadata.image.snapshot import records_of

CLUSTER = ConfigResource(ResourceKind.CLUSTER)
ORDERS = ConfigResource(ResourceKind.TOPIC, str(topic_id(1)))


def small_image() -> ClusterImage:
    """Three brokers; `orders` on 1, 2 and 3, and on 2 and 3; `logs` without a leader, on 1."""
    return image_with(
        broker(1),
        broker(2),
        broker(3),
        topics={"orders": [partition(1, 2, 3), partition(2, 3)], "logs": [partition(1, isr=[], elr=[1])]},
        topic_configs={"orders": {"flush.mode": "os"}},
    )


# -- operations


def test_an_operation_takes_effect_on_the_state_it_was_decided_on() -> None:
    image = small_image()
    assert image.apply_operation(Operation(image.sequence, (ProducerIdsAllocated(1000), FeatureLevelChanged(3))))
    assert (image.next_producer_id, image.feature_level, image.sequence) == (1000, 3, 2)


@pytest.mark.parametrize("base_sequence", [0, 2, 7])
def test_an_operation_decided_on_another_state_changes_nothing(base_sequence: int) -> None:
    image = small_image()
    before = image.copy()
    assert not image.apply_operation(Operation(base_sequence, (ProducerIdsAllocated(1000),)))
    assert image == before


def test_of_two_operations_decided_on_one_state_the_first_wins() -> None:
    image = small_image()
    first, second = (Operation(image.sequence, (ProducerIdsAllocated(next_id),)) for next_id in (1000, 2000))
    assert [image.apply_operation(first), image.apply_operation(second)] == [True, False]
    assert image.next_producer_id == 1000


def test_an_operation_without_records_counts() -> None:
    image = small_image()
    assert image.apply_operation(Operation(image.sequence, ()))
    assert image.sequence == small_image().sequence + 1
    assert image != small_image()


# -- copies


CHANGES: dict[str, Callable[[ClusterImage], tuple[Record, ...]]] = {
    "a broker is new": lambda _: (BrokerRegistered(broker(4)),),
    "a broker is fenced": lambda _: (BrokerStateChanged(BrokerId(1), epoch_of(1), FENCED),),
    "epochs are used": lambda _: (BrokerEpochsUsed(BrokerEpoch(999)),),
    "a topic is new": lambda _: (TopicCreated(topic_id(9), "new"),),
    "a partition is new": lambda _: (PartitionChanged(topic_id(1), 2, partition(1)),),
    "a partition moves": lambda _: (PartitionChanged(topic_id(1), 0, partition(3, 1, partition_epoch=1)),),
    "a partition loses its leader": lambda _: (
        PartitionChanged(topic_id(1), 0, partition(1, 2, 3, isr=[], elr=[1], partition_epoch=1)),
    ),
    "a topic is deleted": lambda _: (TopicDeleted(topic_id(1)),),
    "a topic with a leaderless partition is deleted": lambda _: (TopicDeleted(topic_id(2)),),
    "a value is set": lambda _: (ConfigChanged(ORDERS, "flush.mode", "fsync"),),
    "a value is unset": lambda _: (ConfigChanged(ORDERS, "flush.mode", None),),
    "the cluster has a value": lambda _: (ConfigChanged(CLUSTER, "flush.mode", "os"),),
    "producer ids are given out": lambda _: (ProducerIdsAllocated(1000),),
    "the feature level rises": lambda _: (FeatureLevelChanged(1),),
    "a broker goes with all it had": lambda image: (
        *(TopicDeleted(each) for each in image.topics),
        BrokerUnregistered(BrokerId(2)),
    ),
}


def everything(image: ClusterImage) -> object:
    """All that can be read from an image, unshared."""
    return (
        image.sequence,
        list(records_of(image)),
        dict(image.topic_ids),
        list(image.deleted_topics),
        {name: image.topic(name) is not None for name in ("orders", "logs", "new")},
        {number: sorted(map(str, image.hosted_by(BrokerId(number)))) for number in range(6)},
        {number: (image.replica_count(BrokerId(number)), image.leader_count(BrokerId(number))) for number in range(6)},
        {number: image.replicas_in(BrokerId(number), directory(number)) for number in range(6)},
        dict(image.colliding_names),
        sorted(map(str, image.leaderless())),
    )


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_change_reaches_neither_a_copy_nor_what_was_copied(
    change: Callable[[ClusterImage], tuple[Record, ...]],
) -> None:
    original = small_image()
    untouched = everything(original)
    copy = original.copy()
    assert copy == original
    assert everything(copy) == untouched

    assert original.apply_operation(Operation(original.sequence, change(original)))
    assert everything(original) != untouched
    assert everything(copy) == untouched

    changed = everything(original)
    again = original.copy()
    assert copy.apply_operation(Operation(copy.sequence, change(copy)))
    assert copy == original == again
    assert everything(original) == everything(copy) == everything(again) == changed


def test_images_are_equal_whatever_way_they_came_about() -> None:
    one = with_records(ClusterImage(), BrokerRegistered(broker(1)), BrokerRegistered(broker(2)))
    other = with_records(ClusterImage(), BrokerRegistered(broker(2)), BrokerRegistered(broker(1)))
    assert one == other
    assert one != image_with(broker(1), broker(2, state=FENCED))
    assert one != with_records(one, BrokerStateChanged(BrokerId(1), epoch_of(1), ACTIVE))


# -- what it counts


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_the_counts_are_those_of_the_partitions(history: list[Operation]) -> None:
    image = ClusterImage()
    for operation in history:
        assert image.apply_operation(operation)
    every = [
        (topic.topic_id, number, each) for topic in image.topics.values() for number, each in topic.partitions.items()
    ]
    replicas = Counter(broker_id for _, _, each in every for broker_id in each.replica_ids)
    in_directories = Counter(replica for _, _, each in every for replica in each.replicas)
    leaders = Counter(each.leader for _, _, each in every)
    for number in range(8):
        broker_id = BrokerId(number)
        hosted = list(image.hosted_by(broker_id))
        assert sorted(map(str, hosted)) == sorted(str(each) for each in every if broker_id in each[2].replica_ids)
        assert image.replica_count(broker_id) == replicas[broker_id]
        assert image.leader_count(broker_id) == leaders[broker_id]
        for directory_id in (directory(number, 0), directory(number, 1)):
            assert image.replicas_in(broker_id, directory_id) == in_directories[Replica(broker_id, directory_id)]
    assert sorted(map(str, image.leaderless())) == sorted(str(each) for each in every if each[2].leader is None)
    assert image.partition_count == len(every)
    assert image.topic_ids == {topic.name: topic_id for topic_id, topic in image.topics.items()}


# -- topics


def test_a_partition_is_found_by_topic_and_number() -> None:
    image = small_image()
    found = image.partition(topic_id(1), 1)
    assert found is not None
    assert found.replicas == (replica(2), replica(3))
    assert image.partition(topic_id(1), 2) is None
    assert image.partition(topic_id(9), 0) is None


def test_a_deleted_topic_leaves_nothing_but_its_id() -> None:
    image = with_records(small_image(), TopicDeleted(topic_id(1)), TopicDeleted(topic_id(2)))
    assert image.topic("orders") is None
    assert not image.topics
    assert image.partition_count == 0
    assert list(image.leaderless()) == []
    assert [image.replica_count(broker_id) for broker_id in ids(1, 2, 3)] == [0, 0, 0]
    assert [image.leader_count(broker_id) for broker_id in ids(1, 2, 3)] == [0, 0, 0]
    assert image.config_of(ORDERS) == {}
    assert list(image.deleted_topics) == [topic_id(1), topic_id(2)]


def test_a_topic_created_anew_is_another_topic() -> None:
    image = with_records(small_image(), TopicDeleted(topic_id(1)), TopicCreated(topic_id(5), "orders"))
    topic = image.topic("orders")
    assert topic is not None
    assert topic.topic_id == topic_id(5)
    assert topic.partitions == {}
    assert image.config_of(ConfigResource(ResourceKind.TOPIC, str(topic_id(5)))) == {}
    assert image.partition(topic_id(1), 0) is None


def test_deleted_topics_are_forgotten_oldest_first() -> None:
    deletions = [TopicDeleted(topic_id(number)) for number in range(REMEMBERED_DELETED_TOPICS + 2)]
    image = with_records(ClusterImage(), *deletions)
    assert list(image.deleted_topics) == [deletion.topic_id for deletion in deletions[2:]]


@pytest.mark.parametrize(("name", "is_internal"), [("orders", False), ("_orders", False), ("__offsets", True)])
def test_internal_topics_are_known_by_their_names(name: str, is_internal: bool) -> None:
    topic = image_with(topics={name: []}).topic(name)
    assert topic is not None
    assert topic.is_internal is is_internal


# -- brokers


def test_a_new_incarnation_has_the_replicas_of_the_old() -> None:
    image = with_records(small_image(), BrokerRegistered(broker(2, epoch=500, state=FENCED)))
    assert image.brokers[BrokerId(2)].epoch == 500
    assert image.last_broker_epoch == 500
    assert image.replica_count(BrokerId(2)) == 2


def test_broker_epochs_do_not_go_back() -> None:
    image = with_records(small_image(), BrokerEpochsUsed(BrokerEpoch(1)), BrokerRegistered(broker(4, epoch=2)))
    assert image.last_broker_epoch == epoch_of(3)


def test_an_unregistered_broker_leaves_no_configuration() -> None:
    resource = ConfigResource(ResourceKind.BROKER, "4")
    image = with_records(small_image(), BrokerRegistered(broker(4)), ConfigChanged(resource, "log.level", "debug"))
    assert image.config_of(resource) == {"log.level": "debug"}
    image = with_records(image, BrokerUnregistered(BrokerId(4)))
    assert image.config_of(resource) == {}
    assert list(image.brokers) == [1, 2, 3]


# -- configuration


def test_unsetting_is_as_if_it_was_never_set() -> None:
    image = with_records(
        ClusterImage(),
        ConfigChanged(CLUSTER, "flush.mode", "os"),
        ConfigChanged(CLUSTER, "flush.mode", None),
        ConfigChanged(CLUSTER, "retention.ms", None),
    )
    assert image == with_records(ClusterImage())
    assert image.configs == {}


def test_values_belong_to_their_resource() -> None:
    image = with_records(small_image(), ConfigChanged(CLUSTER, "flush.mode", "fsync"))
    assert image.config_of(ORDERS) == {"flush.mode": "os"}
    assert image.config_of(CLUSTER) == {"flush.mode": "fsync"}
    assert image.config_of(ConfigResource(ResourceKind.TOPIC, str(topic_id(2)))) == {}


# -- what must not be: such a record is a bug, and ends the node


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(PartitionChanged(topic_id(1), 3, partition(1)), id="a gap between partitions"),
        pytest.param(PartitionChanged(topic_id(1), 0, partition(1, 2, 3)), id="a partition at the same epoch"),
        pytest.param(BrokerStateChanged(BrokerId(1), BrokerEpoch(7), FENCED), id="the state of another incarnation"),
        pytest.param(BrokerUnregistered(BrokerId(1)), id="replicas on no broker"),
        pytest.param(TopicCreated(topic_id(1), "other"), id="a topic id twice"),
        pytest.param(TopicCreated(topic_id(9), "orders"), id="a topic name twice"),
        pytest.param(ProducerIdsAllocated(999), id="producer ids given out twice"),
    ],
)
def test_a_record_that_does_not_fit_is_a_broken_invariant(record: Record) -> None:
    image = with_records(small_image(), ProducerIdsAllocated(1000))
    with pytest.raises(AssertionError):
        image.apply(record)
