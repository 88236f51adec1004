"""The configuration of topics: Kafka's names, meanings and defaults; and `flush.mode`, safe by default. Pure."""

from collections.abc import Mapping

from lograft.metadata.config.config_key import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    Flag,
    OneOf,
    Ratio,
    SomeOf,
    Whole,
    by_name,
    check_changes,
)
from lograft.runtime.network import MAX_MESSAGE_BYTES

MIN_ISR = "min.insync.replicas"

_DAY_MS = 24 * 3600 * 1000
_BATCH_HEADER_BYTES = 61  # no batch is smaller
SMALLEST_SEGMENT_BYTES = 1024
# A batch travels whole: leave room for the message around it.
_LARGEST_BATCH_BYTES = MAX_MESSAGE_BYTES - 1024 * 1024

TOPIC_CONFIG: Mapping[str, ConfigKey] = by_name(
    ConfigKey(
        "cleanup.policy", SomeOf(("compact", "delete")), "delete",
        "What becomes of old records: deleted after a time or size, or compacted to the latest of each key, or both.",
    ),
    ConfigKey(
        "compression.type",
        OneOf(("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"), synonyms=(("none", "uncompressed"),)),
        "producer",
        "How batches are stored: as the producer compressed them, or converted to this compression.",
    ),
    ConfigKey(
        "delete.retention.ms", Whole(0, LONG_MAX), str(_DAY_MS),
        "How long a tombstone stays readable after compaction has first met it.",
    ),
    ConfigKey(
        "flush.messages", Whole(1, LONG_MAX), str(LONG_MAX),
        "With flush.mode=os: after how many records the log is synced to disk anyway.",
    ),
    ConfigKey(
        "flush.mode", OneOf(("fsync", "os")), "fsync",
        "What an acknowledgement waits for: the disk (fsync), or only the operating system (os).",
    ),
    ConfigKey(
        "flush.ms", Whole(0, LONG_MAX), str(LONG_MAX),
        "With flush.mode=os: after how long the log is synced to disk anyway.",
    ),
    ConfigKey(
        "index.interval.bytes", Whole(0, INT_MAX), "4096",
        "How much log lies between two entries of a segment's index.",
    ),
    ConfigKey(
        "lograft.validate.batches", Flag(), "false",
        "Are compressed batches opened, and refused if no reader could do that? Storing them takes twice the CPU time.",
    ),
    ConfigKey(
        "max.message.bytes", Whole(_BATCH_HEADER_BYTES, _LARGEST_BATCH_BYTES), str(1024 * 1024 + 12),
        "The largest batch of records taken, as it is stored.",
    ),
    ConfigKey(
        "message.timestamp.type", OneOf(("CreateTime", "LogAppendTime")), "CreateTime",
        "Whose clock a record's timestamp is from: the producer's, or the broker's when it was appended.",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio", Ratio(), "0.5",
        "How much of a compacted log must be new before it is compacted again.",
    ),
    ConfigKey(
        "min.compaction.lag.ms", Whole(0, LONG_MAX), "0",
        "How long a record is safe from compaction.",
    ),
    ConfigKey(
        MIN_ISR, Whole(1, INT_MAX), None,
        "How many replicas must be in sync for acks=all; by default a majority, and never more than there are.",
    ),
    ConfigKey(
        "retention.bytes", Whole(-1, LONG_MAX, "-1 keeps any amount"), "-1",
        "How much of a partition is kept before its oldest segments are deleted.",
    ),
    ConfigKey(
        "retention.ms", Whole(-1, LONG_MAX, "-1 keeps for ever"), str(7 * _DAY_MS),
        "How long records are kept before their segment is deleted.",
    ),
    ConfigKey(
        "segment.bytes", Whole(SMALLEST_SEGMENT_BYTES, INT_MAX), str(1024 * 1024 * 1024),
        "The size at which a new segment is begun. A batch that is larger gets a segment of its own.",
    ),
    ConfigKey(
        "segment.ms", Whole(1, LONG_MAX), str(7 * _DAY_MS),
        "The age at which a new segment is begun, so that retention and compaction can act on the old one.",
    ),
    ConfigKey(
        "unclean.leader.election.enable", Flag(), "false",
        "May a replica that is not in sync lead when no other can? Acknowledged records may be lost then.",
    ),
)  # fmt: skip
"""Every key, by name, in order."""


def default_of(key: str) -> str | None:
    """Return the default of `key`; None for `min.insync.replicas`, which depends on the number of replicas."""
    return TOPIC_CONFIG[key].default


def check_topic_config(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values in their stored spelling, or raise INVALID_CONFIG. The caller checks whether the topic has
    enough replicas for its `min.insync.replicas`."""
    normal = check_changes(TOPIC_CONFIG, values, "a topic")
    return {key: value for key, value in normal.items() if value is not None}
