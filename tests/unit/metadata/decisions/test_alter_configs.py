"""Changing configurations: all of a request or nothing, and what a new minimum ISR makes of partitions."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metadata_images import FENCED, apply, broker, brokers, image_with, partition, topic_id

from lograft.metadata.config.config_resource import find_resource
from lograft.metadata.config.effective_settings import CLUSTER, cluster_setting, effective_min_isr
from lograft.metadata.decisions.alter_configs import alter_configs
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition
from lograft.metadata.image.records import ConfigChanged, ConfigResource, PartitionChanged, ResourceKind
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

ORDERS = ConfigResource(ResourceKind.TOPIC, str(topic_id(1)))
BROKER_1 = ConfigResource(ResourceKind.BROKER, "1")
MIN_ISR = "min.insync.replicas"


def small_image(**options: Mapping[str, str]) -> ClusterImage:
    configs = {"orders": dict(options.get("topic", {}))}
    return image_with(
        *brokers(3),
        topics={"orders": [partition(1, 2, 3), partition(2, 3, 1)], "payments": [partition(3)]},
        topic_configs=configs,
        cluster_config=options.get("cluster"),
    )


def image_below_minimum(
    *, topic: Mapping[str, str] | None = None, cluster: Mapping[str, str] | None = None
) -> ClusterImage:
    """Brokers 2 and 3 are away. Of each partition of `orders` and `payments`, 1 leads alone and 2 is eligible."""
    alone = partition(1, 2, 3, isr=[1], elr=[2], leader_epoch=4, partition_epoch=7)
    return image_with(
        broker(1), broker(2, state=FENCED), broker(3, state=FENCED),
        topics={"orders": [alone, alone], "payments": [alone]},
        topic_configs={"orders": topic or {}},
        cluster_config=cluster,
    )  # fmt: skip


def eligible(image: ClusterImage, number: int) -> list[list[BrokerId]]:
    partitions = image.topics[topic_id(number)].partitions.values()
    return [[replica.broker_id for replica in each.elr] for each in partitions]


def refusal(image: ClusterImage, resource: ConfigResource, changes: Mapping[str, str | None]) -> ControllerError:
    before = image.copy()
    with pytest.raises(ControllerError) as refused:
        alter_configs(image, resource, changes)
    assert image == before
    return refused.value


# -- any key


@pytest.mark.parametrize(
    ("resource", "key", "value", "stored"),
    [
        (ORDERS, "retention.ms", " 60000", "60000"),
        (ORDERS, "cleanup.policy", "delete, compact", "compact,delete"),
        (CLUSTER, "retention.ms", "60000", "60000"),
        (CLUSTER, "auto.create.topics.enable", "TRUE", "true"),
        (CLUSTER, "replica.lag.time.max.ms", "500", "500"),
        (BROKER_1, "log.level", "Debug", "debug"),
        (BROKER_1, "log.level", "lograft.raft=debug, INFO", "info,lograft.raft=debug"),
    ],
)
def test_a_value_is_set_in_its_normal_spelling(resource: ConfigResource, key: str, value: str, stored: str) -> None:
    image = small_image()
    decision = alter_configs(image, resource, {key: value})
    assert decision.records == (ConfigChanged(resource, key, stored),)
    assert decision.answer.changed == {key: stored}
    assert image.config_of(resource) == {}, "a decision changes nothing itself"
    assert apply(image, decision).config_of(resource) == {key: stored}


def test_keys_that_are_not_named_stay_as_they_are() -> None:
    image = small_image(topic={"retention.ms": "5", "segment.ms": "7"})
    after = apply(image, alter_configs(image, ORDERS, {"segment.ms": "8", "flush.mode": "os"}))
    assert after.config_of(ORDERS) == {"retention.ms": "5", "segment.ms": "8", "flush.mode": "os"}


def test_a_value_is_unset_by_none() -> None:
    image = small_image(topic={"retention.ms": "5", "segment.ms": "7"})
    decision = alter_configs(image, ORDERS, {"retention.ms": None})
    assert decision.records == (ConfigChanged(ORDERS, "retention.ms", None),)
    assert apply(image, decision).config_of(ORDERS) == {"segment.ms": "7"}


def test_what_is_so_already_is_not_recorded_again() -> None:
    image = small_image(topic={"retention.ms": "5", "flush.mode": "os"})
    decision = alter_configs(image, ORDERS, {"retention.ms": "05", "flush.mode": "OS", "segment.ms": None})
    assert decision.records == ()
    assert decision.answer.changed == {}


def test_a_default_can_be_set_so_that_it_outlives_a_change_of_the_clusters() -> None:
    decision = alter_configs(small_image(), ORDERS, {"retention.ms": "604800000"})
    assert decision.records == (ConfigChanged(ORDERS, "retention.ms", "604800000"),)


def test_no_changes_are_no_error() -> None:
    assert alter_configs(small_image(), CLUSTER, {}).records == ()


@pytest.mark.parametrize(
    ("resource", "changes"),
    [
        (ORDERS, {"retention.ms": "5", "segment.ms": "never"}),
        (ORDERS, {"retention.ms": "5", "retention": None}),
        (ORDERS, {"num.partitions": "3"}),
        (ORDERS, {"log.level": "info"}),
        (ORDERS, {"log.level": None}),
        (CLUSTER, {"retention.ms": "5", "num.partitions": "0"}),
        (CLUSTER, {"num.partitions": "10001"}),
        (CLUSTER, {"default.replication.factor": "0"}),
        (CLUSTER, {"replica.lag.time.max.ms": "0"}),
        (CLUSTER, {"log.level": "info"}),
        (BROKER_1, {"log.level": "loud"}),
        (BROKER_1, {"log.level": "info,lograft.rafft=debug"}),
        (BROKER_1, {"slow.request.ms": "-1"}),
        (BROKER_1, {"retention.ms": "5"}),
    ],
)
def test_one_bad_change_refuses_the_whole_request(resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
    error = refusal(small_image(), resource, changes)
    assert error.code == errors_pb2.INVALID_CONFIG


def test_a_refusal_says_whose_key_it_is_not() -> None:
    assert "the cluster has no key 'log.level'" in refusal(small_image(), CLUSTER, {"log.level": "info"}).message
    assert "a broker has no key 'x'" in refusal(small_image(), BROKER_1, {"x": None}).message


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (ConfigResource(ResourceKind.TOPIC, str(topic_id(9))), errors_pb2.UNKNOWN_TOPIC),
        (ConfigResource(ResourceKind.TOPIC, "orders"), errors_pb2.UNKNOWN_TOPIC),
        (ConfigResource(ResourceKind.TOPIC, topic_id(1).hex), errors_pb2.UNKNOWN_TOPIC),
        (ConfigResource(ResourceKind.TOPIC), errors_pb2.UNKNOWN_TOPIC),
        (ConfigResource(ResourceKind.BROKER, "4"), errors_pb2.UNKNOWN_BROKER),
        (ConfigResource(ResourceKind.BROKER, "01"), errors_pb2.UNKNOWN_BROKER),
        (ConfigResource(ResourceKind.BROKER), errors_pb2.UNKNOWN_BROKER),
        (ConfigResource(ResourceKind.CLUSTER, "main"), errors_pb2.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_cannot_be_configured(resource: ConfigResource, code: int) -> None:
    error = refusal(small_image(), resource, {})
    assert error.code == code
    assert not error.retriable
    assert ascii(resource.name) in error.message


# -- by the names that people use


def test_a_topic_is_found_by_its_name_by_its_id_and_by_both() -> None:
    image = small_image()
    assert find_resource(image, ResourceKind.TOPIC, "orders") == ORDERS
    assert find_resource(image, ResourceKind.TOPIC, "", topic_id(1)) == ORDERS
    assert find_resource(image, ResourceKind.TOPIC, "orders", topic_id(1)) == ORDERS


def test_a_broker_is_found_by_its_id_and_the_cluster_without_a_name() -> None:
    assert find_resource(small_image(), ResourceKind.BROKER, "1") == BROKER_1
    assert find_resource(small_image(), ResourceKind.CLUSTER, "") == CLUSTER


@pytest.mark.parametrize(
    ("kind", "name", "number", "code", "named"),
    [
        (ResourceKind.TOPIC, "order", None, errors_pb2.UNKNOWN_TOPIC, "'order'"),
        (ResourceKind.TOPIC, "", None, errors_pb2.UNKNOWN_TOPIC, "''"),
        (ResourceKind.TOPIC, "", 9, errors_pb2.UNKNOWN_TOPIC, str(topic_id(9))),
        (ResourceKind.TOPIC, "orders", 9, errors_pb2.UNKNOWN_TOPIC, str(topic_id(1))),
        (ResourceKind.TOPIC, "orders", 2, errors_pb2.UNKNOWN_TOPIC, str(topic_id(1))),
        (ResourceKind.TOPIC, "order", 1, errors_pb2.UNKNOWN_TOPIC, "'order'"),
        (ResourceKind.BROKER, "9", None, errors_pb2.UNKNOWN_BROKER, "the brokers are 1, 2, 3"),
        (ResourceKind.CLUSTER, "x", None, errors_pb2.INVALID_REQUEST, "'x'"),
    ],
)
def test_a_name_of_nothing_is_refused(kind: ResourceKind, name: str, number: int | None, code: int, named: str) -> None:
    with pytest.raises(ControllerError) as refused:
        find_resource(small_image(), kind, name, topic_id(number) if number is not None else None)
    assert refused.value.code == code
    assert named in refused.value.message


# -- the minimum ISR


def test_a_topic_cannot_ask_for_more_replicas_in_sync_than_it_has() -> None:
    error = refusal(small_image(), ORDERS, {MIN_ISR: "4", "retention.ms": "5"})
    assert error.code == errors_pb2.INVALID_CONFIG
    assert "orders" in error.message
    assert "partition 0 is 3" in error.message
    assert alter_configs(small_image(), ORDERS, {MIN_ISR: "3"}).records


def test_the_partition_with_the_fewest_replicas_counts() -> None:
    image = image_with(*brokers(3), topics={"orders": [partition(1, 2, 3), partition(2, 3)]})
    assert "partition 1 is 2" in refusal(image, ORDERS, {MIN_ISR: "3"}).message


def test_during_a_reassignment_the_replicas_it_arrives_at_count() -> None:
    growing = partition(1, 2, 3, isr=[1], target=[1, 2, 3], adding=[2, 3])
    shrinking = partition(1, 2, 3, target=[1])
    assert alter_configs(image_with(*brokers(3), topics={"orders": [growing]}), ORDERS, {MIN_ISR: "3"}).records
    assert "partition 0 is 1" in refusal(
        image_with(*brokers(3), topics={"orders": [shrinking]}), ORDERS, {MIN_ISR: "2"}
    ).message  # fmt: skip


def test_a_minimum_that_is_set_already_does_not_stand_in_the_way_of_other_changes() -> None:
    """Its topic had more replicas when it was set."""
    image = image_with(
        broker(1), topics={"orders": [partition(1)]}, topic_configs={"orders": {MIN_ISR: "2", "retention.ms": "5"}}
    )
    decision = alter_configs(image, ORDERS, {MIN_ISR: "2", "retention.ms": "6"})
    assert decision.records == (ConfigChanged(ORDERS, "retention.ms", "6"),)


def test_the_cluster_can_ask_for_more_than_a_topic_has_which_then_asks_for_all_it_has() -> None:
    image = small_image()
    after = apply(image, alter_configs(image, CLUSTER, {MIN_ISR: "5"}))
    assert effective_min_isr(after, topic_id(1), after.topics[topic_id(1)].partitions[0]) == 3
    assert effective_min_isr(after, topic_id(2), after.topics[topic_id(2)].partitions[0]) == 1


def test_a_lower_minimum_of_a_topic_ends_the_eligibility_of_those_out_of_sync_in_the_same_operation() -> None:
    image = image_below_minimum()
    decision = alter_configs(image, ORDERS, {MIN_ISR: "1"})
    assert [type(record) for record in decision.records] == [ConfigChanged, PartitionChanged, PartitionChanged]
    after = apply(image, decision)
    assert eligible(after, 1) == [[], []]
    assert eligible(after, 2) == [[2]], "another topic's are not concerned"
    changed = after.topics[topic_id(1)].partitions[1]
    assert (changed.partition_epoch, changed.leader_epoch, changed.leader, changed.isr) == (8, 4, 1, (1,))


def test_a_lower_minimum_of_the_cluster_concerns_the_topics_without_their_own() -> None:
    image = image_below_minimum(topic={MIN_ISR: "2"})
    after = apply(image, alter_configs(image, CLUSTER, {MIN_ISR: "1"}))
    assert eligible(after, 1) == [[2], [2]]
    assert eligible(after, 2) == [[]]


def test_unset_on_a_topic_the_minimum_of_the_cluster_is_in_force() -> None:
    image = image_below_minimum(topic={MIN_ISR: "2"}, cluster={MIN_ISR: "1"})
    after = apply(image, alter_configs(image, ORDERS, {MIN_ISR: None}))
    assert eligible(after, 1) == [[], []]


def test_unset_on_a_topic_and_not_set_on_the_cluster_a_majority_is_in_force() -> None:
    image = image_below_minimum(topic={MIN_ISR: "3"})
    assert [type(record) for record in alter_configs(image, ORDERS, {MIN_ISR: None}).records] == [ConfigChanged]
    two = partition(1, 2, 3, isr=[1, 2], elr=[3], partition_epoch=7)
    image = image_with(
        broker(1),
        broker(2),
        broker(3, state=FENCED),
        topics={"orders": [two]},
        topic_configs={"orders": {MIN_ISR: "3"}},
    )
    assert eligible(apply(image, alter_configs(image, ORDERS, {MIN_ISR: None})), 1) == [[]]


def test_unset_on_the_cluster_a_majority_is_in_force() -> None:
    two = partition(1, 2, 3, isr=[1, 2], elr=[3], partition_epoch=7)
    image = image_with(
        broker(1), broker(2), broker(3, state=FENCED), topics={"orders": [two]}, cluster_config={MIN_ISR: "3"}
    )
    assert eligible(apply(image, alter_configs(image, CLUSTER, {MIN_ISR: None})), 1) == [[]]


def test_a_higher_minimum_makes_nobody_eligible_who_left_under_the_lower_one() -> None:
    left = partition(1, 2, 3, isr=[1])
    image = image_with(*brokers(3), topics={"orders": [left]}, topic_configs={"orders": {MIN_ISR: "1"}})
    decision = alter_configs(image, ORDERS, {MIN_ISR: "2"})
    assert decision.records == (ConfigChanged(ORDERS, MIN_ISR, "2"),)


def test_without_a_leader_a_lower_minimum_keeps_the_eligible() -> None:
    away = partition(1, 2, 3, isr=[], elr=[1, 2])
    image = image_with(*brokers(3, state=FENCED), topics={"orders": [away]})
    assert eligible(apply(image, alter_configs(image, ORDERS, {MIN_ISR: "1"})), 1) == [[1, 2]]


def test_other_keys_leave_partitions_alone() -> None:
    image = image_below_minimum()
    decision = alter_configs(image, ORDERS, {"unclean.leader.election.enable": "true", "flush.mode": "os"})
    assert all(isinstance(record, ConfigChanged) for record in decision.records)


def states_below_or_above(min_isr: int) -> st.SearchStrategy[Partition]:
    """Partitions on brokers 1, 2 and 3, of whom only those in sync are live."""
    in_sync = st.sampled_from([[], [1], [1, 2]])
    return in_sync.flatmap(
        lambda isr: st.sampled_from([[], [3], [2, 3]]).map(
            lambda elr: partition(
                1, 2, 3, isr=isr, elr=[each for each in elr if each not in isr] if len(isr) < min_isr else []
            )
        )
    )


MINIMA = st.sampled_from([None, "1", "2", "3"])


@given(MINIMA, MINIMA, st.booleans(), st.data())
def test_nobody_is_eligible_where_the_isr_is_large_enough_whatever_the_change(
    old: str | None, new: str | None, on_topic: bool, data: st.DataObject
) -> None:
    state = data.draw(states_below_or_above(int(old or "2")))
    members = [broker(each) if each in state.isr else broker(each, state=FENCED) for each in (1, 2, 3)]
    values = {MIN_ISR: old} if old is not None else {}
    image = image_with(
        *members,
        topics={"orders": [state]},
        topic_configs={"orders": values} if on_topic else None,
        cluster_config=values if not on_topic else None,
    )
    resource = ORDERS if on_topic else CLUSTER
    decision = alter_configs(image, resource, {MIN_ISR: new})
    after = apply(image, decision)
    result = after.topics[topic_id(1)].partitions[0]
    minimum = int(new or "2")
    assert result.isr == state.isr
    assert result.leader == state.leader
    assert result.elr == (state.elr if len(state.isr) < minimum else ())
    assert any(isinstance(record, PartitionChanged) for record in decision.records) == (result != state)


def test_a_setting_of_the_cluster_alone_is_read_with_its_default() -> None:
    assert cluster_setting(small_image(), "num.partitions") == "1"
    assert cluster_setting(small_image(cluster={"num.partitions": "6"}), "num.partitions") == "6"
