"""`pushDown` never costs a row: a filter of one scan leaves the other scans of the same `load()` alone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.spark_topics import SparkTopics

from lograft.spark.source import LograftSource

Query = Callable[[DataFrame], object]


@pytest.fixture(scope="module", autouse=True)
def thirds(topics: SparkTopics) -> None:
    """180 records, 60 of them in each of three partitions."""
    topics.create("thirds", partitions=3)
    for partition in range(3):
        topics.numbers("thirds", 0, 60, partition=partition)


def filtered(frame: DataFrame) -> DataFrame:
    return frame.where("partition = 1")


def sql(frame: DataFrame, query: str) -> list[tuple[object, ...]]:
    frame.createOrReplaceTempView("v")
    return [tuple(row) for row in frame.sparkSession.sql(query).collect()]


def empty(frame: DataFrame) -> DataFrame:
    """A frame that turns out to be empty only when it was computed."""
    return frame.sparkSession.range(1).where("hash(id) = 0").selectExpr("id AS none").groupBy("none").count()


ONE_QUERY: dict[str, tuple[Query, object]] = {
    "scalar subqueries": (
        lambda frame: sql(frame, "SELECT (SELECT count(*) FROM v WHERE partition = 1), (SELECT count(*) FROM v)"),
        [(60, 180)],
    ),
    "a semi-join": (
        lambda frame: sql(
            frame, "SELECT count(*) FROM v WHERE offset IN (SELECT offset FROM v WHERE partition = 1)"
        ),
        [(180,)],
    ),
    "a join with the filtered frame": (
        lambda frame: frame.join(filtered(frame).select("offset"), "offset").count(),
        180,
    ),
    "a self-join by alias": (
        lambda frame: filtered(frame).alias("a").join(frame.alias("b"), F.expr("a.offset = b.offset")).count(),
        180,
    ),
    "a subquery in a filter": (
        lambda frame: sql(
            frame, "SELECT partition FROM v WHERE offset = (SELECT max(offset) FROM v WHERE partition = 1) ORDER BY 1"
        ),
        [(0,), (1,), (2,)],
    ),
    "a subquery in a filter of the other partition": (
        lambda frame: sql(
            frame,
            "SELECT count(*) FROM v WHERE partition = 2 AND offset <= (SELECT max(offset) FROM v WHERE partition = 1)",
        ),
        [(60,)],
    ),
    "a union of two filters": (lambda frame: filtered(frame).union(frame.where("partition = 2")).count(), 120),
    "a union with the filtered frame": (lambda frame: filtered(frame).union(frame).count(), 240),
    "a union in one task": (lambda frame: filtered(frame).union(frame).coalesce(1).count(), 240),
    "a product": (lambda frame: filtered(frame).crossJoin(frame.select("value")).count(), 60 * 180),
    "a filtered scan that is left out while the query runs": (
        lambda frame: (
            filtered(frame).join(F.broadcast(empty(frame)), F.col("offset") == F.col("none")).select("offset")
            .union(frame.select("offset")).count()
        ),
        180,
    ),
    "a sort of both": (
        lambda frame: [
            row.offset for row in filtered(frame).union(frame).select("offset").orderBy(F.desc("offset")).collect()
        ],
        [offset for offset in reversed(range(60)) for _ in range(4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(("query", "expected"), ONE_QUERY.values(), ids=ONE_QUERY.keys())
def test_a_query_that_reads_a_load_more_than_once_has_all_rows(
    topics: SparkTopics, spark: SparkSession, query: Query, expected: object, adaptive: str
) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        assert query(topics.load("thirds", pushDown=True)) == expected
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_queries_of_one_load_have_all_their_rows_in_any_order(topics: SparkTopics) -> None:
    frame = topics.load("thirds", pushDown=True)
    before = frame.select("offset")
    assert filtered(frame).count() == 60
    assert frame.count() == 180
    assert len(before.collect()) == len(before.collect()) == 180
    assert len(filtered(frame).collect()) == 60
    assert frame.where("partition = 2").count() == 60
    assert frame.rdd.count() == 180


@pytest.mark.parametrize("times", [1, 2])
def test_a_query_after_one_that_was_only_explained_has_all_rows(
    topics: SparkTopics, spark: SparkSession, times: int
) -> None:
    frame = topics.load("thirds", pushDown=True)
    before = frame.select("offset")
    for _ in range(times):
        filtered(frame).explain()
    assert (frame.count(), len(before.collect()), len(frame.take(100))) == (180, 180, 100)
    frame = topics.load("thirds", pushDown=True)
    sql(frame, "EXPLAIN SELECT count(*) FROM v WHERE partition = 1")
    assert spark.sql("SELECT count(*) FROM v").collect()[0][0] == 180


def test_cached_rows_are_those_of_their_filter(topics: SparkTopics) -> None:
    frame = topics.load("thirds", pushDown=True)
    cached = filtered(frame).cache()
    try:
        assert (cached.count(), cached.where("offset < 5").count(), frame.count()) == (60, 5, 180)
    finally:
        cached.unpersist()


def test_one_query_may_be_counted_collected_sorted_and_kept(topics: SparkTopics) -> None:
    frame = filtered(topics.load("thirds", pushDown=True))
    frame.explain()
    assert frame.count() == 60
    assert len(frame.collect()) == len(frame.collect()) == 60
    assert len(frame.take(3)) == 3
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(60))
    assert frame.groupBy("topic").count().collect()[0]["count"] == 60
    kept = topics.load("thirds", pushDown=True, maxRecordsPerPartition=10).where("partition = 1").localCheckpoint()
    assert (len(kept.take(1)), kept.count(), kept.where("offset < 5").count()) == (1, 60, 5)


def test_a_task_that_is_tried_again_reads_the_same(topics: SparkTopics, tmp_path: Path) -> None:
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not failed.exists():
                failed.touch()
                raise RuntimeError("once")
            yield batch

    frame = topics.load("thirds", pushDown=True)
    both = filtered(frame).select("offset").union(frame.select("offset"))
    assert both.mapInArrow(fail_once, "offset long").count() == 240
    assert failed.exists()


def test_a_stream_pushes_nothing(topics: SparkTopics) -> None:
    reader = topics.spark.readStream.format("lograft").option("lograft.bootstrap.servers", topics.bootstrap)
    with pytest.raises(PySparkException, match="pushDown"):
        reader.option("subscribe", "thirds").option("pushDown", "true").load().writeStream.format(
            "noop"
        ).start().processAllAvailable()


def test_a_spark_that_cannot_push_down_safely_has_it_said(topics: SparkTopics) -> None:
    source = LograftSource({"lograft.bootstrap.servers": topics.bootstrap, "subscribe": "thirds", "pushDown": "true"})
    with pytest.warns(UserWarning, match=r"pushDown has no effect before Spark 5.*give the load\(\) assign"):
        source.reader(source.schema())
