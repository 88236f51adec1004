"""Deleting a topic: by id, all of it, once."""

import pytest
from support.metadata_images import apply, brokers, image_with, partition, topic_id, with_records

from lograft.metadata.decisions.topics.delete_topic import DeletedTopic, delete_topic
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import ConfigResource, ResourceKind, TopicCreated
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

ORDERS = topic_id(1)
OFFSETS = topic_id(2)


def an_image() -> ClusterImage:
    return image_with(
        *brokers(2),
        topics={"orders": [partition(1, 2), partition(2, 1)], "__offsets": [partition(1)]},
        topic_configs={"orders": {"retention.ms": "1"}},
    )


def test_a_deleted_topic_takes_its_partitions_and_configuration_along() -> None:
    image = an_image()
    decision = delete_topic(image, ORDERS)
    assert decision.answer == DeletedTopic(ORDERS, "orders")
    after = apply(image, decision)
    assert list(after.topics) == [OFFSETS]
    assert after.topic("orders") is None
    assert after.config_of(ConfigResource(ResourceKind.TOPIC, str(ORDERS))) == {}
    assert (after.replica_count(BrokerId(1)), after.replica_count(BrokerId(2))) == (1, 0)
    assert list(image.topics) == [ORDERS, OFFSETS]


def test_an_unknown_id_is_refused() -> None:
    with pytest.raises(ControllerError, match="no topic with the id") as refused:
        delete_topic(an_image(), topic_id(7))
    assert refused.value.code == errors_pb2.UNKNOWN_TOPIC_ID


def test_a_retry_deletes_nothing_more_though_the_name_is_used_anew() -> None:
    image = an_image()
    image = apply(image, delete_topic(image, ORDERS))
    image = with_records(image, TopicCreated(topic_id(3), "orders"))
    decision = delete_topic(image, ORDERS)
    assert decision.records == ()
    assert decision.answer == DeletedTopic(ORDERS, None)


def test_users_do_not_delete_the_clusters_own_topics() -> None:
    image = an_image()
    with pytest.raises(ControllerError, match="'__offsets' is the cluster's own") as refused:
        delete_topic(image, OFFSETS)
    assert refused.value.code == errors_pb2.INVALID_TOPIC
    assert list(apply(image, delete_topic(image, OFFSETS, is_internal_request=True)).topics) == [ORDERS]
