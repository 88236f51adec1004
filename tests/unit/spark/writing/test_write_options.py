"""What a Spark user may say of a write, and which rows can be written."""

import re
import time

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lograft.clients.errors import InvalidArgument
from lograft.spark.common.options import ClusterOptions
from lograft.spark.source import LograftSource
from lograft.spark.writing.row_tables import check_write_schema, tables_by_topic
from lograft.spark.writing.write_options import WriteOptions, write_options

LEAST = {"lograft.bootstrap.servers": "localhost:9092"}
STRING, BINARY, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def headers_of(value: DataType) -> DataType:
    return ArrayType(StructType([StructField("key", STRING), StructField("value", value)]))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, of_type) for name, of_type in columns.items()])


def test_batches_are_written_by_tasks_and_streams_exactly_once() -> None:
    assert write_options(LEAST, is_streaming=False) == WriteOptions(
        ClusterOptions("localhost:9092"), None, None, "all", is_exactly_once=False
    )
    assert write_options(LEAST, is_streaming=True).is_exactly_once


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("flag", [False, True])
def test_both_can_be_had_for_both(is_streaming: bool, flag: bool) -> None:
    given = {**LEAST, "exactlyonce": str(flag)}
    assert write_options(given, is_streaming=is_streaming).is_exactly_once is flag


def test_kafkas_names_are_taken_and_so_are_sparks_own() -> None:
    given = {
        "kafka.bootstrap.servers": "a:1", "kafka.compression.type": "zstd", "kafka.acks": "1", "topic": "orders",
        "checkpointlocation": "/tmp/x", "queryname": "q", "path": "p", "timeoutms": "5000", "exactlyonce": "false",
    }  # fmt: skip
    options = write_options(given, is_streaming=True)
    assert options == WriteOptions(ClusterOptions("a:1", None, 5000), "orders", "zstd", "1", is_exactly_once=False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "Give option lograft.bootstrap.servers"),
        ({**LEAST, "subscribe": "orders"}, "there is no option 'subscribe' for writing"),
        ({**LEAST, "topic": " "}, "option topic is empty"),
        ({**LEAST, "topic": "lograft-spark-staged"}, "give another one"),
        ({**LEAST, "lograft.acks": "2"}, "give 'all', 1 or 0"),
        ({**LEAST, "lograft.compression.type": "brotli"}, "brotli"),
        ({**LEAST, "exactlyonce": "yes"}, "give true or false"),
        ({**LEAST, "timeoutms": "3600001"}, "give at most 3600000, one hour"),
        ({**LEAST, "exactlyonce": "true", "lograft.acks": "1"}, "give all, or exactlyOnce=false"),
        ({**LEAST, "kafka.bootstrap.servers": "b:1"}, "say different things"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(told)):
        write_options(given, is_streaming=False)


@pytest.mark.parametrize(
    ("rows", "topic"),
    [
        (schema(value=BINARY), "orders"),
        (schema(value=STRING, key=STRING), "orders"),
        (schema(value=STRING, topic=STRING, partition=INT), None),
        (schema(value=STRING, timestamp=TimestampType()), "orders"),
        (schema(key=BINARY, value=BINARY, headers=headers_of(BINARY), offset=LONG), "orders"),
    ],
)
def test_rows_that_can_be_written(rows: StructType, topic: str | None) -> None:
    check_write_schema(rows, topic)


@pytest.mark.parametrize(
    ("rows", "topic", "told"),
    [
        (schema(id=LONG), "orders", "the rows have no column 'value': they have id"),
        (schema(value=LONG), "orders", "column 'value' is of type bigint: cast it to string or binary"),
        (schema(value=STRING, key=INT), "orders", "column 'key' is of type int"),
        (schema(value=STRING), None, "Give option topic, or the rows a column 'topic'"),
        (schema(value=STRING, topic=BINARY), None, "column 'topic' is of type binary: cast it to string"),
        (schema(value=STRING, partition=STRING), "orders", "column 'partition' is of type string: cast it to int"),
        (schema(value=STRING, timestamp=LONG), "orders", "column 'timestamp' is of type bigint: cast it to timestamp"),
        (schema(value=STRING, headers=ArrayType(STRING)), "orders", "column 'headers' is of type array<string>"),
        (schema(value=STRING, headers=headers_of(STRING)), "orders", "column 'headers'"),
    ],
)
def test_rows_that_cannot_be_written(rows: StructType, topic: str | None, told: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(told)):
        check_write_schema(rows, topic)


def test_a_log_is_not_overwritten() -> None:
    source = LograftSource({**LEAST, "topic": "orders"})
    for make in (source.writer, source.streamWriter):
        with pytest.raises(InvalidArgument, match=r"use \(output\) mode append"):
            make(schema(value=STRING), True)


def test_each_topic_gets_its_rows_in_order() -> None:
    batch = pa.record_batch({"value": [b"1", b"2", b"3"], "topic": ["b", "a", "b"], "offset": [7, 8, 9]})
    found = {topic: table.to_pydict() for topic, table in tables_by_topic(batch, None)}
    assert found == {"b": {"value": [b"1", b"3"]}, "a": {"value": [b"2"]}}


def test_timestamps_are_written_to_the_millisecond_and_a_null_is_now() -> None:
    times = pa.array([1_767_225_600_123_999, None], pa.timestamp("us", tz="Europe/Zurich"))
    before_ms = time.time_ns() // 1_000_000
    ((_, table),) = tables_by_topic(pa.record_batch({"value": [b"1", b"2"], "timestamp": times}), "orders")
    given, filled = table.column("timestamp").to_pylist()
    assert given == 1_767_225_600_123
    assert before_ms <= filled <= time.time_ns() // 1_000_000


def test_the_topic_of_the_option_counts_more_than_the_rows() -> None:
    batch = pa.record_batch({"value": [b"1", b"2"], "topic": ["b", None]})
    assert [(topic, table.num_rows) for topic, table in tables_by_topic(batch, "orders")] == [("orders", 2)]
    with pytest.raises(InvalidArgument, match="a row's topic is null"):
        list(tables_by_topic(batch, None))


@pytest.mark.parametrize("topic", ["lograft-spark-staged", "lograft-spark-ledger"])
def test_no_row_goes_to_a_topic_that_is_for_what_is_being_written(topic: str) -> None:
    batch = pa.record_batch({"value": [b"1", b"2"], "topic": ["orders", topic]})
    with pytest.raises(InvalidArgument, match="give another one"):
        list(tables_by_topic(batch, None))


def test_no_rows_are_no_tables() -> None:
    batch = pa.record_batch({"value": pa.array([], pa.binary())})
    assert list(tables_by_topic(batch, "orders")) == []
