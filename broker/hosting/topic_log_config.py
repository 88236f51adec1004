"""Log configurations from topic settings. Pure."""

from lograft.metadata.config.config_key import LONG_MAX
from lograft.metadata.config.effective_settings import topic_setting
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import TopicId
from lograft.storage.batch.compression import Compression
from lograft.storage.log.log_config import FlushMode, LogConfig

_LARGEST_TAIL_BYTES = 4 * 1024 * 1024
_SMALLEST_TAIL_BYTES = 256 * 1024
_ALL_TAILS_BYTES = 256 * 1024 * 1024


def log_config_of(image: ClusterImage, topic_id: TopicId) -> LogConfig:
    """Return the effective configuration of an existing topic."""
    policies = _text(image, topic_id, "cleanup.policy").split(",")
    return LogConfig(
        segment_bytes=_whole(image, topic_id, "segment.bytes"),
        segment_ms=_whole(image, topic_id, "segment.ms"),
        index_interval_bytes=_whole(image, topic_id, "index.interval.bytes"),
        max_message_bytes=_whole(image, topic_id, "max.message.bytes"),
        retention_ms=_whole(image, topic_id, "retention.ms"),
        retention_bytes=_whole(image, topic_id, "retention.bytes"),
        cleanup_delete="delete" in policies,
        cleanup_compact="compact" in policies,
        min_compaction_lag_ms=_whole(image, topic_id, "min.compaction.lag.ms"),
        delete_retention_ms=_whole(image, topic_id, "delete.retention.ms"),
        min_cleanable_dirty_ratio=float(_text(image, topic_id, "min.cleanable.dirty.ratio")),
        append_time=_text(image, topic_id, "message.timestamp.type") == "LogAppendTime",
        compression=_compression(_text(image, topic_id, "compression.type")),
        validate_batches=_text(image, topic_id, "lograft.validate.batches") == "true",
        flush_mode=FlushMode(_text(image, topic_id, "flush.mode")),
        flush_messages=_unless_endless(_whole(image, topic_id, "flush.messages")),
        flush_ms=_unless_endless(_whole(image, topic_id, "flush.ms")),
        tail_bytes=_LARGEST_TAIL_BYTES,
    )


def tail_bytes_among(replicas: int) -> int:
    """Return how many bytes of each log's end to keep in memory. The share shrinks as the number of replicas grows."""
    return max(_SMALLEST_TAIL_BYTES, min(_LARGEST_TAIL_BYTES, _ALL_TAILS_BYTES // max(1, replicas)))


def _text(image: ClusterImage, topic_id: TopicId, key: str) -> str:
    value = topic_setting(image, topic_id, key)
    assert value is not None, f"{key} has no default"
    return value


def _whole(image: ClusterImage, topic_id: TopicId, key: str) -> int:
    return int(_text(image, topic_id, key))


def _unless_endless(value: int) -> int | None:
    """Return None for the largest value, which stands for "never"."""
    return value if value < LONG_MAX else None


def _compression(name: str) -> Compression | None:
    """Return the codec, or None to store batches as they arrive."""
    if name == "producer":
        return None
    return Compression.NONE if name == "uncompressed" else Compression.from_name(name)
