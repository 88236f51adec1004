"""Arrow arrays in, Arrow arrays out: the same batches as from lists, whatever the arrays' types, nulls and slices."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lograft.storage.batch.codec import decode_arrow, decode_records, encode_arrow, encode_batch, validate_deep
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import MAGIC_COLUMNS, MAGIC_ROWS

MAGICS = pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])

VALUES = [b"one", None, b"", b"four", None, b"six", b"seven" * 100, b"eight", b"nine", b"ten"]
KEYS = [None, b"b", b"", b"d", b"e", None, b"g", b"h", b"i", b"j"]
TIMESTAMPS = [1_700_000_000_000 + 7 * number for number in range(10)]
HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("a", b"1"), ("b", None)],
    [],
    [("é", b"")],
    *[[] for _ in range(5)],
    [("z", b"26")],
]
HEADER_LISTS = [[{"key": key, "value": value} for key, value in pairs] for pairs in HEADERS]
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view(), pa.string_view()]


def array(items: list[Any], kind: Any) -> Any:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    return pa.array([item if item is None or not text else item.decode() for item in items], kind)


@MAGICS
@pytest.mark.parametrize("kind", BINARY_TYPES, ids=str)
@pytest.mark.parametrize("form", ["whole", "slice", "odd slice", "chunks", "chunks of slices", "empty chunk"])
def test_arrow_gives_the_batch_that_lists_give(magic: int, kind: Any, form: str) -> None:
    def shaped(items: list[Any], of_type: Any) -> Any:
        extra = items[:1]
        match form:
            case "whole":
                return array(items, of_type)
            case "slice":
                return array(extra * 8 + items + extra, of_type).slice(8, len(items))
            case "odd slice":
                return array(extra * 3 + items + extra, of_type).slice(3, len(items))
            case "chunks":
                return pa.chunked_array([array(items[:4], of_type), array(items[4:], of_type)])
            case "chunks of slices":
                return pa.chunked_array([array(extra + items, of_type)[1:6], array(items + extra, of_type)[5:-1]])
            case _:
                return pa.chunked_array([array([], of_type), array(items, of_type)])

    batch = encode_arrow(shaped(VALUES, kind), keys=shaped(KEYS, kind), timestamps=5, magic=magic)
    assert batch == encode_batch(VALUES, keys=KEYS, timestamps=5, magic=magic)


@MAGICS
@pytest.mark.parametrize("start", [0, 1, 3, 9])
def test_headers_and_timestamps_come_from_slices_too(magic: int, start: int) -> None:
    batch = encode_arrow(
        pa.array(VALUES).slice(start),
        keys=pa.array(KEYS).slice(start),
        timestamps=pa.array(TIMESTAMPS).slice(start),
        headers=pa.array(HEADER_LISTS, HEADERS_TYPE).slice(start),
        magic=magic,
    )
    assert batch == encode_batch(
        VALUES[start:], keys=KEYS[start:], timestamps=TIMESTAMPS[start:], headers=HEADERS[start:], magic=magic
    )


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Vienna"])
def test_timestamps_of_any_unit_become_milliseconds(unit: str, zone: str | None) -> None:
    moments = [datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC) for second in (5, 6)]
    timestamps = pa.array(moments, pa.timestamp(unit, tz="UTC")).cast(pa.timestamp(unit, tz=zone))
    milliseconds = [int(moment.timestamp()) * 1000 for moment in moments]
    batch = encode_arrow(pa.array([b"a", b"b"]), timestamps=timestamps)
    assert batch == encode_batch([b"a", b"b"], timestamps=milliseconds)


def test_all_the_fields_of_the_header_are_the_same_as_from_lists() -> None:
    fields: dict[str, Any] = {
        "timestamps": TIMESTAMPS,
        "offset_deltas": list(range(0, 20, 2)),
        "last_offset_delta": 30,
        "base_offset": 5,
        "leader_epoch": 6,
        "producer_id": 7,
        "producer_epoch": 8,
        "base_sequence": 9,
        "transactional": True,
        "delete_horizon": 1_800_000_000_000,
        "compression": Compression.ZSTD,
    }
    assert encode_arrow(pa.array(VALUES), **fields) == encode_batch(VALUES, **fields)
    assert encode_arrow(pa.array(VALUES), **fields | {"timestamps": 3}) == encode_batch(
        VALUES, **fields | {"timestamps": 3}
    )


def test_null_lists_and_all_null_columns_are_as_absent() -> None:
    batch = encode_arrow(
        pa.nulls(2),
        keys=pa.nulls(2, pa.binary()),
        timestamps=1,
        headers=pa.array([None, [{"key": "k", "value": None}]], HEADERS_TYPE),
    )
    assert batch == encode_batch([None, None], timestamps=1, headers=[[], [("k", None)]])


def test_no_records_at_all_are_a_batch_too() -> None:
    fields: dict[str, Any] = {"timestamps": 9, "last_offset_delta": 3, "producer_id": 4}
    assert encode_arrow(pa.array([], pa.binary()), **fields) == encode_batch([], **fields)
    assert encode_arrow(pa.chunked_array([], pa.string()), **fields) == encode_batch([], **fields)


@pytest.mark.parametrize(
    "arguments",
    [
        {"timestamps": pa.array([1, None])},
        {"timestamps": [1]},
        {"keys": pa.array([b"k"])},
        {"headers": pa.array([[], [None]], HEADERS_TYPE)},
        {"headers": pa.array([[], [{"key": None, "value": b""}]], HEADERS_TYPE)},
        {"timestamps": [0, 2**62]},
    ],
    ids=["null timestamp", "timestamps short", "keys short", "null header", "null header key", "timestamp range"],
)
def test_arrays_that_make_no_batch_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"null|entries|range"):
        encode_arrow(pa.array([b"a", b"b"]), **{"timestamps": 1} | arguments)


# -- decoding


@MAGICS
@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("append_time", [False, True])
def test_arrow_shows_what_records_show(magic: int, compression: Compression, append_time: bool) -> None:
    batch = encode_batch(
        VALUES,
        keys=KEYS,
        timestamps=TIMESTAMPS,
        headers=HEADERS,
        magic=magic,
        compression=compression,
        base_offset=100,
        offset_deltas=list(range(0, 30, 3)),
        append_time=append_time,
    )
    decoded = decode_arrow(batch)
    decoded.validate(full=True)
    records = decode_records(batch)
    assert decoded.column("key").to_pylist() == [record.key for record in records]
    assert decoded.column("value").to_pylist() == [record.value for record in records]
    assert decoded.column("offset").to_pylist() == [record.offset for record in records]
    assert decoded.column("timestamp").cast(pa.int64()).to_pylist() == [record.timestamp for record in records]
    assert [
        tuple((pair["key"], pair["value"]) for pair in pairs) for pairs in decoded.column("headers").to_pylist()
    ] == [record.headers for record in records]


@MAGICS
@pytest.mark.parametrize("values", [[], [b"a"], [None]], ids=["none", "one", "null"])
def test_the_schema_is_the_same_for_every_batch(magic: int, values: list[bytes | None]) -> None:
    decoded = decode_arrow(encode_batch(values, timestamps=1, magic=magic, last_offset_delta=5))
    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    assert decoded.schema.equals(
        pa.schema(
            [
                pa.field("key", pa.binary()),
                pa.field("value", pa.binary()),
                pa.field("offset", pa.int64(), nullable=False),
                pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
                pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
            ]
        )
    )
    assert decoded.num_rows == len(values)


def test_values_that_are_not_compressed_stay_where_they_are() -> None:
    batch = encode_batch(VALUES, keys=KEYS, timestamps=1)
    decoded = decode_arrow(batch)
    whole = pa.py_buffer(batch)
    for name in ("key", "value"):
        for buffer in decoded.column(name).buffers():
            assert whole.address <= buffer.address
            assert buffer.address + buffer.size <= whole.address + whole.size


def test_the_arrays_outlive_the_batch() -> None:
    batch = encode_batch(VALUES, keys=KEYS, timestamps=1, headers=HEADERS)
    decoded = decode_arrow(batch)
    del batch
    assert decoded.column("value").to_pylist() == VALUES


@pytest.mark.parametrize("shift", range(9))
def test_a_batch_decodes_wherever_it_lies_in_memory(shift: int) -> None:
    batch = encode_batch(VALUES, keys=KEYS, timestamps=TIMESTAMPS, headers=HEADERS, offset_deltas=range(1, 11))
    moved = memoryview(bytes(shift) + batch)[shift:]
    assert decode_arrow(moved).equals(decode_arrow(batch))
    assert validate_deep(moved) == validate_deep(batch)


def test_what_was_decoded_can_be_encoded_again() -> None:
    batch = encode_batch(VALUES, keys=KEYS, timestamps=TIMESTAMPS, headers=HEADERS)
    decoded = decode_arrow(batch)
    again = encode_arrow(
        decoded.column("value"),
        keys=decoded.column("key"),
        timestamps=decoded.column("timestamp"),
        headers=decoded.column("headers"),
    )
    assert again == batch
