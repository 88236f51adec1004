"""More partitions for a topic."""

from collections import Counter
from typing import Any

import pytest
from support.metadata_images import FENCED, apply, broker, brokers, ids, image_with, partition, topic_id

from lograft.metadata.decisions.topics.add_partitions import AddedPartitions, AddPartitions, add_partitions
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import Partition
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

ORDERS = topic_id(1)


def grown(image: ClusterImage, total: int, **request: Any) -> list[Partition]:
    """The partitions of the topic after."""
    after = apply(image, add_partitions(image, AddPartitions(ORDERS, total, **request), Rng(1)))
    return list(after.topics[ORDERS].partitions.values())


def refusal(image: ClusterImage, total: int, **request: Any) -> ControllerError:
    before = image.copy()
    with pytest.raises(ControllerError) as refused:
        add_partitions(image, AddPartitions(**{"topic_id": ORDERS, "total": total, **request}), Rng(1))
    assert image == before
    return refused.value


def test_partitions_are_added_up_to_the_total_and_the_others_stay() -> None:
    image = image_with(*brokers(3), topics={"orders": [partition(1, 2), partition(2, 1, isr=[2], partition_epoch=4)]})
    decision = add_partitions(image, AddPartitions(ORDERS, 5), Rng(1))
    assert decision.answer == AddedPartitions(ORDERS, "orders", total=5, added=3)
    assert [each.number for each in decision.records] == [2, 3, 4]
    after = grown(image, 5)
    assert after[:2] == list(image.topics[ORDERS].partitions.values())
    assert all(each == partition(*each.replicas) and len(each.replicas) == 2 for each in after[2:])


def test_the_topic_as_a_whole_is_even() -> None:
    image = image_with(*brokers(4), topics={"orders": [partition(1), partition(2), partition(1), partition(2)]})
    assert Counter(each.leader for each in grown(image, 8)) == dict.fromkeys(ids(1, 2, 3, 4), 2)


def test_a_retry_adds_none() -> None:
    image = image_with(broker(1), topics={"orders": [partition(1), partition(1)]})
    for request in (AddPartitions(ORDERS, 2), AddPartitions(ORDERS, 2, assignments=[ids(1)])):
        decision = add_partitions(image, request, Rng(1))
        assert decision.records == ()
        assert decision.answer == AddedPartitions(ORDERS, "orders", total=2, added=0)


def test_new_partitions_have_the_replicas_that_the_topic_will_have_after_its_reassignment() -> None:
    reassigning = partition(1, 2, isr=[1], target=[2], adding=[2])
    image = image_with(*brokers(3), topics={"orders": [reassigning]})
    after = grown(image, 3)
    assert after[0] == reassigning
    assert [each.replication_factor for each in after] == [1, 1, 1]


def test_assigned_partitions_are_where_they_are_assigned() -> None:
    image = image_with(*brokers(3), broker(4, state=FENCED), topics={"orders": [partition(1, 2)]})
    after = grown(image, 3, assignments=[ids(4, 3), ids(2, 3)])
    assert after[1:] == [partition(4, 3, isr=[3], leader=3), partition(2, 3)]


@pytest.mark.parametrize(
    ("request_fields", "code", "says"),
    [
        ({"topic_id": topic_id(7)}, "UNKNOWN_TOPIC_ID", "no topic with the id"),
        ({"topic_id": topic_id(2)}, "INVALID_TOPIC", "'__offsets' is the cluster's own"),
        ({"total": 1}, "INVALID_PARTITIONS", "has 2 partitions, and a topic cannot lose partitions"),
        ({"total": 0}, "INVALID_PARTITIONS", "1 to 10000"),
        ({"total": 10_001}, "INVALID_PARTITIONS", "1 to 10000"),
        ({"assignments": [ids(1, 2)]}, "INVALID_REQUEST", "2 new ones make 4, and the assignments are for 1"),
        ({"assignments": [ids(1, 2), ids(1)]}, "INVALID_REPLICAS", "partition 3 names 1 brokers, and it is 2"),
        ({"assignments": [ids(1, 2), ids(1, 9)]}, "INVALID_REPLICAS", "partition 3 names 9, not registered"),
    ],
)
def test_a_request_that_is_not_acceptable_is_refused(request_fields: dict[str, Any], code: str, says: str) -> None:
    topics = {"orders": [partition(1, 2), partition(2, 1)], "__offsets": [partition(1)]}
    error = refusal(image_with(*brokers(3), topics=topics), **{"total": 4, **request_fields})
    assert errors_pb2.ErrorCode.Name(error.code) == code
    assert says in error.message


def test_the_cluster_may_add_to_its_own_topics() -> None:
    image = image_with(broker(1), topics={"__offsets": [partition(1)]})
    assert len(grown(image, 3, is_internal_request=True)) == 3


def test_too_few_live_brokers_for_the_topics_replicas_are_no_reason_for_fewer() -> None:
    image = image_with(broker(1), broker(2, state=FENCED), topics={"orders": [partition(1, 2, isr=[1])]})
    error = refusal(image, 2)
    assert error.code == errors_pb2.NOT_ENOUGH_BROKERS
    assert "2 replicas need as many live brokers, and there are 1 of 2 registered" in error.message
