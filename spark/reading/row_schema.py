"""The columns of a row: those of Spark's Kafka source, or the subset that the user asks for."""

from typing import Any

import pyarrow as pa
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
from lograft.spark.reading.arrow_rows import HEADERS_TYPE, TIMESTAMP_TYPE

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

# Each column's type in Spark and in Arrow.
COLUMNS: dict[str, tuple[DataType, Any]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), TIMESTAMP_TYPE),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (HEADERS, HEADERS_TYPE),
}

# Spark trusts a schema without nulls, and fails on a null.
_MAY_BE_NULL = ("key", "value", "headers")


def full_schema(*, include_headers: bool) -> StructType:
    names = [name for name in COLUMNS if include_headers or name != "headers"]
    return StructType([StructField(name, COLUMNS[name][0]) for name in names])


def check_schema(schema: StructType) -> None:
    """Raise `InvalidArgument` for a user's schema that rows do not have."""
    if not schema.fields:
        raise InvalidArgument(f"the schema has no columns: give some of {', '.join(COLUMNS)}")
    for place, field in enumerate(schema.fields):
        if field.name in schema.names[:place]:
            raise InvalidArgument(f"the schema has column {field.name!r} twice: give it once")
        known = COLUMNS.get(field.name)
        if known is None:
            raise InvalidArgument(f"there is no column {field.name!r}: those there are, are {', '.join(COLUMNS)}")
        if field.dataType != known[0]:
            raise InvalidArgument(
                f"column {field.name!r} is of type {known[0].simpleString()}, not {field.dataType.simpleString()}: "
                "cast it after loading"
            )
        if field.name in _MAY_BE_NULL and not field.nullable:
            raise InvalidArgument(f"column {field.name!r} may be null: leave NOT NULL out")


def arrow_schema(schema: StructType) -> Any:
    """Return the exact Arrow schema that Spark requires of record batches of `schema`."""
    return pa.schema([pa.field(field.name, COLUMNS[field.name][1], nullable=field.nullable) for field in schema.fields])
