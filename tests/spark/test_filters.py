"""Filters that are pushed into the ranges: the same rows, from fewer offsets."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from support.spark_topics import Row, SparkTopics, partition_sizes

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
PUSHES = "spark.sql.python.filterPushdown.enabled"


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


def test_rows_are_the_same_with_and_without(topics: SparkTopics) -> None:
    expected = places_without(topics, [F.expr(condition) for condition in CONDITIONS])
    assert len(set(map(len, expected))) > 5, "they are not all alike"
    for condition, passing in zip(CONDITIONS, expected, strict=True):
        assert places(topics.load("shuffled", pushDown=True).where(condition)) == passing, condition


def test_less_is_read(topics: SparkTopics) -> None:
    def ranges(condition: str, **options: object) -> list[int]:
        return partition_sizes(topics.load("shuffled", **options).where(condition).select("offset", "partition"))

    assert ranges("partition = 1 AND offset >= 40", pushDown=True) == [20]
    assert ranges("partition = 1 AND offset >= 40") == [0, 20, 0]
    late = "timestamp >= TIMESTAMP '2026-01-03T10:00:00Z'"
    assert ranges(late, pushDown=True, maxRecordsPerPartition=10) == [1, 1, 1]
    assert sorted(ranges(late, maxRecordsPerPartition=10)) == [0] * 15 + [1, 1, 1]
    nothing = topics.load("shuffled", pushDown=True).where("topic = 'another'")
    assert nothing.count() == 0


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Los_Angeles"])
def test_times_are_meant_in_the_sessions_zone(
    topics: SparkTopics, spark: SparkSession, shuffled: list[Row], zone: str
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
            assert places(topics.load("shuffled", pushDown=True).where(condition)) == passing
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


REFUSED = r"a load\(\) with pushDown is for one query: .*narrowed to partition = 1.*call load\(\) anew for each query"


def test_a_second_query_of_a_load_with_push_down_is_refused(topics: SparkTopics) -> None:
    """Spark keeps the plan of a `load()`, and with it the filter of the first query: rows would be missing."""
    frame = topics.load("shuffled", pushDown=True)
    assert frame.count() == 180, "nothing is narrowed so far"
    assert frame.where("partition = 1").count() == 60
    with pytest.raises(PySparkException, match=REFUSED):
        frame.count()
    with pytest.raises(PySparkException, match=REFUSED):
        frame.where("partition = 2").count()
    assert frame.where("partition = 1").count() == 60, "the same filter is planned anew"
    assert len(frame.where("value IS NOT NULL").collect()) == 180, "and so is one that narrows nothing"
    assert topics.load("shuffled", pushDown=True).count() == 180


def test_a_load_with_push_down_is_used_once_in_a_query(topics: SparkTopics) -> None:
    frame = topics.load("shuffled", pushDown=True)
    with pytest.raises(PySparkException, match=REFUSED):
        frame.where("partition = 1").union(frame.where("partition = 2")).count()
    frame = topics.load("shuffled", pushDown=True)
    with pytest.raises(PySparkException, match=REFUSED):
        frame.where("partition = 1").union(frame).count()
    frame, other = (topics.load("shuffled", pushDown=True) for _ in range(2))
    assert frame.where("partition = 1").union(other.where("partition = 2")).count() == 120


EXPLAINED = {
    "a count": lambda frame: frame.count(),
    "the first rows": lambda frame: frame.take(3),
    "other columns": lambda frame: frame.select("offset").collect(),
    "an aggregate": lambda frame: frame.groupBy("partition").count().collect(),
    "files": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "cached rows": lambda frame: frame.cache().count(),
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("query", EXPLAINED.values(), ids=EXPLAINED.keys())
def test_a_query_after_one_that_was_only_explained_is_refused(
    topics: SparkTopics, query: Callable[[DataFrame], object], times: int
) -> None:
    frame = topics.load("shuffled", pushDown=True)
    for _ in range(times):
        frame.where("partition = 1").explain()
    with pytest.raises(PySparkException, match=REFUSED):
        query(frame)
    frame.unpersist()
    assert frame.where("partition = 1").count() == 60, "the filter's own query is planned anew"


def test_orders_of_queries_of_one_load(topics: SparkTopics, spark: SparkSession) -> None:
    frame = topics.load("shuffled", pushDown=True)
    frame.where("partition = 1").explain()
    assert frame.where("partition = 1").count() == 60
    with pytest.raises(PySparkException, match=REFUSED):
        frame.where("partition = 2").count()
    with pytest.raises(PySparkException, match=REFUSED):
        frame.count()
    with pytest.raises(PySparkException, match=REFUSED):
        frame.collect()

    frame = topics.load("shuffled", pushDown=True)
    frame.where("partition = 1").explain()
    assert frame.where("length(value) = 1").count() == 30, "planned anew, because of a filter that narrows nothing"

    topics.load("shuffled", pushDown=True).createOrReplaceTempView("once")
    spark.sql("EXPLAIN SELECT count(*) FROM once WHERE partition = 1").collect()
    with pytest.raises(PySparkException, match=REFUSED):
        spark.sql("SELECT count(*) FROM once").collect()
    assert spark.sql("SELECT count(*) AS n FROM once WHERE partition = 1").collect()[0].n == 60
    with pytest.raises(PySparkException, match=REFUSED):
        spark.sql("SELECT count(*) FROM once").collect()
    with pytest.raises(PySparkException, match=REFUSED):
        spark.sql("SELECT count(*) FROM once WHERE partition = 2").collect()


def test_a_stream_pushes_nothing(topics: SparkTopics) -> None:
    with pytest.raises(PySparkException, match="pushDown"):
        topics.spark.readStream.format("lograft").option("lograft.bootstrap.servers", topics.bootstrap).option(
            "subscribe", "shuffled"
        ).option("pushDown", "true").load().writeStream.format("noop").start().processAllAvailable()


def test_a_query_that_leaves_nothing_to_read_refuses_the_next_as_well(topics: SparkTopics) -> None:
    frame = topics.load("shuffled", pushDown=True)
    assert frame.where("partition = 1 AND offset > 1000").count() == 0
    with pytest.raises(PySparkException, match=r"a load\(\) with pushDown is for one query"):
        frame.count()


def test_the_same_query_may_be_looked_at_counted_collected_sorted_and_kept(topics: SparkTopics) -> None:
    frame = topics.load("shuffled", pushDown=True).where("partition = 1")
    frame.explain()
    frame.explain()
    assert len(frame.collect()) == 60
    assert frame.count() == 60
    assert len(frame.take(3)) == 3
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(60))
    assert frame.groupBy("topic").count().collect()[0]["count"] == 60
    kept = topics.load("shuffled", pushDown=True, maxRecordsPerPartition=10).where("partition = 1").localCheckpoint()
    assert len(kept.take(1)) == 1
    assert kept.count() == 60
    assert len(kept.collect()) == 60
    assert kept.where("offset < 5").count() == 5


def test_cached_rows_are_refused(topics: SparkTopics) -> None:
    """Spark plans them before there is a query, as if they were explained: the two cannot be told apart."""
    cached = topics.load("shuffled", pushDown=True).where("partition = 1").cache()
    try:
        with pytest.raises(PySparkException, match=r"localCheckpoint\(\)"):
            cached.count()
    finally:
        cached.unpersist()


def test_a_task_that_is_tried_again_is_not_refused(topics: SparkTopics, tmp_path: Path) -> None:
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not failed.exists():
                failed.touch()
                raise RuntimeError("once")
            yield batch

    frame = topics.load("shuffled", pushDown=True).where("partition = 1").select("offset")
    assert frame.mapInArrow(fail_once, "offset long").count() == 60
    assert failed.exists()


def test_without_push_down_a_frame_is_for_any_number_of_queries(topics: SparkTopics) -> None:
    frame = topics.load("shuffled")
    assert frame.where("partition = 1").count() == 60
    assert frame.count() == 180
    assert frame.where("partition = 2 AND offset < 5").count() == 5


def test_if_spark_does_not_push_filters_its_error_names_the_setting(topics: SparkTopics, spark: SparkSession) -> None:
    spark.conf.set(PUSHES, "false")
    try:
        assert topics.load("shuffled").where("partition = 1").count() == 60
        with pytest.raises(AnalysisException, match=r"spark.sql.python.filterPushdown.enabled"):
            topics.load("shuffled", pushDown=True).where("partition = 1").count()
    finally:
        spark.conf.set(PUSHES, "true")
