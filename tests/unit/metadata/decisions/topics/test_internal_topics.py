"""The cluster's own topics."""

from collections.abc import Mapping

import pytest
from support.metadata_images import (
    FENCED,
    apply,
    broker,
    brokers,
    epoch_of,
    ids,
    image_with,
    partition,
    topic_id,
    with_records,
)

from lograft.broker.hosting.topic_log_config import log_config_of
from lograft.metadata.config.effective_settings import CLUSTER, effective_min_isr, topic_setting, trusts_page_cache
from lograft.metadata.config.topic_config import TOPIC_CONFIG
from lograft.metadata.decisions.alter_configs import alter_configs
from lograft.metadata.decisions.describe_configs import ConfigSource, describe
from lograft.metadata.decisions.partitions.elect_leaders import elect_allowed_unclean, elect_unclean_leaders
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.decisions.partitions.reassignment import Reassignment, reassign
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS, create_internal_topic
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.image.records import ConfigChanged, ConfigResource, PartitionChanged, ResourceKind
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng
from lograft.storage.log.log_config import FlushMode

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


# -- what is set does not make it lose anything

OFFSETS = ConfigResource(ResourceKind.TOPIC, str(topic_id(1)))

LOSSY = {
    "cleanup.policy": "delete",
    "compression.type": "zstd",
    "flush.messages": "100000",
    "flush.mode": "os",
    "flush.ms": "60000",
    "index.interval.bytes": "0",
    "max.message.bytes": "1000",
    "lograft.validate.batches": "true",
    "message.timestamp.type": "LogAppendTime",
    "min.compaction.lag.ms": "1",
    "min.insync.replicas": "1",
    "retention.bytes": "1",
    "retention.ms": "1",
    "segment.ms": "1",
    "unclean.leader.election.enable": "true",
}


def offsets_image(own: Mapping[str, str] | None = None, cluster: Mapping[str, str] | None = None) -> ClusterImage:
    """`__consumer_offsets` as a broker has it created, with three replicas a partition; then `own` set on it."""
    settings = {"offsets.topic.num.partitions": "1", **(cluster or {})}
    image = with_records(
        image_with(*brokers(3)), *(ConfigChanged(CLUSTER, key, value) for key, value in settings.items())
    )
    image = created(image)
    return with_records(image, *(ConfigChanged(OFFSETS, key, value) for key, value in (own or {}).items()))


def min_isr_of(image: ClusterImage) -> int:
    return effective_min_isr(image, topic_id(1), image.topics[topic_id(1)].partitions[0])


@pytest.mark.parametrize("level", ["cluster", "own"])
def test_what_the_cluster_or_an_earlier_version_set_is_not_in_force(level: str) -> None:
    safe, image = offsets_image(), offsets_image(**{level: LOSSY})
    assert log_config_of(image, topic_id(1)) == log_config_of(safe, topic_id(1))
    config = log_config_of(image, topic_id(1))
    assert (config.cleanup_compact, config.cleanup_delete, config.flush_mode) == (True, False, FlushMode.FSYNC)
    assert not trusts_page_cache(image, topic_id(1))
    assert min_isr_of(image) == 2
    described = {each.key: each for each in describe(image, OFFSETS)}
    for key in LOSSY:
        assert described[key].value == {each.key: each.value for each in describe(safe, OFFSETS)}[key], key
        assert described[key].source is not ConfigSource.CLUSTER


def test_no_key_is_left_out() -> None:
    """A key that is added to topics must be thought of: it is refused here until someone says that it is harmless."""
    for key in TOPIC_CONFIG.keys() - {"delete.retention.ms", "min.cleanable.dirty.ratio", "segment.bytes"}:
        assert key in LOSSY
        assert refusal(offsets_image(), {key: LOSSY[key]})


# -- what can be changed


def refusal(image: ClusterImage, changes: Mapping[str, str | None]) -> str:
    before = image.copy()
    with pytest.raises(ControllerError) as refused:
        alter_configs(image, OFFSETS, changes)
    assert image == before
    assert refused.value.code == errors_pb2.INVALID_CONFIG
    for named in ("__consumer_offsets", *changes, "min.cleanable.dirty.ratio", "and max.message.bytes and"):
        assert named in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    "changes",
    [
        {"segment.bytes": "1048576"},
        {"segment.bytes": None},
        {"min.cleanable.dirty.ratio": "0.1"},
        {"delete.retention.ms": "60000"},
        {"min.insync.replicas": "3"},
        {"min.insync.replicas": "2"},
        {"max.message.bytes": str(32 * 1024 * 1024)},
        {"cleanup.policy": "compact"},
        {"retention.ms": None},
    ],
)
def test_what_loses_nothing_is_done(changes: Mapping[str, str | None]) -> None:
    image = offsets_image()
    after = apply(image, alter_configs(image, OFFSETS, changes))
    for key, value in changes.items():
        assert value is None or topic_setting(after, topic_id(1), key) == value


@pytest.mark.parametrize(
    ("own", "changes"),
    [
        ({}, {"cleanup.policy": None}),
        ({}, {"cleanup.policy": "compact,delete"}),
        ({}, {"max.message.bytes": None, "min.insync.replicas": "1"}),
        ({}, {"min.insync.replicas": "1"}),
        ({"min.insync.replicas": "3"}, {"min.insync.replicas": "1"}),
        ({}, {"max.message.bytes": str(16 * 1024 * 1024 - 1)}),
        ({"max.message.bytes": str(32 * 1024 * 1024)}, {"max.message.bytes": "1048576"}),
        ({}, {"segment.bytes": "1048576", "retention.ms": "1"}),
    ],
)
def test_nothing_goes_below_its_default_or_is_unset_that_protects_it(
    own: Mapping[str, str], changes: Mapping[str, str | None]
) -> None:
    with pytest.raises(ControllerError) as refused:
        alter_configs(offsets_image(own), OFFSETS, changes)
    assert "can be changed" in refused.value.message


@pytest.mark.parametrize("key", ["min.insync.replicas", "max.message.bytes"])
def test_what_was_raised_can_be_lowered_as_far_as_the_default(key: str) -> None:
    most, middle, default = {
        "min.insync.replicas": ("3", "3", "2"),
        "max.message.bytes": (str(64 * 1024 * 1024), str(32 * 1024 * 1024), str(16 * 1024 * 1024)),
    }[key]
    for value in (middle, default, None):
        image = offsets_image({key: most})
        after = apply(image, alter_configs(image, OFFSETS, {key: value}))
        assert topic_setting(after, topic_id(1), key) == (value if key == "min.insync.replicas" else value or default)
    assert min_isr_of(apply(image, alter_configs(image, OFFSETS, {key: default}))) == 2


def test_what_an_earlier_version_let_someone_set_can_be_put_right() -> None:
    image = offsets_image({"cleanup.policy": "delete", "min.insync.replicas": "1"})
    changes = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    assert alter_configs(image, OFFSETS, changes).answer.changed == changes


def test_a_default_of_the_cluster_does_not_settle_its_partitions_anew() -> None:
    alone = partition(1, 2, 3, isr=[1], elr=[2], leader_epoch=4, partition_epoch=7)
    image = image_with(
        broker(1),
        broker(2, state=FENCED),
        broker(3, state=FENCED),
        topics={CONSUMER_OFFSETS: [alone], "orders": [alone]},
    )
    records = alter_configs(image, CLUSTER, {"min.insync.replicas": "1"}).records
    changed = [each.topic_id for each in records if isinstance(each, PartitionChanged)]
    assert changed == [topic_id(2)]


# -- elections

AWAY = partition(1, 2, isr=(), leader=None, elr=[1])
SAID = {(topic_id(number), 0): {BrokerId(2): LogEnd(epoch_of(2), 3, 50)} for number in (1, 2)}  # type: ignore[arg-type]


def leaderless_image() -> ClusterImage:
    return image_with(
        broker(1, state=FENCED),
        broker(2),
        topics={CONSUMER_OFFSETS: [AWAY], "orders": [AWAY]},
        topic_configs={CONSUMER_OFFSETS: {"unclean.leader.election.enable": "true"}},
        cluster_config={"unclean.leader.election.enable": "true"},
    )


def test_it_is_never_elected_uncleanly_unless_someone_names_it() -> None:
    image = leaderless_image()
    allowed = apply(image, elect_allowed_unclean(image, SAID))
    asked = elect_unclean_leaders(image, None, SAID)
    for after in (allowed, apply(image, asked)):
        assert after.topics[topic_id(1)].partitions[0].leader is None
        assert after.topics[topic_id(2)].partitions[0].leader == BrokerId(2)
    (error,) = [result.error for result in asked.answer if result.error is not None]
    assert "__consumer_offsets-0" in error.message
    assert error.code == errors_pb2.INVALID_TOPIC, "not retriable: nobody waits for it"
    named = apply(image, elect_unclean_leaders(image, [(topic_id(1), 0)], SAID))
    assert named.topics[topic_id(1)].partitions[0].leader == BrokerId(2)


# -- how many replicas it keeps


def shrunk(image: ClusterImage, *target: int) -> ControllerError | None:
    (result,) = reassign(image, [Reassignment(topic_id(1), 0, ids(*target))]).answer
    return result.error


@pytest.mark.parametrize(
    ("members", "cordoned", "present", "target", "is_refused"),
    [
        (3, (), (1, 2, 3), (1,), True),
        (3, (), (1, 2, 3), (1, 2), True),
        (3, (), (1, 2, 3), (3, 2, 1), False),
        (3, (3,), (1, 2, 3), (1, 2), False),
        (3, (3,), (1, 2, 3), (1,), True),
        (3, (2, 3), (1, 2, 3), (1,), False),
        (5, (), (1, 2, 3, 4, 5), (1, 2, 3), False),
        (5, (), (1, 2, 3, 4, 5), (1, 2), True),
        (4, (1,), (1, 2, 3), (2, 3, 4), False),
        (3, (), (1,), (2,), False),
        (3, (), (1,), (1, 2), False),
    ],
)
def test_it_does_not_lose_replicas_that_there_are_brokers_for(
    members: int, cordoned: tuple[int, ...], present: tuple[int, ...], target: tuple[int, ...], is_refused: bool
) -> None:
    image = image_with(*brokers(members), topics={CONSUMER_OFFSETS: [partition(*present)]})
    off = [ConfigResource(ResourceKind.BROKER, str(each)) for each in cordoned]
    image = with_records(image, *(ConfigChanged(each, "placement.enable", "false") for each in off))
    error = shrunk(image, *target)
    assert (error is not None) == is_refused
    if error is not None:
        assert error.code == errors_pb2.INVALID_REPLICAS
        for said in ("topic __consumer_offsets ", "offsets.topic.replication.factor is 3", "placement.enable=false"):
            assert said in error.message


def test_other_topics_may_lose_replicas() -> None:
    image = image_with(*brokers(3), topics={"orders": [partition(1, 2, 3)]})
    assert shrunk(image, 1) is None


def test_the_configured_factor_decides() -> None:
    topics = {CONSUMER_OFFSETS: [partition(1, 2, 3)]}
    image = image_with(*brokers(3), topics=topics, cluster_config={"offsets.topic.replication.factor": "1"})
    assert shrunk(image, 1) is None


def test_more_replicas_can_be_cancelled() -> None:
    moving = partition(1, 2, 3, isr=[1], target=[1, 2, 3], adding=[2, 3])
    image = image_with(*brokers(3), topics={CONSUMER_OFFSETS: [moving]})
    (result,) = reassign(image, [Reassignment(topic_id(1), 0, None)]).answer
    assert result.error is None
