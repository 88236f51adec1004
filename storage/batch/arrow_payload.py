"""The columns payload from and to Arrow arrays, with no work per record.

Arrow reads wherever offsets point, so decoding checks them, a whole column at a time, before it hands memory over.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lograft.storage.batch.column_payload import check_timestamp_range
from lograft.storage.batch.compression import BytesLike
from lograft.storage.batch.header import MAX_TIMESTAMP, MIN_TIMESTAMP, BatchHeader
from lograft.storage.batch.record import Columns
from lograft.storage.batch.section_table import (
    HEADER_VALUE_COLUMN,
    KEY_COLUMN,
    VALUE_COLUMN,
    BinaryColumn,
    Section,
    Spans,
    header_count,
    lay_out,
    parse_sections,
)
from lograft.storage.errors import BadRecord

HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("item", HEADER_TYPE, nullable=False))
TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP_TYPE, nullable=False),
        pa.field("headers", HEADERS_TYPE, nullable=False),
    ]
)

Bytes: TypeAlias = NDArray[np.uint8]

# Not `pa.array([], ...)`: that, like `pa.scalar` and `to_numpy`, makes Arrow import pandas, which takes longer than all
# our imports. That matters to Spark, which starts many short processes.
_NO_HEADERS = pa.nulls(0, HEADER_TYPE)
_INT32 = np.dtype("<i4")
_INT64 = np.dtype("<i8")


# -- encoding


def binary_array(items: Any) -> Any:
    """Return one array of plain `binary` from an array or chunked array of anything that casts to it."""
    return _one_chunk(items).cast(pa.binary())


def headers_array(items: Any) -> Any:
    """Return one array of header lists from lists of (key, value) structs; a null list has no headers."""
    array = _one_chunk(items)
    keys_and_values = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    array = array.cast(pa.list_(keys_and_values))
    pairs = array.flatten()
    if pairs.null_count or pc.struct_field(pairs, "key").null_count:
        raise ValueError("a header, or the key of a header, is null")
    return array


def timestamps_list(timestamps: Any) -> NDArray[np.int64]:
    """Milliseconds from an Arrow array of timestamps (any unit) or integers, or any sequence of integers."""
    if isinstance(timestamps, pa.Array | pa.ChunkedArray):
        array = _one_chunk(timestamps)
        if array.null_count:
            raise ValueError("a timestamp is null")
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
        timestamps = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.asarray(timestamps, np.int64)


def timestamp_deltas(
    timestamps: int | NDArray[np.int64], count: int, delete_horizon: int | None
) -> tuple[int, int, NDArray[np.int64] | None]:
    """Base timestamp, largest timestamp, and deltas from the base (None when all are zero)."""
    if isinstance(timestamps, int):
        if not MIN_TIMESTAMP <= timestamps <= MAX_TIMESTAMP:
            raise ValueError("a timestamp is out of range")
        base = timestamps if delete_horizon is None else delete_horizon
        return base, timestamps, None if base == timestamps else np.full(count, timestamps - base, np.int64)
    if count == 0:
        timestamps = np.full(1, -1, np.int64)
    if int(timestamps.min()) < MIN_TIMESTAMP or int(timestamps.max()) > MAX_TIMESTAMP:
        raise ValueError("a timestamp is out of range")
    base = int(timestamps[0]) if delete_horizon is None else delete_horizon
    deltas = timestamps - base
    return base, int(timestamps.max()), deltas if bool(deltas.any()) else None


def header_pairs(headers: Any) -> list[list[tuple[str, bytes | None]]]:
    """Header lists as Python pairs, for the rows layout."""
    return [[(pair["key"], pair["value"]) for pair in pairs or ()] for pairs in headers.to_pylist()]


def encode_arrays(
    values: Any, keys: Any, headers: Any, timestamp_deltas: NDArray[np.int64] | None, offset_deltas: Any
) -> list[Any]:
    """Return the parts of the payload from arrays prepared by the functions above; deltas of None are left out."""
    if len(values) == 0:
        return lay_out(())
    sections: list[tuple[Section, Bytes]] = []
    if timestamp_deltas is not None:
        sections.append((Section.TIMESTAMP_DELTAS, _raw(timestamp_deltas, "<i8")))
    if offset_deltas is not None:
        sections.append((Section.OFFSET_DELTAS, _raw(np.asarray(offset_deltas), "<i4")))
    if keys is not None and keys.null_count < len(keys):
        sections += _encode_binary(KEY_COLUMN, keys)
    sections += _encode_binary(VALUE_COLUMN, values)
    if headers is not None and len(headers.flatten()):
        sections += _encode_headers(headers)
    return lay_out(sections)


def _one_chunk(items: Any) -> Any:
    if not isinstance(items, pa.ChunkedArray):
        return items
    chunks = items.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], items.type)


def _raw(array: NDArray[Any], dtype: str) -> Bytes:
    return np.ascontiguousarray(array, np.dtype(dtype)).view(np.uint8)


def _encode_binary(column: BinaryColumn, array: Any) -> list[tuple[Section, Bytes]]:
    """Return the sections of a binary array, which may be a slice of a larger one."""
    count = len(array)
    validity, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, 4 * array.offset)
    first, last = int(offsets[0]), int(offsets[-1])
    sections = [(column.offsets, _raw(offsets - offsets[0] if first else offsets, "<i4"))]
    if array.null_count:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
        wanted = bits[array.offset : array.offset + count]
        sections.append((column.validity, np.packbits(wanted, bitorder="little")))
    data = np.frombuffer(data_buffer, np.uint8, last - first, first) if last > first else np.empty(0, np.uint8)
    return [*sections, (column.data, data)]


def _encode_headers(headers: Any) -> list[tuple[Section, Bytes]]:
    pairs = headers.flatten()  # what the slice and its non-null lists hold, and nothing else
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    values = pc.struct_field(pairs, "value")
    keys = pc.struct_field(pairs, "key").cast(pa.binary())
    (_, key_offsets), (_, key_bytes) = _encode_binary(KEY_COLUMN, keys)
    sections = [
        (Section.HEADER_OFFSETS, _raw(offsets, "<i4")),
        (Section.HEADER_KEY_OFFSETS, key_offsets),
        (Section.HEADER_KEY_BYTES, key_bytes),
    ]
    if values.null_count < len(values):
        sections += _encode_binary(HEADER_VALUE_COLUMN, values)
    return sections


# -- decoding


def decode_arrays(header: BatchHeader, payload: BytesLike, schema: Any = SCHEMA) -> Any:
    """Return a RecordBatch over the payload's own memory, which it keeps alive; copy only misaligned parts. `schema`:
    SCHEMA or a subset of its fields; other columns are not decoded."""
    spans = parse_sections(payload, header.record_count)
    count = header.record_count
    if count == 0:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    view = memoryview(payload)
    arrays = [_DECODERS[name](header, view, spans) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# The decoder of each column of a batch that is not empty.
_DECODERS: dict[str, Callable[[BatchHeader, memoryview, Spans], Any]] = {
    "key": lambda header, view, spans: _decode_binary(KEY_COLUMN, view, spans, header.record_count),
    "value": lambda header, view, spans: _decode_binary(VALUE_COLUMN, view, spans, header.record_count),
    "offset": lambda header, view, spans: _fixed_array(pa.int64(), _decode_offsets(header, view, spans)),
    "timestamp": lambda header, view, spans: _fixed_array(TIMESTAMP_TYPE, _decode_timestamps(header, view, spans)),
    "headers": lambda header, view, spans: _decode_headers(view, spans, header.record_count),
}


def from_columns(columns: Columns) -> Any:
    """Return a RecordBatch of SCHEMA from decoded lists, for the rows layout."""
    headers = [[{"key": key, "value": value} for key, value in pairs] for pairs in columns.headers]
    arrays = [
        pa.array(columns.keys, pa.binary()),
        pa.array(columns.values, pa.binary()),
        pa.array(columns.offsets, pa.int64()),
        pa.array(columns.timestamps, TIMESTAMP_TYPE),
        pa.array(headers, HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _numbers(view: memoryview, span: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a section as native, aligned integers: in place where memory permits."""
    start, length = span
    little = np.frombuffer(view, dtype, length // dtype.itemsize, start)
    if little.flags.aligned and dtype.isnative:
        return little
    return little.astype(dtype.newbyteorder("="))


def _fixed_array(of_type: Any, numbers: NDArray[Any]) -> Any:
    """Return an array over the memory of `numbers`, none of them null: what `pa.array` does, at a third of the cost."""
    return pa.Array.from_buffers(of_type, len(numbers), [None, pa.py_buffer(numbers)], 0)


def _checked_offsets(view: memoryview, spans: Spans, section: Section, end: int) -> NDArray[np.int32]:
    offsets = _numbers(view, spans[section], _INT32)
    if offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
        raise BadRecord(f"the offsets of section {section:d} do not rise from 0 to {end}")
    return offsets


def _decode_binary(column: BinaryColumn, view: memoryview, spans: Spans, count: int) -> Any:
    if column.offsets not in spans:
        return pa.nulls(count, pa.binary())
    start, length = spans[column.data]
    offsets = _checked_offsets(view, spans, column.offsets, length)
    validity = None
    if column.validity in spans:
        validity = _decode_validity(view, spans[column.validity], count)
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(view[start : start + length])]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _decode_validity(view: memoryview, span: tuple[int, int], count: int) -> Any:
    start, length = span
    if count % 8 and view[start + length - 1] >> count % 8:
        raise BadRecord("validity bits beyond the last record are set")
    return pa.py_buffer(view[start : start + length])


def _decode_offsets(header: BatchHeader, view: memoryview, spans: Spans) -> NDArray[np.int64]:
    if Section.OFFSET_DELTAS not in spans:
        return np.arange(header.base_offset, header.base_offset + header.record_count, dtype=np.int64)
    deltas = _numbers(view, spans[Section.OFFSET_DELTAS], _INT32)
    if (deltas[1:] <= deltas[:-1]).any():
        raise BadRecord("offset deltas do not rise")
    if deltas[0] < 0 or deltas[-1] > header.last_offset_delta:
        raise BadRecord(f"offset deltas {deltas[0]} to {deltas[-1]} are not within 0 to {header.last_offset_delta}")
    return deltas.astype(np.int64) + header.base_offset


def _decode_timestamps(header: BatchHeader, view: memoryview, spans: Spans) -> NDArray[np.int64]:
    if header.is_append_time:
        return np.full(header.record_count, header.max_timestamp, np.int64)
    if Section.TIMESTAMP_DELTAS not in spans:
        return np.full(header.record_count, header.base_timestamp, np.int64)
    deltas = _numbers(view, spans[Section.TIMESTAMP_DELTAS], _INT64)
    check_timestamp_range(header.base_timestamp, int(deltas.min()), int(deltas.max()))
    return np.asarray(deltas + header.base_timestamp)


def _decode_headers(view: memoryview, spans: Spans, count: int) -> Any:
    if Section.HEADER_OFFSETS not in spans:
        no_offsets = pa.py_buffer(np.zeros(count + 1, np.int32))
        return pa.Array.from_buffers(HEADERS_TYPE, count, [None, no_offsets], children=[_NO_HEADERS])
    pairs = header_count(spans)
    offsets = _checked_offsets(view, spans, Section.HEADER_OFFSETS, pairs)
    keys = _decode_header_keys(view, spans, pairs)
    values = _decode_binary(HEADER_VALUE_COLUMN, view, spans, pairs)
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    return pa.Array.from_buffers(HEADERS_TYPE, count, [None, pa.py_buffer(offsets)], children=[structs])


def _decode_header_keys(view: memoryview, spans: Spans, pairs: int) -> Any:
    start, length = spans[Section.HEADER_KEY_BYTES]
    offsets = _checked_offsets(view, spans, Section.HEADER_KEY_OFFSETS, length)
    data = view[start : start + length]
    array = pa.Array.from_buffers(pa.string(), pairs, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadRecord(f"a header key is not UTF-8: {error}") from None
    return array
