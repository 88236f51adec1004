"""Rows with the columns that a topic's have, made up on the spot: what Spark's Python data sources can do at best."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lograft.spark.reading.row_schema import arrow_schema, full_schema

BATCH_ROWS = 8192


def made_up_values(value_bytes: int, count: int) -> Any:
    """An Arrow array of random bytes."""
    data = np.random.default_rng(7).integers(0, 256, value_bytes * count, np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * value_bytes
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


class MadeUpSource(DataSource):
    """`spark.read.format("made_up")`, with options count, bytes and partitions."""

    @classmethod
    def name(cls) -> str:
        return "made_up"

    def schema(self) -> StructType:
        return full_schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        count, value_bytes, partitions = (int(self.options[name]) for name in ("count", "bytes", "partitions"))
        return MadeUpReader(schema, count // partitions, value_bytes, partitions)


class MadeUpReader(DataSourceReader):
    def __init__(self, schema: StructType, count: int, value_bytes: int, partitions: int) -> None:
        self._schema = schema
        self._count = count
        self._value_bytes = value_bytes
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = self._batch(partition.value)
        for start in range(0, self._count, BATCH_ROWS):
            yield batch.slice(0, min(BATCH_ROWS, self._count - start))

    def _batch(self, number: int) -> Any:
        times = np.full(BATCH_ROWS, 1_767_225_600_000_000, np.int64)
        columns = {
            "key": pa.nulls(BATCH_ROWS, pa.binary()),
            "value": made_up_values(self._value_bytes, BATCH_ROWS),
            "topic": pa.repeat(pa.scalar("rows"), BATCH_ROWS),
            "partition": pa.repeat(pa.scalar(number, pa.int32()), BATCH_ROWS),
            "offset": pa.array(np.arange(BATCH_ROWS, dtype=np.int64)),
            "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.repeat(pa.scalar(0, pa.int32()), BATCH_ROWS),
        }
        schema = arrow_schema(self._schema)
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
