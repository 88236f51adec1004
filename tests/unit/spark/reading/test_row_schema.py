"""A user may name fewer columns than there are, and no others."""

import re

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampNTZType

from lograft.clients.errors import InvalidArgument
from lograft.spark.reading.row_schema import COLUMNS, check_schema, full_schema


def schema(*names: str, nullable: bool = True) -> StructType:
    return StructType([StructField(name, COLUMNS[name][0], nullable) for name in names])


@pytest.mark.parametrize(
    "accepted",
    [
        full_schema(include_headers=True),
        full_schema(include_headers=False),
        *[schema(name) for name in COLUMNS],
        schema("timestampType", "key"),
        schema("topic", "partition", "offset", "timestamp", "timestampType", nullable=False),
    ],
)
def test_some_of_the_columns_in_any_order_will_do(accepted: StructType) -> None:
    check_schema(accepted)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (StructType([]), "the schema has no columns: give some of key, value"),
        (StructType([StructField("colour", StringType())]), "there is no column 'colour': those there are, are key, v"),
        (StructType([StructField("Offset", COLUMNS["offset"][0])]), "there is no column 'Offset'"),
        (
            StructType([StructField("offset", IntegerType())]),
            "column 'offset' is of type bigint, not int: cast it after loading",
        ),
        (StructType([StructField("value", StringType())]), "column 'value' is of type binary, not string"),
        (
            StructType([StructField("timestamp", TimestampNTZType())]),
            "column 'timestamp' is of type timestamp, not timestamp_ntz",
        ),
        (StructType([StructField("headers", StringType())]), "array<struct<key:string,value:binary>>, not string"),
        (schema("offset", "key", "offset"), "the schema has column 'offset' twice"),
        *[
            (schema(name, nullable=False), f"column '{name}' may be null: leave NOT NULL out")
            for name in ("key", "value", "headers")
        ],
    ],
)
def test_a_schema_that_no_row_has_is_refused(refused: StructType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        check_schema(refused)
