"""The write options. Pure."""

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
from lograft.clients.types import HIDDEN_PREFIX
from lograft.spark.common.options import BOOTSTRAP, ClusterOptions, Options, cluster_options

_COMPRESSION = ("lograft.compression.type", "kafka.compression.type")
_ACKS = ("lograft.acks", "kafka.acks")
WRITE_OPTIONS = (*BOOTSTRAP, "timeoutMs", "topic", *_COMPRESSION, *_ACKS, "exactlyOnce")
# Spark's own options, which it passes on.
_OF_SPARK = ("checkpointLocation", "path", "queryName")

# Lists leave these topics out, as they do internal ones.
STAGED_TOPIC = f"{HIDDEN_PREFIX}staged"
LEDGER_TOPIC = f"{HIDDEN_PREFIX}ledger"
# Determines the partition of a query's records, so it must never change, even if partitions are added.
LEDGER_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`topic`: that of all rows; None: each row names its topic in a column. `is_exactly_once`: rows are staged, and
    published once all are staged."""

    cluster: ClusterOptions
    topic: str | None
    compression: CompressionOption | None
    acks: AcksOption
    is_exactly_once: bool


def write_options(given: Mapping[str, str], *, is_streaming: bool) -> WriteOptions:
    """Parse the options of a write. Raise `InvalidArgument` for any invalid one."""
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
    ProducerOptions(acks=acks, compression=compression)  # validates both
    if topic is not None:
        check_target(topic)
    return WriteOptions(cluster, topic, compression, acks, is_exactly_once)


def check_target(topic: str) -> None:
    """Raise `InvalidArgument` for the connector's own topics."""
    if topic in (STAGED_TOPIC, LEDGER_TOPIC):
        raise InvalidArgument(f"topic {topic!r} is for what is being written: give another one")
