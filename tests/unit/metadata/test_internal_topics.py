"""The cluster's own topics."""

import pytest
from support.metadata_images import apply, brokers, epoch_of, image_with, topic_id, with_records

from lograft.metadata.errors import ControllerError
from lograft.metadata.image import ClusterImage
from lograft.metadata.internal_topics import CONSUMER_OFFSETS, create_internal_topic
from lograft.metadata.partition import BrokerEpoch, BrokerId
from lograft.metadata.records import ConfigChanged
from lograft.metadata.settings import CLUSTER, topic_setting
from lograft.proto import errors_pb2
from lograft.runtime.rng import Rng

ONE = BrokerId(1)


def created(image: ClusterImage, number: int = 1) -> ClusterImage:
    return apply(image, create_internal_topic(image, ONE, epoch_of(1), CONSUMER_OFFSETS, topic_id(number), Rng(1)))


def test_it_is_as_the_cluster_says_and_loses_nothing() -> None:
    settings = {
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "2",
        "unclean.leader.election.enable": "true",
        "cleanup.policy": "delete",
    }
    changes = [ConfigChanged(CLUSTER, key, value) for key, value in settings.items()]
    image = with_records(image_with(*brokers(3)), *changes)
    image = created(image)
    topic = image.topic(CONSUMER_OFFSETS)
    assert topic is not None
    assert topic.is_internal
    assert [len(topic.partitions[number].replicas) for number in range(5)] == [2] * 5
    assert topic_setting(image, topic.topic_id, "cleanup.policy") == "compact"
    assert topic_setting(image, topic.topic_id, "unclean.leader.election.enable") == "false"


def test_it_is_created_once() -> None:
    image = created(image_with(*brokers(3)))
    assert created(image, 2).topic(CONSUMER_OFFSETS) == image.topic(CONSUMER_OFFSETS)


def test_it_waits_for_as_many_brokers_as_it_has_replicas() -> None:
    with pytest.raises(ControllerError) as refused:
        created(image_with(*brokers(2)))
    assert refused.value.code == errors_pb2.NOT_ENOUGH_BROKERS


def test_only_the_clusters_own_are_made_so_and_only_for_brokers() -> None:
    image = image_with(*brokers(3))
    with pytest.raises(ControllerError, match="none of the cluster's own"):
        create_internal_topic(image, ONE, epoch_of(1), "orders", topic_id(1), Rng(1))
    with pytest.raises(ControllerError) as refused:
        create_internal_topic(image, ONE, BrokerEpoch(99), CONSUMER_OFFSETS, topic_id(1), Rng(1))
    assert refused.value.code == errors_pb2.STALE_BROKER_EPOCH
