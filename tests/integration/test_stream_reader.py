"""A streaming query's reader, asked as Spark asks it, of topics that go away while it reads."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lograft import Admin, Producer, errors
from lograft.spark.common.options import stream_options
from lograft.spark.reading import stream_reader as stream_reading
from lograft.spark.reading.row_schema import full_schema
from lograft.spark.reading.stream_reader import StreamReader
from lograft.testing import TestingCluster


def reader(bootstrap: str, **options: str) -> StreamReader:
    given = {"lograft.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    return StreamReader(full_schema(include_headers=False), *stream_options(given))


def first_offset(bootstrap: str, **options: str) -> dict[str, Any]:
    """Where a query with these options begins."""
    stream = reader(bootstrap, **options)
    try:
        return stream.initialOffset()
    finally:
        stream.stop()


def begin(bootstrap: str, topics: list[str]) -> dict[str, Any]:
    """The first offset of a query that reads them, of which the first one is then deleted."""
    with Admin(bootstrap) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=1)
        offset = first_offset(bootstrap, subscribe=",".join(topics))
        admin.delete_topic(topics[0])
        admin.wait_for_no_topic(topics[0])
    return offset


def test_a_topic_that_is_gone_is_an_error_that_says_what_to_do(lograft_cluster: TestingCluster) -> None:
    start = begin(lograft_cluster.bootstrap, ["gone-1", "kept-1"])
    stream = reader(lograft_cluster.bootstrap, subscribe="gone-1,kept-1")
    with pytest.raises(errors.UnknownTopic, match=r"gone-1.*failOnDataLoss"):
        stream.latestOffset(start, ReadAllAvailable())
    stream.stop()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("subscribe", "gone-{0},kept-{0}"),
        ("subscribePattern", "(gone|kept)-{0}"),
        ("assign", '{{"gone-{0}": [0], "kept-{0}": [0]}}'),
    ],
)
def test_a_query_that_may_lose_data_goes_on_without_a_topic_that_is_gone(
    option: str, text: str, lograft_cluster: TestingCluster
) -> None:
    start = begin(lograft_cluster.bootstrap, [f"gone-{option}", f"kept-{option}"])
    stream = reader(lograft_cluster.bootstrap, **{option: text.format(option)}, failOnDataLoss="false")
    stream.prepareForTriggerAvailableNow()
    reached = stream.latestOffset(start, ReadAllAvailable())
    assert list(reached["topics"]) == [f"kept-{option}"]
    # From now on the checkpoint knows nothing of it.
    assert stream.latestOffset(reached, ReadAllAvailable()) == reached
    assert stream.partitions(start, reached) == []
    stream.stop()


def test_a_topic_that_never_was_is_an_error(lograft_cluster: TestingCluster) -> None:
    with Admin(lograft_cluster.bootstrap) as admin:
        admin.create_topic("kept-2", partitions=1)
    start = first_offset(lograft_cluster.bootstrap, subscribe="kept-2")
    stream = reader(lograft_cluster.bootstrap, subscribe="kept-2,misspelt")
    with pytest.raises(errors.UnknownTopic, match="misspelt"):
        stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(errors.UnknownTopic, match="misspelt"):
        first_offset(lograft_cluster.bootstrap, subscribe="misspelt", failOnDataLoss="false")
    stream.stop()


def test_a_query_does_not_begin_where_nothing_is(lograft_cluster: TestingCluster) -> None:
    with Admin(lograft_cluster.bootstrap) as admin:
        admin.create_topic("kept-3", partitions=1)
    options = {"subscribe": "kept-3", "startingOffsets": '{"kept-3": {"0": 1000}}'}
    with pytest.raises(errors.OffsetOutOfRange, match=r"there is \[0, 0\)"):
        first_offset(lograft_cluster.bootstrap, **options)
    began = first_offset(lograft_cluster.bootstrap, **options, failOnDataLoss="false")
    assert began["topics"]["kept-3"]["offsets"] == {"0": 0}


def shortened(bootstrap: str, topic: str) -> dict[str, Any]:
    """Where a query is that has read five records of a partition, of which there are three."""
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(topic, partitions=2)
        for partition in range(2):
            producer.send_many(topic, [b"a", b"b", b"c"], partition=partition)
    stream = reader(bootstrap, subscribe=topic)
    start = stream.initialOffset()
    stream.stop()
    start["topics"][topic]["offsets"]["0"] = 5
    return start


def test_an_end_before_where_the_query_is_may_be_told_by_a_leader_that_was_replaced(
    lograft_cluster: TestingCluster,
) -> None:
    start = shortened(lograft_cluster.bootstrap, "short-1")
    stream = reader(lograft_cluster.bootstrap, subscribe="short-1", failOnDataLoss="false")
    reached = stream.latestOffset(start, ReadAllAvailable())
    assert reached["topics"]["short-1"]["offsets"] == {"0": 5, "1": 3}  # neither back, nor an error yet
    with Producer(lograft_cluster.bootstrap) as producer:
        producer.send_many("short-1", [b"d"] * 4, partition=0)
    reached = stream.latestOffset(reached, ReadAllAvailable())
    assert reached["topics"]["short-1"]["offsets"] == {"0": 7, "1": 3}
    stream.stop()


def test_an_end_that_stays_before_where_the_query_is_is_a_loss(
    lograft_cluster: TestingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = shortened(lograft_cluster.bootstrap, "short-2")
    monkeypatch.setattr(stream_reading, "DOUBT_SECONDS", 0.0)
    stream = reader(lograft_cluster.bootstrap, subscribe="short-2")
    with pytest.raises(errors.LogTruncated, match=r"short-2-0 ends at 3, before 5.*failOnDataLoss"):
        stream.latestOffset(start, ReadAllAvailable())
    stream.stop()
    stream = reader(lograft_cluster.bootstrap, subscribe="short-2", failOnDataLoss="false")
    reached = stream.latestOffset(start, ReadAllAvailable())
    assert reached["topics"]["short-2"]["offsets"] == {"0": 3, "1": 3}
    stream.stop()
