"""The task side of an exactly-once write: stages rows and reports their offsets. No row is visible in the target topics
before the driver publishes it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from lograft.clients.admin.model.types import ConfigKind
from lograft.clients.admin.sync_admin import Admin
from lograft.clients.errors import InvalidConfig, TopicAlreadyExists
from lograft.clients.producer.pipeline.partitioner import Turns
from lograft.clients.producer.sync_producer import Producer
from lograft.runtime.clock import LoopClock
from lograft.runtime.rng import system_rng
from lograft.spark.common.error_text import one_sentence
from lograft.spark.reading.planner import open_admin
from lograft.spark.writing.row_tables import tables_by_topic
from lograft.spark.writing.staged_batches import BATCH_BYTES, StagedBatch, Target, TargetTopic, batches_of
from lograft.spark.writing.write_options import LEDGER_PARTITIONS, LEDGER_TOPIC, STAGED_TOPIC, WriteOptions
from lograft.storage.batch.codec import Compression

# How much is put into batches at a time: enough to avoid small batches.
_CHUNK_BYTES = 8 * 1024 * 1024
_LARGEST_BATCH_BYTES = 60 * 1024 * 1024
_DAY_MS = 24 * 3600 * 1000
_MAX_BYTES, _CLEANUP, _COMPRESSION = "max.message.bytes", "cleanup.policy", "compression.type"


class Staged(WriterCommitMessage):
    """The result of one task: `offsets` of its batches in `partition` of the staging topic. `targets`: the number of
    records for each. `topics`: the names of the target topics."""

    def __init__(
        self,
        query_id: str,
        staged_topic_id: bytes,
        partition: int,
        offsets: Sequence[int],
        targets: dict[Target, int],
        topics: dict[bytes, str],
    ) -> None:
        self.query_id = query_id
        self.staged_topic_id = staged_topic_id
        self.partition = partition
        self.offsets = list(offsets)
        self.targets = targets
        self.topics = topics


@one_sentence()
def stage_rows(batches: Iterator[Any], options: WriteOptions, query_id: str, task_number: int) -> Staged:
    """Stage the rows, and return when all are acknowledged. Raise if any failed."""
    with open_admin(options.cluster) as admin:
        staging = _Staging(admin, options)
        partition = task_number % staging.partition_count
        targets: Counter[Target] = Counter()
        deliveries = []
        with Producer(
            options.cluster.bootstrap,
            delivery_timeout_ms=options.cluster.timeout_ms,
            max_block_ms=options.cluster.timeout_ms,
            client_id="lograft-spark",
        ) as producer:
            for table in _chunks(batches):
                for staged in staging.batches_of(table):
                    deliveries.append(producer.send(STAGED_TOPIC, staged.batch, key=staged.key, partition=partition))
                    targets[staged.target] += staged.record_count
            offsets = [delivery.result().offset for delivery in deliveries]
    return Staged(query_id, staging.topic_id, partition, offsets, targets, staging.names)


def _chunks(batches: Iterator[Any]) -> Iterator[Any]:
    """Join batches of rows to larger ones."""
    waiting: list[Any] = []
    size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= _CHUNK_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


class _Staging:
    """A task's view of the cluster. The first task that needs them creates the staging topic and the ledger."""

    def __init__(self, admin: Admin, options: WriteOptions) -> None:
        self._admin = admin
        self._options = options
        self._rng = system_rng()
        self._topics: dict[str, TargetTopic] = {}
        self._turns: dict[str, Turns] = {}
        ensure_topics(admin)
        topic = admin.describe_topic(STAGED_TOPIC)
        self.topic_id = topic.id.bytes
        self.partition_count = len(topic.partitions)

    @property
    def names(self) -> dict[bytes, str]:
        return {topic.topic_id: topic.name for topic in self._topics.values()}

    def batches_of(self, batch: Any) -> Iterator[StagedBatch]:
        for name, table in tables_by_topic(batch, self._options.topic):
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topics[name] = _look_up(self._admin, name, self._options.compression)
                self._turns[name] = Turns(self._rng, BATCH_BYTES)
            now_ms = LoopClock().wall_ms()
            yield from batches_of(table, topic, now_ms=now_ms, turns=self._turns[name])


def _look_up(admin: Admin, name: str, compression: str | None) -> TargetTopic:
    """Return the target topic. `compression`: the writer's choice, overridden by the topic's own if it has one, because
    a batch could exceed the limit once the broker converts it."""
    topic = admin.describe_topic(name)
    entries = admin.describe_config(ConfigKind.TOPIC, name, (_MAX_BYTES, _CLEANUP, _COMPRESSION))
    config = {entry.key: entry.value or "" for entry in entries}
    if config[_COMPRESSION] != "producer":
        compression = None if config[_COMPRESSION] == "uncompressed" else config[_COMPRESSION]
    return TargetTopic(
        name,
        topic.id.bytes,
        len(topic.partitions),
        max_batch_bytes=int(config[_MAX_BYTES]),
        needs_keys="compact" in config[_CLEANUP],
        compression=Compression[(compression or "none").upper()],
    )


# Settings that must not depend on the cluster's defaults.
_KEPT = {
    _CLEANUP: "delete",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    _MAX_BYTES: str(_LARGEST_BATCH_BYTES),
}
# Retention is by time, and a driver's clock may be wrong by days. Staged batches need no append time: a decision checks
# that they exist.
_LEDGER_ONLY = {"message.timestamp.type": "LogAppendTime", "retention.ms": str(7 * _DAY_MS)}


def ensure_topics(admin: Admin) -> None:
    """Create the staging topic and the ledger if they do not exist."""
    present = admin.list_topics(include_internal=True)
    if STAGED_TOPIC not in present:
        with suppress(TopicAlreadyExists):
            admin.create_topic(STAGED_TOPIC, partitions=4, config={**_KEPT, "retention.ms": str(_DAY_MS)})
    if LEDGER_TOPIC not in present:
        with suppress(TopicAlreadyExists):
            admin.create_topic(LEDGER_TOPIC, partitions=LEDGER_PARTITIONS, config={**_KEPT, **_LEDGER_ONLY})


def check_topics(admin: Admin) -> None:
    """Raise `InvalidConfig` if the connector's topics are compacted: that would lose staged rows, and keep the last
    decision on a batch, while the first one holds."""
    for topic in (STAGED_TOPIC, LEDGER_TOPIC):
        (policy,) = admin.describe_config(ConfigKind.TOPIC, topic, (_CLEANUP,))
        if "compact" in (policy.value or ""):
            raise InvalidConfig(
                f"{topic} is compacted, so that what is needed for an exactly-once write is lost: set its "
                f"{_CLEANUP} to delete"
            )
