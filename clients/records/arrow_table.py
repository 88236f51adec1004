"""The Arrow tables that `poll_arrow` returns. Imported lazily, because importing Arrow is slow."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lograft.clients.types import TopicPartition
from lograft.storage.batch.arrow_payload import HEADERS_TYPE, SCHEMA, TIMESTAMP_TYPE

ARROW_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP_TYPE, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE, nullable=False),
    ]
)

_FIELDS = list(ARROW_SCHEMA)
_SMALLEST = 4096
_COLUMNS = [SCHEMA.get_field_index(name) for name in ARROW_SCHEMA.names[2:]]


def table_of(parts: Iterable[tuple[TopicPartition, Any]]) -> Any:
    """Return one table made of RecordBatches in the storage layout, sharing their memory."""
    rows = []
    for name, batch in parts:
        columns = batch.columns
        rows.append((*_names(name, batch.num_rows), *(columns[index] for index in _COLUMNS)))
    if not rows:
        return ARROW_SCHEMA.empty_table()
    # Build chunked columns directly: converting each batch to the table's schema first costs several times as much.
    return pa.Table.from_arrays(
        [pa.chunked_array(chunks, field.type) for field, chunks in zip(_FIELDS, zip(*rows, strict=True), strict=True)],
        schema=ARROW_SCHEMA,
    )


@lru_cache(maxsize=256)
def _names(name: TopicPartition, count: int) -> tuple[Any, Any]:
    """Return the topic and partition columns, cached because batches of a partition often have the same size."""
    topics, partitions = _repeated(name, max(_SMALLEST, 1 << (count - 1).bit_length()))
    return topics.slice(0, count), partitions.slice(0, count)


@lru_cache(maxsize=64)
def _repeated(name: TopicPartition, count: int) -> tuple[Any, Any]:
    """Return columns long enough for all batches of a partition, which share slices of them."""
    return pa.repeat(pa.scalar(name.topic, pa.string()), count), pa.repeat(pa.scalar(name.partition, pa.int32()), count)
