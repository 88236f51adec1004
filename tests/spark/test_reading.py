"""Spark reads what a plain consumer does: all of it, or the part that is asked for."""

import json

import pytest
from pyspark.sql import SparkSession
from support.spark_topics import Row, SparkTopics, TopicsThatAge, partition_sizes

from lograft.testing import TestingCluster

COUNT = 200  # records of each partition of `numbered`, a second apart


@pytest.fixture(scope="module", autouse=True)
def numbered(topics: SparkTopics) -> list[Row]:
    topics.create("numbered", partitions=2)
    for partition in range(2):
        for start in range(0, COUNT, 50):
            topics.numbers("numbered", start, start + 50, partition=partition)
    return topics.records("numbered")


def by_partition(*values: int) -> str:
    return json.dumps({"numbered": {str(number): value for number, value in enumerate(values)}})


def test_all_of_a_topic_is_read(topics: SparkTopics, numbered: list[Row]) -> None:
    assert len(numbered) == 2 * COUNT
    frame = topics.load("numbered")
    assert topics.rows(frame) == numbered
    assert frame.count() == len(numbered)
    assert frame.rdd.getNumPartitions() == 2


def test_kafkas_name_for_the_addresses_will_do(topics: SparkTopics, spark: SparkSession) -> None:
    reader = spark.read.format("lograft").options(
        **{"kafka.bootstrap.servers": topics.bootstrap, "subscribe": "numbered"}
    )
    assert reader.load().count() == 2 * COUNT


# -- which offsets


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({"startingOffsets": by_partition(150, 0)}, [(150, 200), (0, 200)]),
        ({"endingOffsets": by_partition(7, 0)}, [(0, 7), (0, 0)]),
        ({"startingOffsets": by_partition(13, 57), "endingOffsets": by_partition(13, 151)}, [(0, 0), (57, 151)]),
        ({"startingOffsets": by_partition(-2, 190), "endingOffsets": by_partition(3, -1)}, [(0, 3), (190, 200)]),
        ({"startingOffsets": by_partition(200, 199)}, [(0, 0), (199, 200)]),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, [(0, 200), (0, 200)]),
        ({"startingTimestamp": "150000", "endingTimestamp": "160000"}, [(150, 160), (150, 160)]),
        ({"startingTimestamp": "149001", "endingTimestamp": "999000"}, [(150, 200), (150, 200)]),
        (
            {
                "startingOffsetsByTimestamp": by_partition(10_000, 20_000),
                "endingOffsetsByTimestamp": by_partition(11_000, 999_000),
            },
            [(10, 11), (20, 200)],
        ),
        ({"startingTimestamp": "999000", "startingOffsetsByTimestampStrategy": "latest"}, [(0, 0), (0, 0)]),
        (
            {
                "startingOffsetsByTimestamp": by_partition(999_000, 198_000),
                "startingOffsetsByTimestampStrategy": "latest",
            },
            [(0, 0), (198, 200)],
        ),
    ],
)
def test_the_offsets_that_are_asked_for_are_read(
    topics: SparkTopics, numbered: list[Row], options: dict[str, str], bounds: list[tuple[int, int]]
) -> None:
    expected = [row for row in numbered if bounds[row.partition][0] <= row.offset < bounds[row.partition][1]]
    assert topics.rows(topics.load("numbered", **options)) == expected


def test_the_end_is_pinned_when_the_read_is_planned(topics: SparkTopics) -> None:
    topics.create("growing")
    topics.numbers("growing", 0, 10)
    frame = topics.load("growing")
    topics.numbers("growing", 10, 20)
    assert frame.count() == 20, "it is planned by the first action"
    topics.numbers("growing", 20, 30)
    assert frame.count() == 20, "and not again"
    assert [row.offset for row in topics.rows(frame)] == list(range(20))
    assert topics.load("growing").count() == 30


def test_nothing_is_read_of_an_empty_topic(topics: SparkTopics) -> None:
    topics.create("empty", partitions=2)
    frame = topics.load("empty", includeHeaders=True)
    assert frame.collect() == []
    assert frame.count() == 0
    assert len(frame.columns) == 8


# -- which topics


def test_topics_are_named_match_or_are_assigned(topics: SparkTopics, numbered: list[Row]) -> None:
    for number, name in enumerate(["eu-orders", "us-orders", "orders"]):
        topics.create(name)
        topics.numbers(name, 0, number + 1)

    def names(**options: object) -> list[tuple[str, int]]:
        rows = topics.rows(topics.load(**options))  # type: ignore[arg-type]
        return sorted((name, sum(row.topic == name for row in rows)) for name in {row.topic for row in rows})

    assert names(subscribe="us-orders, eu-orders") == [("eu-orders", 1), ("us-orders", 2)]
    assert names(subscribePattern=".*-orders") == [("eu-orders", 1), ("us-orders", 2)]
    assert names(subscribePattern="no-.*") == []
    assert names(assign='{"numbered": [1], "orders": [0]}') == [("numbered", COUNT), ("orders", 3)]
    rows = topics.rows(topics.load(assign='{"numbered": [1]}'))
    assert rows == [row for row in numbered if row.partition == 1]


def test_a_pattern_does_not_match_what_is_internal(topics: SparkTopics) -> None:
    from lograft import Consumer

    with Consumer(topics.bootstrap, group="makes-the-internal-topic", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["numbered"])
        consumer.poll(10)
    assert topics.admin.list_topics(include_internal=True) != topics.admin.list_topics()
    found = topics.load(subscribePattern="__.*").select("topic").distinct().collect()
    assert found == []


# -- columns


def test_keys_values_and_headers_may_be_null(topics: SparkTopics) -> None:
    topics.create("nulls")
    topics.store("nulls", [(None, b"value", 1), (b"key", None, 2), (b"", b"", 3)])
    topics.store("nulls", [(b"key", b"v", 4)], headers=[("a", b"1"), ("a", None), ("ü", b"")])
    frame = topics.load("nulls", includeHeaders=True)
    assert topics.rows(frame) == topics.records("nulls")
    headers = [row.headers for row in frame.orderBy("offset").collect()]
    assert headers[:3] == [None] * 3
    assert [(each.key, each.value and bytes(each.value)) for each in headers[3]] == [
        ("a", b"1"),
        ("a", None),
        ("ü", b""),
    ]
    assert frame.where("key IS NULL").count() == 1
    assert frame.where("headers IS NULL").count() == 3


def test_headers_come_if_they_are_asked_for(topics: SparkTopics) -> None:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert topics.load("numbered").columns == names
    assert topics.load("numbered", includeHeaders="true").columns == [*names, "headers"]
    assert topics.load("numbered", includeHeaders=False).columns == names


def test_a_schema_with_fewer_columns_reads_fewer(topics: SparkTopics, numbered: list[Row]) -> None:
    frame = topics.reader("numbered").schema("offset LONG, value BINARY").load()
    assert frame.columns == ["offset", "value"]
    assert sorted((row.offset, bytes(row.value)) for row in frame.collect()) == sorted(
        (row.offset, row.value) for row in numbered
    )
    headers = topics.reader("numbered").schema("headers ARRAY<STRUCT<key: STRING, value: BINARY>>").load()
    assert headers.where("headers IS NULL").count() == 2 * COUNT


def test_a_schema_may_say_that_what_is_never_null_is_not(topics: SparkTopics) -> None:
    frame = topics.reader("numbered").schema("offset LONG NOT NULL, topic STRING NOT NULL").load()
    assert [field.nullable for field in frame.schema] == [False, False]
    assert frame.where("offset >= 0 AND topic = 'numbered'").count() == 2 * COUNT


def test_the_kind_of_time_is_told(topics: SparkTopics) -> None:
    topics.create("appended", message_timestamp_type="LogAppendTime")
    topics.numbers("appended", 0, 3)
    frame = topics.load("appended")
    assert {row.timestampType for row in frame.collect()} == {1}
    assert topics.rows(frame) == topics.records("appended")
    assert min(row.timestamp for row in topics.rows(frame)) > 1_700_000_000_000
    assert {row.timestampType for row in topics.load("numbered").select("timestampType").distinct().collect()} == {0}


def test_compressed_batches_are_read(topics: SparkTopics) -> None:
    topics.create("compressed")
    for number, compression in enumerate(["gzip", "snappy", "lz4", "zstd", None]):
        topics.numbers("compressed", 100 * number, 100 * number + 100, compression=compression)
    assert topics.rows(topics.load("compressed")) == topics.records("compressed")


def test_what_compaction_left_is_read(topics: SparkTopics, aging: TopicsThatAge, cluster: TestingCluster) -> None:
    aging.wait_until_compacted(cluster)
    rows = topics.rows(topics.load("compacted", minPartitions=7))
    assert len(rows) < aging.RECORDS
    assert rows == topics.records("compacted")


# -- how it is split


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"minPartitions": 8}, [50] * 8),
        ({"maxRecordsPerPartition": 60}, [50] * 8),
        ({"minPartitions": 100, "startingOffsets": by_partition(198, 199)}, [1, 1, 1]),
    ],
)
def test_ranges_are_split_as_the_options_say(topics: SparkTopics, options: dict[str, object], sizes: list[int]) -> None:
    assert partition_sizes(topics.load("numbered", **options)) == sizes


def test_ranges_are_split_by_bytes(topics: SparkTopics, numbered: list[Row]) -> None:
    topics.create("bytes")
    topics.store("bytes", ((None, bytes([n % 251]) * 10_000, n) for n in range(100)))
    frame = topics.load("bytes", maxBytesPerPartition=200_000)
    sizes = partition_sizes(frame)
    assert 5 <= len(sizes) <= 6
    assert topics.rows(frame) == topics.records("bytes")


def test_split_or_not_the_rows_are_the_same(topics: SparkTopics, numbered: list[Row]) -> None:
    assert topics.rows(topics.load("numbered", minPartitions=13)) == numbered
