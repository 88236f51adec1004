"""Every setting of a topic reaches its log, from the topic, the cluster or the default."""

import pytest
from support.metadata_images import ACTIVE, broker, image_with, partition, topic_id

from lograft.broker.hosting.topic_log_config import log_config_of, tail_bytes_among
from lograft.metadata.config.topic_config import MIN_ISR, TOPIC_CONFIG
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import ConfigChanged, ConfigResource, ResourceKind
from lograft.storage.batch.compression import Compression
from lograft.storage.log.log_config import FlushMode, LogConfig

TOPIC = topic_id(1)
OF_TOPIC = ConfigResource(ResourceKind.TOPIC, str(TOPIC))
OF_CLUSTER = ConfigResource(ResourceKind.CLUSTER)

# Each setting that storage acts on: a value unlike the default, and what the log has of it.
SETTINGS = [
    ("cleanup.policy", "compact", {"cleanup_delete": False, "cleanup_compact": True}),
    ("cleanup.policy", "compact,delete", {"cleanup_delete": True, "cleanup_compact": True}),
    ("compression.type", "lz4", {"compression": Compression.LZ4}),
    ("compression.type", "uncompressed", {"compression": Compression.NONE}),
    ("delete.retention.ms", "7", {"delete_retention_ms": 7}),
    ("flush.messages", "100", {"flush_messages": 100}),
    ("flush.mode", "os", {"flush_mode": FlushMode.OS}),
    ("flush.ms", "50", {"flush_ms": 50}),
    ("index.interval.bytes", "8192", {"index_interval_bytes": 8192}),
    ("lograft.validate.batches", "true", {"validate_batches": True}),
    ("max.message.bytes", "5000", {"max_message_bytes": 5000}),
    ("message.timestamp.type", "LogAppendTime", {"append_time": True}),
    ("min.cleanable.dirty.ratio", "0.25", {"min_cleanable_dirty_ratio": 0.25}),
    ("min.compaction.lag.ms", "9", {"min_compaction_lag_ms": 9}),
    ("retention.bytes", "123456", {"retention_bytes": 123456}),
    ("retention.ms", "-1", {"retention_ms": -1}),
    ("segment.bytes", "65536", {"segment_bytes": 65536}),
    ("segment.ms", "60000", {"segment_ms": 60000}),
]
NOT_THE_LOGS = {MIN_ISR, "unclean.leader.election.enable"}


def image_of(*changes: tuple[ConfigResource, str, str]) -> ClusterImage:
    image = image_with(broker(1, state=ACTIVE), topics={"orders": [partition(1)]})
    for resource, key, value in changes:
        image.apply(ConfigChanged(resource, key, value))
    return image


def test_without_settings_a_log_behaves_as_by_default() -> None:
    assert log_config_of(image_of(), TOPIC) == LogConfig()


@pytest.mark.parametrize(("key", "value", "fields"), SETTINGS)
@pytest.mark.parametrize("resource", [OF_TOPIC, OF_CLUSTER])
def test_a_setting_of_topic_or_cluster_reaches_the_log(
    resource: ConfigResource, key: str, value: str, fields: dict[str, object]
) -> None:
    config = log_config_of(image_of((resource, key, value)), TOPIC)
    assert {name: getattr(config, name) for name in fields} == fields
    assert config != LogConfig()


def test_every_setting_of_topics_is_the_logs_or_known_not_to_be() -> None:
    assert {key for key, _, _ in SETTINGS} | NOT_THE_LOGS == set(TOPIC_CONFIG)


def test_the_topics_own_setting_wins() -> None:
    image = image_of((OF_CLUSTER, "segment.ms", "1"), (OF_TOPIC, "segment.ms", "2"))
    assert log_config_of(image, TOPIC).segment_ms == 2


@pytest.mark.parametrize(
    ("replicas", "tail_bytes"), [(0, 4 << 20), (1, 4 << 20), (64, 4 << 20), (128, 2 << 20), (100_000, 256 << 10)]
)
def test_many_replicas_share_the_memory_for_tails(replicas: int, tail_bytes: int) -> None:
    assert tail_bytes_among(replicas) == tail_bytes
