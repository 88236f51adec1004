"""Creating a topic: what it begins as, what a retry gets, what is refused."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.metadata_images import (
    FENCED,
    SHUTTING_DOWN,
    apply,
    broker,
    brokers,
    ids,
    image_with,
    partition,
    replica,
    topic_id,
)

from lograft.metadata.decisions.topics import new_partitions
from lograft.metadata.decisions.topics.create_topic import CreatedTopic, CreateTopic, create_topic
from lograft.metadata.decisions.topics.delete_topic import delete_topic
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import Partition, TopicId
from lograft.metadata.image.records import ConfigResource, PartitionChanged, ResourceKind, TopicCreated
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

ID = topic_id(9)


def created(image: ClusterImage, name: str = "orders", **request: Any) -> ClusterImage:
    return apply(image, create_topic(image, CreateTopic(name, ID, **request), Rng(1)))


def refusal(image: ClusterImage, name: str = "orders", **request: Any) -> ControllerError:
    before = image.copy()
    with pytest.raises(ControllerError) as refused:
        create_topic(image, CreateTopic(**{"name": name, "topic_id": ID, **request}), Rng(1))
    assert image == before
    return refused.value


def partitions_of(image: ClusterImage) -> list[Partition]:
    return list(image.topics[ID].partitions.values())


# -- what it begins as


def test_a_topic_begins_with_all_replicas_in_sync_and_the_first_leading() -> None:
    image = created(image_with(*brokers(4)), partitions=8, replication_factor=3)
    assert image.topics[ID].name == "orders"
    assert len(partitions_of(image)) == 8
    for each in partitions_of(image):
        assert len(each.replicas) == 3
        assert each == partition(*each.replicas)
        assert (each.leader, each.leader_epoch, each.partition_epoch) == (each.replica_ids[0], 0, 0)


def test_the_answer_says_what_was_created() -> None:
    image = image_with(*brokers(3))
    decision = create_topic(image, CreateTopic("orders", ID, partitions=4, replication_factor=2), Rng(1))
    assert decision.answer == CreatedTopic(ID, "orders", partitions=4, replication_factor=2, is_new=True)


def test_a_decision_changes_nothing_by_itself() -> None:
    image = image_with(*brokers(3))
    before = image.copy()
    create_topic(image, CreateTopic("orders", ID, partitions=4), Rng(1))
    assert image == before


def test_the_topic_comes_before_its_partitions_in_one_operation() -> None:
    records = create_topic(image_with(*brokers(3)), CreateTopic("orders", ID, partitions=2), Rng(1)).records
    assert records[0] == TopicCreated(ID, "orders")
    assert [each.number for each in records if isinstance(each, PartitionChanged)] == [0, 1]


@pytest.mark.parametrize(
    ("broker_count", "cluster_config", "shape"),
    [
        (1, {}, (1, 1)),
        (2, {}, (1, 2)),
        (5, {}, (1, 3)),
        (5, {"num.partitions": "6"}, (6, 3)),
        (5, {"default.replication.factor": "4"}, (1, 4)),
        (3, {"default.replication.factor": "4"}, (1, 3)),
    ],
)
def test_what_is_not_said_is_the_clusters_default_and_no_more_replicas_than_live_brokers(
    broker_count: int, cluster_config: dict[str, str], shape: tuple[int, int]
) -> None:
    image = image_with(
        *brokers(broker_count), broker(8, state=FENCED), broker(9, state=SHUTTING_DOWN), cluster_config=cluster_config
    )
    answer = create_topic(image, CreateTopic("orders", ID), Rng(1)).answer
    assert (answer.partitions, answer.replication_factor) == shape


def test_its_configuration_is_stored_under_its_id_as_it_is_written_properly() -> None:
    image = created(image_with(broker(1)), configs={"cleanup.policy": "delete, compact", "retention.ms": "60000"})
    resource = ConfigResource(ResourceKind.TOPIC, str(ID))
    assert image.config_of(resource) == {"cleanup.policy": "compact,delete", "retention.ms": "60000"}


def test_a_cluster_may_have_an_internal_topic() -> None:
    image = created(image_with(broker(1)), name="__consumer_offsets", is_internal=True)
    assert image.topics[ID].is_internal


# -- a retry


def test_a_retry_is_answered_with_what_exists() -> None:
    image = created(image_with(*brokers(3)), partitions=4, replication_factor=2)
    # The brokers are gone meanwhile, and what it asks for counts no more.
    image.brokers = {broker_id: replace(each, state=FENCED) for broker_id, each in image.brokers.items()}
    decision = create_topic(image, CreateTopic("orders", ID, partitions=7, replication_factor=2), Rng(2))
    assert decision.records == ()
    assert decision.answer == CreatedTopic(ID, "orders", partitions=4, replication_factor=2, is_new=False)


def test_a_late_retry_does_not_bring_a_deleted_topic_back() -> None:
    image = created(image_with(broker(1)))
    image = apply(image, delete_topic(image, ID))
    error = refusal(image)
    assert error.code == errors_pb2.INVALID_REQUEST
    assert not error.retriable
    assert "deleted" in error.message
    assert "make a new id" in error.message


def test_an_id_is_not_used_for_two_names() -> None:
    image = created(image_with(broker(1)))
    error = refusal(image, name="payments")
    assert error.code == errors_pb2.INVALID_REQUEST
    assert "'orders'" in error.message


def test_a_name_that_another_topic_has_is_taken() -> None:
    image = image_with(broker(1), topics={"orders": [partition(1)]})
    error = refusal(image)
    assert error.code == errors_pb2.TOPIC_ALREADY_EXISTS
    assert str(topic_id(1)) in error.message


def test_a_name_is_free_again_once_its_topic_is_deleted() -> None:
    image = image_with(broker(1), topics={"orders": [partition(1)]})
    image = created(apply(image, delete_topic(image, topic_id(1))))
    assert image.topic_ids == {"orders": ID}


# -- what is refused


@pytest.mark.parametrize(
    ("request_fields", "code", "says"),
    [
        ({"topic_id": TopicId(UUID(int=0))}, "INVALID_REQUEST", "random UUID"),
        ({"name": "a b"}, "INVALID_TOPIC", "' '"),
        ({"name": "__own"}, "INVALID_TOPIC", "'__'"),
        ({"name": "old.name"}, "INVALID_TOPIC", "'old_name'"),
        ({"configs": {"retention.sm": "1"}}, "INVALID_CONFIG", "retention.ms"),
        ({"configs": {"retention.ms": "soon"}}, "INVALID_CONFIG", "soon"),
        ({"partitions": 0}, "INVALID_PARTITIONS", "1 to 10000"),
        ({"partitions": -3}, "INVALID_PARTITIONS", "-3 partitions"),
        ({"partitions": 10_001}, "INVALID_PARTITIONS", "1 to 10000"),
        ({"replication_factor": 0}, "INVALID_REPLICAS", "at least 1"),
        ({"replication_factor": -1}, "INVALID_REPLICAS", "at least 1"),
        ({"replication_factor": 32_768}, "INVALID_REPLICAS", "32768"),
        ({"replication_factor": 4}, "NOT_ENOUGH_BROKERS", "there are 3 of 4 registered: start more brokers"),
        (
            {"configs": {"min.insync.replicas": "3"}, "replication_factor": 2},
            "INVALID_CONFIG",
            "min.insync.replicas cannot be 3 for a topic of 2 replicas",
        ),
    ],
)
def test_a_request_that_is_not_acceptable_is_refused(request_fields: dict[str, Any], code: str, says: str) -> None:
    image = image_with(*brokers(3), broker(4, state=FENCED), topics={"old_name": [partition(1)]})
    error = refusal(image, **request_fields)
    assert errors_pb2.ErrorCode.Name(error.code) == code
    assert says in error.message


def test_as_many_in_sync_as_there_are_replicas_may_be_asked_for() -> None:
    image = created(image_with(*brokers(3)), configs={"min.insync.replicas": "2"}, replication_factor=2)
    assert ID in image.topics


@pytest.mark.parametrize("replication_factor", [None, 1])
def test_without_live_brokers_there_is_no_new_topic(replication_factor: int | None) -> None:
    error = refusal(image_with(broker(1, state=FENCED)), replication_factor=replication_factor)
    assert error.code == errors_pb2.NOT_ENOUGH_BROKERS
    assert "there are 0 of 1 registered" in error.message


def test_a_topic_that_would_not_fit_in_one_entry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_partitions, "MAX_REPLICAS_AT_ONCE", 12)
    image = image_with(*brokers(3))
    assert len(partitions_of(created(image, partitions=4, replication_factor=3))) == 4
    placed = refusal(image, partitions=5, replication_factor=3)
    assigned = refusal(image, assignments=[ids(1, 2, 3)] * 5)
    assert placed.code == assigned.code == errors_pb2.INVALID_PARTITIONS
    assert "15 replicas are too many to create at once" in placed.message


# -- assignments


def test_an_assignment_is_followed_in_its_order() -> None:
    image = created(image_with(*brokers(4)), assignments=[ids(3, 1), ids(2, 4)])
    assert partitions_of(image) == [partition(3, 1), partition(2, 4)]


def test_an_assignment_goes_with_the_same_number_of_partitions_and_replicas() -> None:
    image = created(image_with(*brokers(4)), assignments=[ids(3, 1), ids(2, 4)], partitions=2, replication_factor=2)
    assert len(partitions_of(image)) == 2


def test_assigned_brokers_that_are_not_active_are_not_in_sync_and_do_not_lead() -> None:
    image = image_with(broker(1, state=FENCED), broker(2, state=SHUTTING_DOWN), broker(3), broker(4))
    assert partitions_of(created(image, assignments=[ids(1, 2, 3, 4)])) == [partition(1, 2, 3, 4, isr=[3, 4], leader=3)]


def test_assigned_replicas_fill_directories_equally() -> None:
    image = created(image_with(broker(1, directories=2)), assignments=[ids(1)] * 3)
    assert [each.replicas[0] for each in partitions_of(image)] == [replica(1, 0), replica(1, 1), replica(1, 0)]


@pytest.mark.parametrize(
    ("request_fields", "code", "says"),
    [
        ({"assignments": [ids()]}, "INVALID_REPLICAS", "partition 0 names no broker"),
        ({"assignments": [ids(1, 2), ids()]}, "INVALID_REPLICAS", "partition 1 names no broker"),
        ({"assignments": [ids(1, 2), ids(1)]}, "INVALID_REPLICAS", "partition 1 names 1 brokers, and it is 2"),
        ({"assignments": [ids(1, 2, 1)]}, "INVALID_REPLICAS", "names a broker twice (1, 2, 1)"),
        ({"assignments": [ids(1), ids(7)]}, "INVALID_REPLICAS", "partition 1 names 7, not registered"),
        ({"assignments": [ids(1, 5)]}, "INVALID_REPLICAS", "names 5, without a directory"),
        ({"assignments": [ids(3, 4)]}, "INVALID_REPLICAS", "names no live broker (3, 4)"),
        ({"assignments": [ids(1)], "partitions": 2}, "INVALID_REQUEST", "2 partitions are asked for"),
        ({"assignments": [ids(1)], "replication_factor": 2}, "INVALID_REQUEST", "2 replicas are asked for"),
        ({"assignments": [ids(1)] * 10_001}, "INVALID_PARTITIONS", "1 to 10000"),
        ({"assignments": [ids(1, 2)], "configs": {"min.insync.replicas": "3"}}, "INVALID_CONFIG", "2 replicas"),
    ],
)
def test_an_assignment_that_is_not_acceptable_is_refused(request_fields: dict[str, Any], code: str, says: str) -> None:
    image = image_with(*brokers(2), broker(3, state=FENCED), broker(4, state=SHUTTING_DOWN), broker(5, directories=0))
    error = refusal(image, **request_fields)
    assert errors_pb2.ErrorCode.Name(error.code) == code
    assert says in error.message


def test_an_assignment_does_not_overfill_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lograft.metadata.decisions.topics.placement.MAX_REPLICAS_PER_BROKER", 3)
    image = image_with(*brokers(2), topics={"others": [partition(1)]})
    assert len(partitions_of(created(image, assignments=[ids(1), ids(1)]))) == 2
    error = refusal(image, assignments=[ids(1), ids(1), ids(1)])
    assert error.code == errors_pb2.INVALID_REPLICAS
    assert "broker 1 would have 4 replicas" in error.message
