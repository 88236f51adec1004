"""Queries that read one `load()` with `pushDown` several times are right or refused: a filter of one scan must not
silently take rows from another."""

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.spark_topics import SparkTopics

Query = Callable[[DataFrame], object]


@pytest.fixture(scope="module", autouse=True)
def thirds(topics: SparkTopics) -> None:
    """180 records, 60 of them in each of three partitions."""
    topics.create("thirds", partitions=3)
    for partition in range(3):
        topics.numbers("thirds", 0, 60, partition=partition)


REFUSED = "refused"


def outcome(query: Callable[[], object]) -> object:
    """Return what a query finds, or `REFUSED` with the reason and the remedy."""
    try:
        return query()
    except PySparkException as error:
        message = str(error)
        is_refusal = "a load() with pushDown is for one query" in message and "localCheckpoint()" in message
        return REFUSED if is_refusal else message


def filtered(frame: DataFrame) -> DataFrame:
    return frame.where("partition = 1")


def sql(frame: DataFrame, query: str) -> list[tuple[object, ...]]:
    frame.createOrReplaceTempView("v")
    return [tuple(row) for row in frame.sparkSession.sql(query).collect()]


SEVERAL_SCANS: dict[str, tuple[Query, object]] = {
    "a semi-join": (
        lambda frame: sql(frame, "SELECT count(*) FROM v WHERE offset IN (SELECT offset FROM v WHERE partition = 1)"),
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
    "a subquery in a filter of another partition": (
        lambda frame: sql(
            frame,
            "SELECT count(*) FROM v WHERE partition = 2 AND offset <= (SELECT max(offset) FROM v WHERE partition = 1)",
        ),
        [(60,)],
    ),
    "a union of two filters": (lambda frame: filtered(frame).union(frame.where("partition = 2")).count(), 120),
    "a union with the filtered frame": (lambda frame: filtered(frame).union(frame).count(), 240),
    "a union in one task": (lambda frame: filtered(frame).union(frame).coalesce(1).count(), 240),
}


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(("query", "expected"), SEVERAL_SCANS.values(), ids=SEVERAL_SCANS.keys())
def test_several_scans_of_a_load_are_right_or_refused(
    topics: SparkTopics, spark: SparkSession, query: Query, expected: object, adaptive: str
) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        assert query(topics.load("thirds")) == expected
        assert outcome(lambda: query(topics.load("thirds", pushDown=True))) in (expected, REFUSED)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_a_sort_of_several_ranges_is_right_or_refused(topics: SparkTopics) -> None:
    """Spark reads a frame twice to sort it."""
    frame = topics.load("thirds", pushDown=True).where("offset < 10")
    found = outcome(lambda: [row.offset for row in frame.orderBy("offset").collect()])
    assert found in (sorted([*range(10)] * 3), REFUSED)
    kept = topics.load("thirds", pushDown=True).where("offset < 10").localCheckpoint()
    assert [row.offset for row in kept.orderBy("offset").collect()] == sorted([*range(10)] * 3)


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: filtered(frame).count(),
        lambda frame: len(filtered(frame).collect()),
        lambda frame: sum(row["count"] for row in filtered(frame).groupBy("offset").count().collect()),
        lambda frame: len(list(filtered(frame).toLocalIterator())),
        lambda frame: filtered(frame).join(frame.sparkSession.range(60), F.col("offset") == F.col("id")).count(),
    ],
    ids=["count", "collect", "group", "iterate", "join with another frame"],
)
def test_a_query_with_one_scan_is_not_refused(topics: SparkTopics, query: Query) -> None:
    assert query(topics.load("thirds", pushDown=True)) == 60
