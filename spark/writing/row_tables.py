"""Converts Spark's rows to tables for a producer, by topic and in row order."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from lograft.clients.errors import InvalidArgument
from lograft.runtime.clock import LoopClock
from lograft.spark.writing.write_options import check_target

_BYTES = (StringType, BinaryType)
_COLUMNS = ("value", "key", "timestamp", "headers", "partition")


def check_write_schema(schema: StructType, topic: str | None) -> None:
    """Raise `InvalidArgument` for rows that cannot be written. Ignore unknown columns, as Spark's Kafka sink does."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise InvalidArgument(f"the rows have no column 'value': they have {', '.join(types) or 'none at all'}")
    if topic is None and "topic" not in types:
        raise InvalidArgument("which topic? Give option topic, or the rows a column 'topic'")
    for name in ("value", "key"):
        _check(types, name, _BYTES, "string or binary")
    _check(types, "topic", (StringType,), "string")
    _check(types, "partition", (IntegerType,), "int")
    _check(types, "timestamp", (TimestampType,), "timestamp")
    if "headers" in types and not _are_headers(types["headers"]):
        raise InvalidArgument(
            f"column 'headers' is of type {types['headers'].simpleString()}: make it "
            "array<struct<key:string,value:binary>>"
        )


def _check(types: dict[str, DataType], name: str, accepted: tuple[type[DataType], ...], what: str) -> None:
    if name in types and not isinstance(types[name], accepted):
        raise InvalidArgument(f"column {name!r} is of type {types[name].simpleString()}: cast it to {what}")


def _are_headers(of_type: DataType) -> bool:
    if not isinstance(of_type, ArrayType) or not isinstance(of_type.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in of_type.elementType.fields}
    return fields == {"key": StringType(), "value": BinaryType()}


def tables_by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """Yield each topic with its rows. Raise `InvalidArgument` for a row without a topic."""
    if not batch.num_rows:
        return
    names = [name for name in _COLUMNS if name in batch.schema.names]
    table = _in_milliseconds(pa.Table.from_batches([batch.select(names)]))
    if topic is not None:
        yield topic, table
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise InvalidArgument("a row's topic is null: give each row one, or option topic for all")
    for each in pc.unique(topics).to_pylist():
        check_target(each)
        yield each, table.filter(pc.equal(topics, each))


def _in_milliseconds(table: Any) -> Any:
    """Replace Spark's timestamps with milliseconds since 1970. A null means now, like a missing column."""
    if "timestamp" not in table.schema.names:
        return table
    at = table.schema.get_field_index("timestamp")
    column = table.column(at)
    milliseconds = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64())
    return table.set_column(at, "timestamp", milliseconds.fill_null(LoopClock().wall_ms()))
