"""Filters that are pushed into the ranges of one scan: the same rows, from fewer offsets.

Whether Spark keeps a plan for each scan makes no difference here, because each `load()` is read by one scan.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType
from support.spark_topics import Row, SparkTopics, partition_sizes

from lograft.spark.common.options import batch_options
from lograft.spark.reading.push_down_reader import PushDownReader
from lograft.spark.reading.scan_plans import has_plan_for_each_scan
from lograft.spark.source import LograftSource

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000  # 2026-01-01T00:00Z


class Load(Protocol):
    """Load `shuffled`."""

    def __call__(self, **options: object) -> DataFrame: ...


@pytest.fixture(scope="module")
def narrowed(topics: SparkTopics) -> Load:
    """Loads that filters narrow with any version of Spark."""

    class NarrowedSource(LograftSource):
        @classmethod
        def name(cls) -> str:
            return "lograft-narrowed"

        def reader(self, schema: StructType) -> DataSourceReader:
            return PushDownReader(schema, batch_options(self.options))

    topics.spark.dataSource.register(NarrowedSource)

    def load(**options: object) -> DataFrame:
        loaded: DataFrame = topics.reader("shuffled", **options).format("lograft-narrowed").load()
        return loaded

    return load


@pytest.fixture(scope="module", autouse=True)
def shuffled(topics: SparkTopics) -> list[Row]:
    """An hour apart, but for every third record, which is of ten hours before."""
    topics.create("shuffled", partitions=3)
    for partition in range(3):
        for start in range(0, 60, 20):
            records = [
                (None, b"%d" % n, START_MS + HOUR_MS * (n - 10 * (n % 3 == 2))) for n in range(start, start + 20)
            ]
            topics.store("shuffled", records, partition=partition)
    return topics.records("shuffled")


def places(frame: DataFrame) -> set[tuple[int, int]]:
    return {(row.partition, row.offset) for row in frame.select("partition", "offset").collect()}


def places_without(topics: SparkTopics, conditions: Sequence[Column]) -> list[set[tuple[int, int]]]:
    """For each condition, what passes of all there is: in one query, which pushes nothing."""
    passes = [condition.alias(f"passes{number}") for number, condition in enumerate(conditions)]
    rows = topics.load("shuffled").select("partition", "offset", *passes).collect()
    return [
        {(row.partition, row.offset) for row in rows if row[f"passes{number}"]} for number in range(len(conditions))
    ]


CONDITIONS = [
    "partition = 1",
    "partition IN (0, 2) AND offset BETWEEN 10 AND 19",
    "offset > 57 OR partition = 0",
    "topic = 'another'",
    "timestamp >= TIMESTAMP '2026-01-02T00:00:00Z'",
    "timestamp > TIMESTAMP '2026-01-03T10:00:00Z' AND partition = 2",
    "timestamp = TIMESTAMP '2026-01-02T05:00:00Z'",
    "timestamp > TIMESTAMP '2026-02-01T05:00:00Z'",
    "timestamp BETWEEN TIMESTAMP '2026-01-02T00:00:00Z' AND TIMESTAMP '2026-01-02T06:00:00Z'",
    "NOT (partition = 1) AND offset >= 50",
    "value = CAST('7' AS BINARY)",
]


def test_rows_are_the_same_with_and_without(topics: SparkTopics, narrowed: Load) -> None:
    expected = places_without(topics, [F.expr(condition) for condition in CONDITIONS])
    assert len(set(map(len, expected))) > 5, "they are not all alike"
    for condition, passing in zip(CONDITIONS, expected, strict=True):
        assert places(narrowed().where(condition)) == passing, condition


def test_less_is_read(topics: SparkTopics, narrowed: Load) -> None:
    def ranges(frame: DataFrame, condition: str) -> list[int]:
        return partition_sizes(frame.where(condition).select("offset", "partition"))

    few = "partition = 1 AND offset >= 40"
    assert ranges(narrowed(), few) == [20]
    assert ranges(topics.load("shuffled"), few) == [0, 20, 0]
    late = "timestamp >= TIMESTAMP '2026-01-03T10:00:00Z'"
    assert ranges(narrowed(maxRecordsPerPartition=10), late) == [1, 1, 1]
    assert sorted(ranges(topics.load("shuffled", maxRecordsPerPartition=10), late)) == [0] * 15 + [1, 1, 1]
    assert narrowed().where("topic = 'another'").count() == 0


def test_it_is_known_whether_this_spark_keeps_a_plan_for_each_scan(narrowed: Load) -> None:
    """What `pushDown` depends on. If a Spark without `pushLimit` is right as well, it may push down, too."""
    frame = narrowed()
    rows = frame.where("partition = 1").union(frame).count()
    assert rows == (240 if has_plan_for_each_scan() else 120)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Los_Angeles"])
def test_times_are_meant_in_the_sessions_zone(
    topics: SparkTopics, narrowed: Load, spark: SparkSession, shuffled: list[Row], zone: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        conditions = [
            F.col("timestamp") >= "2026-01-02 00:00:00",
            F.col("timestamp") >= F.lit(datetime(2026, 1, 2, 0, 0)),  # naive: of the machine
            F.col("timestamp") >= F.lit(datetime(2026, 1, 2, 0, 0, tzinfo=UTC)),
            F.expr("timestamp >= TIMESTAMP_NTZ '2026-01-02 00:00:00'"),
        ]
        expected = places_without(topics, conditions)
        assert expected[0] == expected[3] != expected[2]
        for condition, passing in zip(conditions, expected, strict=True):
            assert 0 < len(passing) < len(shuffled)
            assert places(narrowed().where(condition)) == passing
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_without_push_down_a_frame_is_for_any_number_of_queries(topics: SparkTopics) -> None:
    frame = topics.load("shuffled")
    assert frame.where("partition = 1").count() == 60
    assert frame.count() == 180
    assert frame.where("partition = 2 AND offset < 5").count() == 5
