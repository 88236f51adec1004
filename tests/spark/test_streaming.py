"""Streaming queries: where they begin, how much they take, where they go on, and what they refuse."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery  # type: ignore[attr-defined]
from support.server_processes import lograft, until
from support.spark_topics import Row, SparkTopics, TopicsThatAge

from lograft import TopicPartition, testing


class Reading:
    """A query that keeps the rows of each batch, and the checkpoint that it goes on from."""

    def __init__(self, topics: SparkTopics, checkpoint: Path) -> None:
        self.topics = topics
        self.checkpoint = str(checkpoint)
        self.batches: list[list[Row]] = []
        self.options: dict[str, object] = {}
        self.queries: list[StreamingQuery] = []
        self.keep = self.batches.append

    @property
    def rows(self) -> list[Row]:
        return sorted(row for batch in self.batches for row in batch)

    def start(self, **trigger: Any) -> StreamingQuery:
        reader = self.topics.spark.readStream.format("lograft")
        reader = reader.option("lograft.bootstrap.servers", self.topics.bootstrap)
        for name, value in self.options.items():
            reader = reader.option(name, value)  # type: ignore[arg-type]

        def keep(frame: DataFrame, _: int) -> None:
            self.keep(self.topics.rows(frame))

        writer = reader.load().writeStream.foreachBatch(keep).option("checkpointLocation", self.checkpoint)
        query = writer.trigger(**(trigger or {"processingTime": "100 milliseconds"})).start()
        self.queries.append(query)
        return query

    def run(self, **options: object) -> None:
        """Until all that there is now is read."""
        self.options = options or self.options
        self.start(availableNow=True).awaitTermination()

    def stop(self) -> None:
        for query in self.queries:
            query.stop()


@pytest.fixture
def reading(topics: SparkTopics, tmp_path: Path) -> Iterator[Reading]:
    reading = Reading(topics, tmp_path / "checkpoint")
    yield reading
    reading.stop()


def test_all_there_is_comes_in_batches_of_a_size(topics: SparkTopics, reading: Reading) -> None:
    topics.create("rivers", partitions=3)
    for partition, count in enumerate((100, 50, 0)):
        topics.numbers("rivers", 0, count, partition=partition)
    reading.run(subscribe="rivers", startingOffsets="earliest", maxOffsetsPerTrigger=60)
    assert [len(batch) for batch in reading.batches] == [60, 60, 30]
    assert reading.rows == topics.records("rivers")
    # Each partition has its share of each batch.
    assert [len([row for row in batch if row.partition == 0]) for batch in reading.batches] == [40, 40, 20]


def test_what_comes_while_it_reads_what_there_is_is_left_for_the_next_run(
    topics: SparkTopics, reading: Reading
) -> None:
    topics.create("floods")
    topics.numbers("floods", 0, 20)
    keep = reading.batches.append

    def keep_and_add(rows: list[Row]) -> None:
        keep(rows)
        if len(reading.batches) <= 2:
            topics.numbers("floods", 20 * len(reading.batches), 20 * len(reading.batches) + 20)

    reading.keep = keep_and_add
    reading.run(subscribe="floods", startingOffsets="earliest", maxOffsetsPerTrigger=10)
    assert [row.offset for row in reading.rows] == list(range(20)), "though there were more before the second batch"
    reading.keep = keep
    reading.options["maxOffsetsPerTrigger"] = 1000
    reading.run()
    assert reading.rows == topics.records("floods")


def test_it_goes_on_from_its_checkpoint_with_new_partitions(topics: SparkTopics, reading: Reading) -> None:
    topics.create("lakes", partitions=1)
    topics.numbers("lakes", 0, 20)
    reading.run(subscribe="lakes", startingOffsets="earliest")
    topics.numbers("lakes", 20, 30)
    topics.admin.create_partitions("lakes", 2)
    topics.admin.wait_for_topic("lakes")
    topics.numbers("lakes", 0, 5, partition=1)
    reading.run()
    assert [len(batch) for batch in reading.batches] == [20, 15]
    reading.run()
    assert reading.rows == topics.records("lakes")


def test_its_progress_is_that_of_a_group(topics: SparkTopics, reading: Reading) -> None:
    topics.create("ponds", partitions=2)
    for partition in range(2):
        topics.numbers("ponds", 0, 30, partition=partition)
    reading.run(subscribe="ponds", startingOffsets="earliest", groupIdPrefix="pond-watch", maxOffsetsPerTrigger=25)
    (group,) = [each.name for each in topics.admin.list_groups() if each.name.startswith("pond-watch-")]
    offsets = topics.admin.group_offsets(group)
    assert {name: (each.committed, each.lag) for name, each in offsets.items()} == {
        TopicPartition("ponds", 0): (30, 0),
        TopicPartition("ponds", 1): (30, 0),
    }
    topics.numbers("ponds", 30, 40)
    reading.run()
    described = lograft("describe", "group", group, "--bootstrap", topics.bootstrap)
    assert re.findall(r"ponds +(\d) +(\d+) +(\d+) +(\d+) ", described.stdout) == [
        ("0", "40", "40", "0"), ("1", "30", "30", "0"),
    ], described  # fmt: skip


def test_it_begins_with_what_comes_next_unless_told_otherwise(topics: SparkTopics, reading: Reading) -> None:
    topics.create("brooks")
    topics.numbers("brooks", 0, 10)
    reading.options = {"subscribe": "brooks", "lograft.group.id": "brook-watch"}
    query = reading.start()
    until(lambda: Path(reading.checkpoint, "sources", "0", "0").exists() or reading.batches, "it has begun")  # type: ignore[arg-type, return-value]
    until(lambda: query.status["message"] == "Waiting for data to arrive", "it waits")
    topics.numbers("brooks", 10, 25)
    until(lambda: len(reading.rows) == 15, "what came is read")
    assert [row.offset for row in reading.rows] == list(range(10, 25))


def test_topics_that_begin_to_match_are_read_too(topics: SparkTopics, reading: Reading) -> None:
    topics.create("sea-north")
    topics.numbers("sea-north", 0, 5)
    reading.run(subscribePattern="sea-.*", startingOffsets="earliest")
    topics.create("sea-south")
    topics.numbers("sea-south", 0, 7)
    reading.run()
    assert reading.rows == topics.records("sea-north", "sea-south")


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_deleted_is_a_loss(topics: SparkTopics, reading: Reading, fails: bool) -> None:
    one, other = f"dry-{fails}-one", f"dry-{fails}-other"
    for name in (one, other):
        topics.create(name)
        topics.numbers(name, 0, 5)
    reading.run(subscribePattern=f"dry-{fails}-.*", startingOffsets="earliest", failOnDataLoss=fails)
    topics.admin.delete_topic(one)
    topics.numbers(other, 5, 9)
    if fails:
        with pytest.raises(StreamingQueryException, match=f"topic '{one}' is gone.*failOnDataLoss"):
            reading.run()
    else:
        reading.run()
        assert len(reading.rows) == 14


def test_a_topic_that_is_recreated_is_refused(topics: SparkTopics, reading: Reading) -> None:
    topics.create("tide")
    topics.numbers("tide", 0, 5)
    reading.run(subscribe="tide", startingOffsets="earliest", failOnDataLoss=False)
    topics.admin.delete_topic("tide")
    topics.create("tide")
    topics.numbers("tide", 0, 50)
    with pytest.raises(StreamingQueryException, match=r"was deleted and created again.*new checkpoint"):
        reading.run()
    assert len(reading.rows) == 5


@pytest.mark.parametrize("fails", [True, False])
def test_what_retention_takes_away_under_a_query_is_a_loss(
    topics: SparkTopics, aging: TopicsThatAge, reading: Reading, fails: bool
) -> None:
    """It has read the first five records, and goes on when more than those are gone."""
    first = aging.wait_until_shrunk()
    assert first > aging.READ
    shutil.copytree(aging.checkpoint, reading.checkpoint)
    options = {**aging.streaming, "failOnDataLoss": fails}
    if fails:
        with pytest.raises(StreamingQueryException, match="set failOnDataLoss to false"):
            reading.run(**options)
    else:
        reading.run(**options)
        offsets = [row.offset for row in reading.rows]
        assert offsets == list(range(offsets[0], TopicsThatAge.RECORDS))
        assert offsets[0] >= first


def test_a_batch_waits_until_it_is_worth_while(topics: SparkTopics, reading: Reading) -> None:
    topics.create("drops")
    topics.numbers("drops", 0, 10)
    reading.options = {"subscribe": "drops", "startingOffsets": "earliest", "minOffsetsPerTrigger": 20}
    query = reading.start()
    until(lambda: query.status["message"] == "Waiting for data to arrive", "it waits")
    assert reading.rows == []
    topics.numbers("drops", 10, 20)
    until(lambda: len(reading.rows) == 20, "there is enough")
    assert [len(batch) for batch in reading.batches if batch] == [20]


def test_a_batch_waits_no_longer_than_it_may(topics: SparkTopics, reading: Reading) -> None:
    topics.create("dew")
    topics.numbers("dew", 0, 10)
    reading.options = {
        "subscribe": "dew", "startingOffsets": "earliest", "minOffsetsPerTrigger": 20, "maxTriggerDelay": "1s"
    }  # fmt: skip
    reading.start()
    until(lambda: len(reading.rows) == 10, "it does not wait for ever")


def test_leaders_that_are_killed_cost_a_query_nothing(
    topics: SparkTopics, cluster: testing.TestingCluster, reading: Reading
) -> None:
    topics.create("falls", partitions=3, replicas=3)
    for partition in range(3):
        topics.numbers("falls", 0, 200, partition=partition)
    reading.options = {"subscribe": "falls", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 50}
    reading.start()
    until(lambda: len(reading.batches) >= 2, "it reads")
    leader = topics.admin.describe_topic("falls").partitions[0].leader
    assert leader is not None
    cluster.kill(leader)
    try:
        until(lambda: len(reading.rows) >= 600, "all is read")
    finally:
        cluster.restart(leader)
    assert reading.rows == topics.records("falls")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic 'no-such-topic'"),
        ({"subscribe": "rain", "endingOffsets": "latest"}, "a streaming query has no end"),
    ],
)
def test_what_cannot_be_is_told(reading: Reading, options: dict[str, object], told: str) -> None:
    reading.options = options
    with pytest.raises(Exception, match=told):
        reading.start(availableNow=True).awaitTermination()
