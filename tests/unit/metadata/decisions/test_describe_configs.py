"""What is in force, and where it was set."""

import pytest
from support.metadata_images import apply, broker, brokers, image_with, partition, topic_id

from lograft.metadata.config.cluster_config import CLUSTER_CONFIG
from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.config.topic_config import TOPIC_CONFIG
from lograft.metadata.decisions.alter_configs import alter_configs
from lograft.metadata.decisions.describe_configs import ConfigSource, ConfigValue, describe
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import Partition
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

ORDERS = ConfigResource(ResourceKind.TOPIC, str(topic_id(1)))
BROKER_1 = ConfigResource(ResourceKind.BROKER, "1")
MIN_ISR = "min.insync.replicas"


def image_of(
    *partitions: Partition, topic: dict[str, str] | None = None, cluster: dict[str, str] | None = None
) -> ClusterImage:
    return image_with(
        *brokers(3),
        topics={"orders": partitions or [partition(1, 2, 3)]},
        topic_configs={"orders": topic or {}},
        cluster_config=cluster,
    )


def value(image: ClusterImage, resource: ConfigResource, key: str) -> ConfigValue:
    [found] = describe(image, resource, [key])
    return found


def test_a_value_says_all_that_is_known_of_its_key() -> None:
    assert value(image_of(topic={"retention.ms": "5"}), ORDERS, "retention.ms") == ConfigValue(
        key="retention.ms",
        value="5",
        source=ConfigSource.TOPIC,
        default="604800000",
        description=TOPIC_CONFIG["retention.ms"].description,
        kind="integer",
        accepts="a whole number from -1 to 9223372036854775807 (-1 keeps for ever)",
        is_of_topics=True,
        setting="5",
    )


@pytest.mark.parametrize(
    ("topic", "cluster", "expected", "source"),
    [
        ({}, {}, "604800000", ConfigSource.DEFAULT),
        ({}, {"retention.ms": "7"}, "7", ConfigSource.CLUSTER),
        ({"retention.ms": "5"}, {"retention.ms": "7"}, "5", ConfigSource.TOPIC),
        ({"retention.ms": "5"}, {}, "5", ConfigSource.TOPIC),
        ({"segment.ms": "5"}, {"flush.ms": "5"}, "604800000", ConfigSource.DEFAULT),
    ],
)
def test_a_topics_own_value_goes_before_the_clusters_and_that_before_the_default(
    topic: dict[str, str], cluster: dict[str, str], expected: str, source: ConfigSource
) -> None:
    found = value(image_of(topic=topic, cluster=cluster), ORDERS, "retention.ms")
    assert (found.value, found.source, found.default) == (expected, source, "604800000")


def test_the_cluster_has_the_keys_of_topics_and_its_own() -> None:
    image = image_of(cluster={"retention.ms": "7"})
    found = describe(image, CLUSTER)
    assert [each.key for each in found] == sorted(CLUSTER_CONFIG)
    assert (value(image, CLUSTER, "retention.ms").value, value(image, CLUSTER, "retention.ms").source) == (
        "7", ConfigSource.CLUSTER,
    )  # fmt: skip
    assert value(image, CLUSTER, "num.partitions").source is ConfigSource.DEFAULT
    assert [each.key for each in found if each.is_of_topics] == sorted(TOPIC_CONFIG)
    assert {each.key: each.setting for each in found if each.setting is not None} == {"retention.ms": "7"}


def test_what_is_set_is_told_even_where_less_is_in_force() -> None:
    found = value(image_of(partition(1, 2), topic={"min.insync.replicas": "3"}), ORDERS, "min.insync.replicas")
    assert (found.value, found.setting) == ("2", "3")
    assert value(image_of(cluster={"retention.ms": "7"}), ORDERS, "retention.ms").setting is None


def test_a_broker_has_its_own_keys_alone() -> None:
    image = image_of(cluster={"retention.ms": "7"})
    image = apply(image, alter_configs(image, BROKER_1, {"log.level": "debug"}))
    assert [(each.key, each.value, each.source) for each in describe(image, BROKER_1)] == [
        ("log.level", "debug", ConfigSource.BROKER),
        ("placement.enable", "true", ConfigSource.DEFAULT),
        ("slow.request.ms", "1000", ConfigSource.DEFAULT),
    ]
    assert value(image, ConfigResource(ResourceKind.BROKER, "2"), "log.level").value == "info"


def test_all_keys_come_in_order_and_every_one_but_once() -> None:
    assert [each.key for each in describe(image_of(), ORDERS)] == sorted(TOPIC_CONFIG)
    some = describe(image_of(), ORDERS, ["segment.ms", "flush.ms", "segment.ms"])
    assert [each.key for each in some] == ["flush.ms", "segment.ms"]


def test_no_keys_are_not_all_keys() -> None:
    assert describe(image_of(), ORDERS, []) == []


@pytest.mark.parametrize(
    ("partitions", "topic", "cluster", "expected", "source", "default"),
    [
        ([partition(1, 2, 3)], None, None, "2", ConfigSource.DEFAULT, "2"),
        ([partition(1)], None, None, "1", ConfigSource.DEFAULT, "1"),
        ([partition(1, 2, 3)], "3", "1", "3", ConfigSource.TOPIC, "2"),
        ([partition(1, 2, 3)], None, "1", "1", ConfigSource.CLUSTER, "2"),
        # Never more than there are.
        ([partition(1, 2, 3)], None, "5", "3", ConfigSource.CLUSTER, "2"),
        # What holds for all of them.
        ([partition(1, 2, 3), partition(1)], None, None, "1", ConfigSource.DEFAULT, "1"),
        # The replicas that a reassignment arrives at.
        ([partition(1, 2, 3, isr=[1], target=[1, 2, 3], adding=[2, 3])], None, None, "2", ConfigSource.DEFAULT, "2"),
    ],
)
def test_the_minimum_isr_of_a_topic_is_shown_as_it_follows_from_its_replicas(
    partitions: list[Partition],
    topic: str | None,
    cluster: str | None,
    expected: str,
    source: ConfigSource,
    default: str,
) -> None:
    image = image_of(
        *partitions, topic={MIN_ISR: topic} if topic else None, cluster={MIN_ISR: cluster} if cluster else None
    )
    found = value(image, ORDERS, MIN_ISR)
    assert (found.value, found.source, found.default) == (expected, source, default)


def test_the_minimum_isr_of_the_cluster_has_no_value_unless_one_is_set() -> None:
    assert (value(image_of(), CLUSTER, MIN_ISR).value, value(image_of(), CLUSTER, MIN_ISR).default) == (None, None)
    assert value(image_of(cluster={MIN_ISR: "5"}), CLUSTER, MIN_ISR).value == "5"


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(ControllerError, match=r"did you mean retention\.ms\?") as refused:
        describe(image_of(), ORDERS, ["retention.ms", "retention.mss"])
    assert refused.value.code == errors_pb2.INVALID_CONFIG


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (ConfigResource(ResourceKind.TOPIC, str(topic_id(2))), errors_pb2.UNKNOWN_TOPIC),
        (ConfigResource(ResourceKind.BROKER, "4"), errors_pb2.UNKNOWN_BROKER),
        (ConfigResource(ResourceKind.CLUSTER, "x"), errors_pb2.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_is_not_described(resource: ConfigResource, code: int) -> None:
    with pytest.raises(ControllerError) as refused:
        describe(image_of(), resource)
    assert refused.value.code == code


def test_describing_changes_nothing() -> None:
    image = image_with(broker(1), topics={"orders": [partition(1)]})
    before = image.copy()
    describe(image, ORDERS)
    describe(image, CLUSTER)
    assert image == before
    assert image.configs == {}
