"""Rows that Spark writes are records that a plain consumer reads: each, and in exactly-once writes each once."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.server_processes import until
from support.spark_topics import QUICK_JAVA, SparkTopics

from lograft import Consumer, TopicPartition, testing
from lograft.runtime.process.child_processes import wait_until
from lograft.runtime.process.supervised_process import SupervisedProcess


def save(topics: SparkTopics, frame: DataFrame, mode: str = "append", **options: object) -> None:
    writer = frame.write.format("lograft").option("lograft.bootstrap.servers", topics.bootstrap)
    for name, value in options.items():
        writer = writer.option(name, value)  # type: ignore[arg-type]
    writer.mode(mode).save()


def numbers(topics: SparkTopics, count: int, parts: int = 4) -> DataFrame:
    """Their text, and a key for each of seven."""
    rows = topics.spark.range(0, count, 1, parts)
    return rows.selectExpr("CAST(id AS STRING) AS value", "CAST(id % 7 AS STRING) AS key", "id")


def values(topics: SparkTopics, topic: str) -> Counter[bytes | None]:
    return Counter(row.value for row in topics.records(topic))


def expected(count: int) -> Counter[bytes | None]:
    return Counter(b"%d" % number for number in range(count))


def fails_once(marker: Path, at: str) -> Any:
    """A function of a value that fails when it first meets `at`, whichever process that is in."""

    def check(value: str) -> str:
        if value == at and not marker.exists():
            marker.touch()
            raise RuntimeError("as the test wants it")
        return value

    return F.udf(check, useArrow=False)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_rows_become_records(topics: SparkTopics, exactly_once: bool) -> None:
    topic = f"flour-{exactly_once}"
    topics.create(topic, partitions=3)
    frame = topics.spark.sql(
        "SELECT * FROM VALUES ('a', X'31', 2, array(named_struct('key', 'h', 'value', X'78'))), (NULL, X'32', 0, NULL),"
        " ('c', NULL, 1, array()) AS rows(key, value, partition, headers)"
    )
    save(topics, frame, topic=topic, exactlyOnce=exactly_once, **{"lograft.compression.type": "zstd"})
    with Consumer(topics.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        found: list[Any] = []
        until(lambda: len(found) >= 3 or found.extend(consumer.poll(0.2)), "all is read")  # type: ignore[arg-type, return-value]
    assert {(one.partition, one.key, one.value, tuple(one.headers)) for one in found} == {
        (2, b"a", b"1", (("h", b"x"),)),
        (0, None, b"2", ()),
        (1, b"c", None, ()),
    }


@pytest.mark.parametrize("exactly_once", [False, True])
def test_each_row_may_say_its_topic(topics: SparkTopics, exactly_once: bool) -> None:
    names = [f"grain-{exactly_once}-{number}" for number in range(2)]
    for name in names:
        topics.create(name, partitions=2)
    frame = numbers(topics, 100).withColumn("topic", F.expr(f"IF(id % 2 = 0, '{names[0]}', '{names[1]}')"))
    save(topics, frame, exactlyOnce=exactly_once)
    for number, name in enumerate(names):
        assert values(topics, name) == Counter(b"%d" % each for each in range(number, 100, 2))


@pytest.mark.parametrize("exactly_once", [False, True])
def test_tasks_without_rows_write_nothing(topics: SparkTopics, exactly_once: bool) -> None:
    topic = f"husks-{exactly_once}"
    topics.create(topic)
    save(topics, numbers(topics, 0), topic=topic, exactlyOnce=exactly_once)
    save(topics, numbers(topics, 1), topic=topic, exactlyOnce=exactly_once)
    assert values(topics, topic) == expected(1)


def test_what_is_read_can_be_written_again(topics: SparkTopics) -> None:
    topics.create("dough")
    topics.create("bread")
    topics.numbers("dough", 0, 50)
    save(topics, topics.load("dough"), topic="bread")
    assert values(topics, "bread") == expected(50)


def test_a_task_that_is_tried_again_writes_at_least_once(topics: SparkTopics, tmp_path: Path) -> None:
    topics.create("rolls", partitions=2)
    frame = numbers(topics, 5000).withColumn("value", fails_once(tmp_path / "failed", "4900")("value"))
    save(topics, frame, topic="rolls")
    assert (tmp_path / "failed").exists()
    assert set(values(topics, "rolls")) == set(expected(5000))


def test_a_task_that_is_tried_again_writes_exactly_once_if_asked_to(topics: SparkTopics, tmp_path: Path) -> None:
    topics.create("buns", partitions=2)
    frame = numbers(topics, 5000).withColumn("value", fails_once(tmp_path / "failed", "4900")("value"))
    save(topics, frame, topic="buns", exactlyOnce=True)
    assert (tmp_path / "failed").exists()
    assert values(topics, "buns") == expected(5000)


def test_a_job_that_fails_leaves_nothing_if_asked_to(topics: SparkTopics) -> None:
    topics.create("crumbs")
    frame = numbers(topics, 100).withColumn("value", F.expr("IF(id = 90, raise_error('no'), value)"))
    with pytest.raises(Exception, match="no"):
        save(topics, frame, topic="crumbs", exactlyOnce=True)
    assert values(topics, "crumbs") == Counter()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_broker_that_is_killed_costs_no_row(
    topics: SparkTopics, cluster: testing.TestingCluster, tmp_path: Path, exactly_once: bool
) -> None:
    topic = f"cakes-{exactly_once}"
    topics.create(topic, partitions=3, replicas=3)
    leader = topics.admin.describe_topic(topic).partitions[0].leader
    assert leader is not None
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"

    def wait(value: str) -> str:
        if value == "2500":
            reached.touch()
            assert wait_until(go_on.exists, timeout_seconds=60)
        return value

    frame = numbers(topics, 5000).withColumn("value", F.udf(wait, useArrow=False)("value"))

    def kill() -> None:
        until(reached.exists, "rows are being written")
        cluster.kill(leader)
        go_on.touch()

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        save(topics, frame, topic=topic, exactlyOnce=exactly_once)
        killing.result()
    cluster.restart(leader)
    assert values(topics, topic) == expected(5000)


# -- streams


def write_stream(
    topics: SparkTopics, source: str, target: str, checkpoint: Path, check: Any = None, **options: object
) -> None:
    """All that `source` has now goes to `target`, in several batches."""
    reader = topics.spark.readStream.format("lograft").option("lograft.bootstrap.servers", topics.bootstrap)
    rows = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="400").load()
    frame = rows.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
    if check is not None:
        frame = frame.withColumn("value", check("value"))
    writer = frame.writeStream.format("lograft").option("lograft.bootstrap.servers", topics.bootstrap)
    for name, value in options.items():
        writer = writer.option(name, value)  # type: ignore[arg-type]
    writer = writer.option("topic", target).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_stream_is_written_once_though_tasks_fail_and_batches_are_run_again(
    topics: SparkTopics, tmp_path: Path
) -> None:
    topics.create("mill", partitions=2)
    topics.create("sacks", partitions=3)
    for partition in range(2):
        topics.numbers("mill", 500 * partition, 500 * (partition + 1), partition=partition)
    checkpoint = tmp_path / "checkpoint"
    write_stream(topics, "mill", "sacks", checkpoint, fails_once(tmp_path / "failed", "450"))
    assert (tmp_path / "failed").exists()
    assert values(topics, "sacks") == expected(1000)
    # As if the driver had died before Spark itself wrote down that the last batch was done.
    last = max(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    topics.numbers("mill", 1000, 1100)
    write_stream(topics, "mill", "sacks", checkpoint)
    assert values(topics, "sacks") == expected(1100)


def test_a_stream_can_be_written_at_least_once(topics: SparkTopics, tmp_path: Path) -> None:
    topics.create("barn")
    topics.create("cart")
    topics.numbers("barn", 0, 500)
    write_stream(topics, "barn", "cart", tmp_path / "checkpoint", exactlyOnce=False)
    assert values(topics, "cart") == expected(500)


DRIVER = """
import sys
from pyspark.sql import SparkSession
bootstrap, checkpoint = sys.argv[1:]
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
         .config("spark.log.level", "OFF").getOrCreate())
rows = (spark.readStream.format("lograft").option("lograft.bootstrap.servers", bootstrap)
        .options(subscribe="well", startingOffsets="earliest", maxOffsetsPerTrigger="100").load())
(rows.select("key", "value").writeStream.format("lograft").option("lograft.bootstrap.servers", bootstrap)
 .option("topic", "buckets").option("checkpointLocation", checkpoint)
 .trigger(availableNow=True).start().awaitTermination())
"""


def test_a_stream_is_written_once_though_its_driver_is_killed(topics: SparkTopics, tmp_path: Path) -> None:
    topics.create("well", partitions=2)
    topics.create("buckets", partitions=2)
    for partition in range(2):
        topics.numbers("well", 500 * partition, 500 * (partition + 1), partition=partition)
    buckets = [TopicPartition("buckets", partition) for partition in range(2)]

    def written() -> int:
        return sum(end or 0 for end in topics.admin.list_offsets(buckets, "latest").values())

    with driver(topics.bootstrap, tmp_path):
        until(lambda: written() >= 250, "it writes", 400)
    assert written() < 1000, "it is killed in the middle"
    with driver(topics.bootstrap, tmp_path) as process:
        assert process.exit_code(timeout_seconds=400) == 0, process.tail()
    assert values(topics, "buckets") == expected(1000)


@contextlib.contextmanager
def driver(bootstrap: str, directory: Path) -> Iterator[SupervisedProcess]:
    """Killed at the end, with all that it started."""
    command = [sys.executable, "-c", DRIVER, bootstrap, str(directory / "checkpoint")]
    environment = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA}
    with SupervisedProcess(command, directory / "output", directory=directory, variables=environment) as process:
        process.start()
        yield process


# -- refusals


@pytest.mark.parametrize(
    ("options", "mode", "told"),
    [
        ({}, "append", "Give option topic, or the rows a column 'topic'"),
        ({"topic": "yeast"}, "overwrite", "a log is added to, not overwritten"),
        ({"topic": "yeast", "linger": "5"}, "append", "there is no option 'linger' for writing"),
        ({"topic": "no-such-topic"}, "append", "there is no topic 'no-such-topic'"),
        ({"topic": "no-such-topic", "exactlyOnce": "true"}, "append", "there is no topic 'no-such-topic'"),
    ],
)
def test_what_cannot_be_is_refused(topics: SparkTopics, options: dict[str, str], mode: str, told: str) -> None:
    with pytest.raises(Exception, match=told):
        save(topics, numbers(topics, 10), mode=mode, **options)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_timestamp_column_is_the_time_of_the_record(topics: SparkTopics, exactly_once: bool) -> None:
    topic = f"dated-{exactly_once}"
    topics.create(topic)
    rows = topics.spark.range(1).selectExpr("'x' AS value", "timestamp_millis(1767225600123) AS timestamp")
    save(topics, rows, topic=topic, exactlyOnce=exactly_once)
    assert [record.timestamp for record in topics.records(topic)] == [1767225600123]
