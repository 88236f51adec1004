"""What `poll_arrow` gives: records as columns of an Arrow table. Imported by those who need it: Arrow takes long to."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lograft.clients.topic_partition import TopicPartition
from lograft.storage.arrow import HEADERS_TYPE, TIMESTAMP_TYPE

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

_SMALLEST = 4096
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


def table_of(parts: Iterable[tuple[TopicPartition, Any]]) -> Any:
    """One table from RecordBatches of `storage.arrow`, whose memory it keeps."""
    return pa.Table.from_batches([_with_names(name, batch) for name, batch in parts], ARROW_SCHEMA)


def _with_names(name: TopicPartition, batch: Any) -> Any:
    count = batch.num_rows
    topics, partitions = _repeated(name, max(_SMALLEST, 1 << (count - 1).bit_length()))
    arrays = [topics.slice(0, count), partitions.slice(0, count), *map(batch.column, _COLUMNS)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


@lru_cache(maxsize=64)
def _repeated(name: TopicPartition, count: int) -> tuple[Any, Any]:
    """The same for all batches of a partition, so it is made once, and each has its share of it."""
    return pa.repeat(pa.scalar(name.topic, pa.string()), count), pa.repeat(pa.scalar(name.partition, pa.int32()), count)
