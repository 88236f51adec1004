"""What a Spark user may say of a write. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from lograft.clients.errors import InvalidArgument
from lograft.clients.producer.pipeline.options import (
    MAX_DELIVERY_TIMEOUT_MS,
    AcksOption,
    CompressionOption,
    ProducerOptions,
)
from lograft.spark.common.options import BOOTSTRAP, ClusterOptions, Options, cluster_options

_COMPRESSION = ("lograft.compression.type", "kafka.compression.type")
_ACKS = ("lograft.acks", "kafka.acks")
WRITE_OPTIONS = (*BOOTSTRAP, "timeoutMs", "topic", *_COMPRESSION, *_ACKS, "exactlyOnce")
# Spark's own, which it hands on.
_OF_SPARK = ("checkpointLocation", "path", "queryName")

HIDDEN_PREFIX = "lograft-spark-"
"""Of topics that the connector keeps for itself: lists of topics show them with `--internal` only."""
STAGED_TOPIC = f"{HIDDEN_PREFIX}staged"
LEDGER_TOPIC = f"{HIDDEN_PREFIX}ledger"
# Where a query's records are follows from this. It never changes, however many partitions are added.
LEDGER_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`topic`: of all rows; None: each row has a column that says it. `is_exactly_once`: rows are staged, and published
    once all are."""

    cluster: ClusterOptions
    topic: str | None
    compression: CompressionOption | None
    acks: AcksOption
    is_exactly_once: bool


def write_options(given: Mapping[str, str], *, is_streaming: bool) -> WriteOptions:
    """`InvalidArgument` for anything that cannot be."""
    options = Options(given, (*WRITE_OPTIONS, *_OF_SPARK), "writing")
    compression = cast("CompressionOption | None", options.text(*_COMPRESSION))
    acks = cast(AcksOption, options.text(*_ACKS) or "all")
    is_exactly_once = options.flag("exactlyOnce", is_streaming)
    if is_exactly_once and acks not in ("all", "-1"):
        raise InvalidArgument(f"acks is {acks!r}, with which a record can be lost: give all, or exactlyOnce=false")
    cluster, topic = cluster_options(options), options.text("topic")
    if cluster.timeout_ms > MAX_DELIVERY_TIMEOUT_MS:
        raise InvalidArgument(
            f"option timeoutMs is {cluster.timeout_ms}: give at most {MAX_DELIVERY_TIMEOUT_MS}, one hour"
        )
    ProducerOptions(acks=acks, compression=compression)  # it knows what can be
    if topic is not None:
        check_target(topic)
    return WriteOptions(cluster, topic, compression, acks, is_exactly_once)


def check_target(topic: str) -> None:
    """`InvalidArgument` for a topic that is not for rows."""
    if topic in (STAGED_TOPIC, LEDGER_TOPIC):
        raise InvalidArgument(f"topic {topic!r} is for what is being written: give another one")
