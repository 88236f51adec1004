"""Topics as Spark reads them and as a plain consumer does, to be compared.

topics.create("orders", partitions=2)
topics.store("orders", [(b"k", b"v", 1000)], partition=0)       # key, value, time
assert topics.rows(topics.load("orders")) == topics.records("orders")
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from support.server_processes import until

from lograft import Admin, Consumer, Producer, TopicPartition
from lograft.clients.admin.model.types import ConfigKind
from lograft.testing import TestingCluster

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that does not live long."""


class Row(NamedTuple):
    """A record, as both sides have it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class SparkTopics:
    def __init__(self, spark: SparkSession, bootstrap: str, admin: Admin) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.admin = admin

    # -- in

    def create(self, name: str, partitions: int = 1, replicas: int = 1, **config: object) -> None:
        # Times are made up, and old.
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): str(value) for key, value in config.items()}
        self.admin.create_topic(name, partitions=partitions, replicas=replicas, config=settings)
        self.admin.wait_for_topic(name)

    def store(
        self,
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None, int | None]],
        *,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        **options: Any,
    ) -> None:
        with Producer(self.bootstrap, **options) as producer:
            for key, value, timestamp in records:
                producer.send(topic, value, key=key, timestamp=timestamp, partition=partition, headers=headers)

    def numbers(self, topic: str, first: int, end: int, *, partition: int = 0, **options: Any) -> None:
        """Records whose values are their numbers, a second apart."""
        records = ((b"k%d" % (n % 7), b"%d" % n, 1000 * n) for n in range(first, end))
        self.store(topic, records, partition=partition, **options)

    # -- out

    def reader(self, topic: str | None = None, **options: object) -> Any:
        reader = self.spark.read.format("lograft").option("lograft.bootstrap.servers", self.bootstrap)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name, value)  # type: ignore[arg-type]
        return reader

    def load(self, topic: str | None = None, **options: object) -> DataFrame:
        loaded: DataFrame = self.reader(topic, **options).load()
        return loaded

    def rows(self, frame: DataFrame) -> list[Row]:
        """Sorted."""
        columns = ("topic", "partition", "offset", "unix_millis(timestamp) AS timestamp", "key", "value")
        return sorted(
            Row(row.topic, row.partition, row.offset, row.timestamp, _bytes(row.key), _bytes(row.value))
            for row in frame.selectExpr(*columns).collect()
        )

    def records(self, *topics: str) -> list[Row]:
        """What a plain consumer reads, from the beginning to where the end is now; sorted."""
        with Consumer(self.bootstrap, auto_offset_reset="earliest") as consumer:
            partitions = [each for topic in topics for each in consumer.partitions_for(topic)]
            ends = {each: end for each, end in self.admin.list_offsets(partitions, "latest").items() if end}
            if not ends:
                return []
            consumer.assign(list(ends))
            found: list[Row] = []

            def poll() -> bool:
                found.extend(
                    Row(one.topic, one.partition, one.offset, one.timestamp, one.key, one.value)
                    for one in consumer.poll(0.2, max_records=100_000)
                )
                return all(consumer.position(each) >= end for each, end in ends.items())

            until(poll, "all is read")
        return sorted(found)

    def earliest(self, topic: str, partition: int = 0) -> int:
        found = self.admin.list_offsets([TopicPartition(topic, partition)], "earliest")
        return found[TopicPartition(topic, partition)] or 0


def _bytes(value: object) -> bytes | None:
    return None if value is None else bytes(value)  # type: ignore[call-overload]


def partition_sizes(frame: DataFrame) -> list[int]:
    """How many rows each Spark partition has."""
    return frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()


class TopicsThatAge:
    """`shrinking` loses its oldest records to retention, and `compacted` most of all: in their own time.

    Of `shrinking`, two reads are planned while all is still there, and a streaming query has read the first `READ`: its
    `checkpoint` is there to go on from."""

    RECORDS = 60
    KEYS = 5
    READ = 5

    def __init__(self, topics: SparkTopics, checkpoint: Path) -> None:
        self._topics = topics
        self.checkpoint = checkpoint
        self.streaming = {"subscribe": "shrinking", "startingOffsets": "earliest", "maxOffsetsPerTrigger": self.READ}
        topics.create("shrinking", segment_bytes=1024)
        topics.create("compacted", cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0)
        for start in range(0, self.RECORDS, 5):
            batch = [(b"k%d" % (n % self.KEYS), b"%d" % n + bytes(200), 1000 * n) for n in range(start, start + 5)]
            topics.store("shrinking", batch)
            topics.store("compacted", batch)
        self._stored_bytes = self._size_bytes("shrinking")
        self.planned = {fails: topics.load("shrinking", failOnDataLoss=fails) for fails in (True, False)}
        self.counts = {fails: frame.count() for fails, frame in self.planned.items()}
        self._stream_once()
        topics.admin.alter_config(ConfigKind.TOPIC, "shrinking", {"retention.bytes": "2048"})

    def _stream_once(self) -> None:
        reader = self._topics.spark.readStream.format("lograft")
        reader = reader.option("lograft.bootstrap.servers", self._topics.bootstrap)
        for name, value in self.streaming.items():
            reader = reader.option(name, value)  # type: ignore[arg-type]
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(processingTime="1 hour").start()  # once, for all that is going to happen here
        until(lambda: (self.checkpoint / "commits" / "0").exists(), "the first batch is done")
        query.stop()

    def wait_until_shrunk(self) -> int:
        """The first offset that is left."""
        until(lambda: self._topics.earliest("shrinking") > 0, "retention deletes records", 90)
        return self._topics.earliest("shrinking")

    def wait_until_compacted(self, cluster: TestingCluster) -> None:
        """Its broker is started again, because it has all in memory as it was."""
        until(lambda: self._size_bytes("compacted") < self._stored_bytes / 2, "the topic is compacted", 60)
        cluster.restart(self._topics.admin.describe_topic("compacted").partitions[0].replicas[0])

    def _size_bytes(self, topic: str) -> int:
        return sum(replica.size_bytes for replica in self._topics.admin.describe_replicas([topic]))
