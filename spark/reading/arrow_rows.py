"""Converts log batches to Arrow record batches with the columns of Spark's Kafka source, without work per record."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lograft.clients.errors import CorruptBatch, InvalidArgument
from lograft.runtime.observability.logging import get_logger
from lograft.spark.common.range_reader import OffsetRange, RangePart
from lograft.storage.batch.arrow_payload import SCHEMA
from lograft.storage.batch.codec import BatchHeader, Compression, decode_arrow, iterate_batches
from lograft.storage.errors import InvalidBatch

log = get_logger(__name__)

TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))

# Spark has a cost per batch, so join small ones up to about this size.
GOOD_ROWS = 2048
GOOD_BYTES = 1024 * 1024
_SMALLEST_REPEAT = 4096


def row_batches(
    wanted: OffsetRange, parts: Iterable[RangePart], schema: Any, *, skips_bad: bool = False
) -> Iterator[Any]:
    """Yield record batches of `schema`, whose columns are a subset of those below, in log order. The CRCs of `parts`
    must be correct. `skips_bad`: skip batches that cannot be decoded; otherwise raise `CorruptBatch` for them."""
    makers = [_maker(wanted, field) for field in schema]
    needed = pa.schema([field for field in SCHEMA if field.name in schema.names or field.name == "offset"])
    skipped = SkippedBatches(wanted) if skips_bad else None
    try:
        yield from _of_good_size(_opened(wanted, parts, needed, skipped), makers, schema)
    finally:
        if skipped is not None:
            skipped.warn()


def _of_good_size(
    opened_batches: Iterable[tuple[BatchHeader, Any]], makers: "list[_Maker]", schema: Any
) -> Iterator[Any]:
    """Join small record batches, which are costly for Spark."""
    waiting: list[Any] = []
    rows = size_bytes = 0
    for header, opened in opened_batches:
        made = pa.RecordBatch.from_arrays([make(header, opened) for make in makers], schema=schema)
        waiting.append(made)
        rows += made.num_rows
        # Summing the columns' sizes is slow, and only needed where the batch was compressed.
        size_bytes += header.total_bytes if header.compression is Compression.NONE else made.nbytes
        if rows >= GOOD_ROWS or size_bytes >= GOOD_BYTES:
            yield _joined(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


@dataclass(slots=True)
class SkippedBatches:
    """Counts the batches of a range that are skipped because they cannot be decoded.

    Spark has no metrics for Python sources, and its workers do not show log events. Warnings reach the executor's
    standard error, so the total is reported as a warning."""

    wanted: OffsetRange
    batches: int = 0
    records: int = 0
    first_offset: int | None = None

    def add(self, header: BatchHeader, error: InvalidBatch) -> None:
        if self.first_offset is None:
            self.first_offset = header.base_offset
        self.batches += 1
        self.records += header.record_count
        log.warning(
            "bad_batch_skipped", topic=self.wanted.topic, partition=self.wanted.partition,
            first_offset=header.base_offset, last_offset=header.last_offset, reason=str(error),
        )  # fmt: skip

    def warn(self) -> None:
        if self.batches:
            warnings.warn(
                f"lograft: onBadBatch=skip left out {self.records} records of {self.wanted}: batches: {self.batches}, "
                f"the first at offset {self.first_offset}",
                stacklevel=2,
            )


def _opened(
    wanted: OffsetRange, parts: Iterable[RangePart], schema: Any, skipped: SkippedBatches | None
) -> Iterator[tuple[BatchHeader, Any]]:
    """Yield each batch's records that are in its part of the range. Skip control batches, which users do not see."""
    for part in parts:
        view = memoryview(part.batches)
        try:
            for at, header in iterate_batches(view):
                if header.is_control or header.next_offset <= part.start or header.base_offset >= part.next_offset:
                    continue
                try:
                    decoded = decode_arrow(view[at : at + header.total_bytes], schema=schema)
                except InvalidBatch as error:
                    if skipped is None:
                        raise
                    skipped.add(header, error)
                    continue
                records = _inside(part, header, decoded)
                if records.num_rows:
                    yield header, records
        except InvalidBatch as error:
            raise CorruptBatch(
                f"{wanted.name} cannot be read between {part.start} and {part.next_offset}: {error}; leave these "
                "offsets out with startingOffsets and endingOffsets, or set onBadBatch to skip"
            ) from error


def _inside(part: RangePart, header: BatchHeader, records: Any) -> Any:
    if header.base_offset >= part.start and header.next_offset <= part.next_offset:
        return records
    first, end = _numbers(records.column("offset")).searchsorted([part.start, part.next_offset])
    return records.slice(int(first), int(end - first))


def _joined(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)


# -- columns

_Maker = Callable[[BatchHeader, Any], Any]


def _maker(wanted: OffsetRange, field: Any) -> _Maker:
    """Return a function that makes one column of a batch."""
    match field.name:
        case "key" | "value" | "offset":
            return lambda _header, records: records.column(field.name)
        case "topic":
            return lambda _header, records: _repeated(wanted.topic, records.num_rows)
        case "partition":
            return lambda _header, records: _repeated(wanted.partition, records.num_rows)
        case "timestamp":
            return lambda _header, records: _microseconds(records.column("timestamp"))
        case "timestampType":
            return lambda header, records: _repeated(int(header.is_append_time), records.num_rows)
        case "headers":
            return lambda _header, records: _headers(records.column("headers"))
    raise InvalidArgument(f"there is no column {field.name!r}")


# The functions below use raw buffers: `pa.scalar`, `to_numpy` and the like make Arrow import pandas, which takes a
# third of the CPU time of a worker's start.


def _numbers(array: Any) -> NDArray[np.int64]:
    """Return a 64-bit array without nulls as NumPy integers, without a copy."""
    return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)


def _microseconds(milliseconds: Any) -> Any:
    """Convert timestamps to microseconds, in a quarter of the time of a cast."""
    numbers = _numbers(milliseconds) * 1000
    return pa.Array.from_buffers(TIMESTAMP_TYPE, len(numbers), [None, pa.py_buffer(numbers)])


def _repeated(value: str | int, count: int) -> Any:
    """Return a slice of one long cached array, since all batches of a range have the same value."""
    return _long(value, max(_SMALLEST_REPEAT, 1 << (count - 1).bit_length())).slice(0, count)


@lru_cache(maxsize=64)
def _long(value: str | int, count: int) -> Any:
    """Return an array that repeats a string or a 32-bit integer."""
    if isinstance(value, int):
        return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(np.full(count, value, np.int32))])
    text = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(text * count)])


def _headers(headers: Any) -> Any:
    """Return the headers, with null instead of an empty list, as in Spark's Kafka source."""
    are_none = pc.equal(pc.list_value_length(headers), 0)
    if pc.all(are_none).as_py():
        return pa.nulls(len(headers), HEADERS_TYPE)
    return pc.if_else(are_none, pa.scalar(None, HEADERS_TYPE), headers.cast(HEADERS_TYPE))
