"""Record batches: the unit of producing, storing, replicating and fetching. This is the entry point of the codec.

`docs/format.md` specifies the bytes. Every function that reads a batch raises a subclass of InvalidBatch when it is
malformed, and nothing else. Decoding does not check the CRC: `validate_batch` does, where bytes arrive. Functions that
need NumPy or Arrow import them on use, because the imports are slow.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict, Unpack

from lograft.storage.batch import column_payload as columns_layout
from lograft.storage.batch import row_payload as rows_layout
from lograft.storage.batch import section_table as sections
from lograft.storage.batch.compression import (
    MAX_PAYLOAD_BYTES,
    BytesLike,
    Compression,
    check_beginning,
    compress,
    decompress,
)
from lograft.storage.batch.header import (
    APPEND_TIME_BIT,
    COLUMNS_PREFIX_BYTES,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC_COLUMNS,
    MAGIC_ROWS,
    MAX_BATCH_LENGTH,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_crc,
    pack_header,
    parse_header,
    stamp,
)
from lograft.storage.batch.record import Columns, Headers, Record, records_of
from lograft.storage.errors import (
    BadAttributes,
    BadBatchLength,
    BadRecord,
    BatchTooLarge,
    InvalidRecord,
    TruncatedBatch,
)

__all__ = [
    "HEADER_BYTES",
    "LENGTH_PREFIX_BYTES",
    "MAGIC_COLUMNS",
    "MAGIC_ROWS",
    "MAX_PAYLOAD_BYTES",
    "BatchHeader",
    "Columns",
    "Compression",
    "HeaderFields",
    "Headers",
    "Record",
    "arrow_of",
    "check_crc",
    "check_keys",
    "check_records",
    "decode_arrow",
    "decode_columns",
    "decode_records",
    "encode_arrow",
    "encode_batch",
    "iterate_batches",
    "parse_header",
    "records_of",
    "rewrite_batch",
    "stamp",
    "validate_batch",
    "validate_deep",
    "validate_payload",
]

_KNOWN_ATTRIBUTES = COMPRESSION_MASK | APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
_COLUMNS_START = HEADER_BYTES + COLUMNS_PREFIX_BYTES


class HeaderFields(TypedDict, total=False):
    """Header fields an encoder takes over unchanged; the defaults are those of Kafka's producers."""

    base_offset: int  # 0
    leader_epoch: int  # -1: not assigned yet
    last_offset_delta: int | None  # that of the last record
    producer_id: int  # -1: not idempotent, as for the next two
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    append_time: bool  # readers see the largest timestamp for every record
    delete_horizon: int | None  # milliseconds; takes the place of the base timestamp


# -- encoding


def encode_batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps: int | Sequence[int],
    headers: Sequence[Iterable[tuple[str, bytes | None]]] | None = None,
    magic: int = MAGIC_COLUMNS,
    compression: Compression = Compression.NONE,
    offset_deltas: Sequence[int] | None = None,
    **fields: Unpack[HeaderFields],
) -> bytes:
    """One batch from Python lists of the same length.

    `timestamps` (milliseconds) may be one for all. `offset_deltas`, for compacted batches, rise; without them the
    records are dense. No records at all need a `last_offset_delta`, which says how many offsets the batch covers.
    """
    _check_lengths(len(values), keys, headers, timestamps, offset_deltas)
    assert magic in (MAGIC_ROWS, MAGIC_COLUMNS)
    base, largest, deltas = _timestamp_deltas(timestamps, len(values), fields.get("delete_horizon"))
    offset_deltas = _sparse_deltas(offset_deltas, len(values))
    payload: list[Any]
    if magic == MAGIC_ROWS:
        payload = [rows_layout.encode_rows(values, keys, headers, deltas, offset_deltas)]
    else:
        payload = columns_layout.encode_columns(values, keys, headers, deltas, offset_deltas)
    last_delta = offset_deltas[-1] if offset_deltas else len(values) - 1
    return _seal(magic, payload, compression, len(values), last_delta, base, largest, **fields)


def encode_arrow(
    values: Any,
    *,
    keys: Any = None,
    timestamps: Any,
    headers: Any = None,
    magic: int = MAGIC_COLUMNS,
    compression: Compression = Compression.NONE,
    offset_deltas: Sequence[int] | None = None,
    **fields: Unpack[HeaderFields],
) -> bytes:
    """As encode_batch, from Arrow arrays or chunked arrays and with no Python object a record (unless `magic` is rows).

    Keys and values are of any type that casts to binary. Timestamps are one integer, integers, or Arrow timestamps.
    Headers are lists of structs of a string `key` and a binary `value`.
    """
    from lograft.storage.batch import arrow_payload as arrow_layout

    values = arrow_layout.binary_array(values)
    keys = None if keys is None else arrow_layout.binary_array(keys)
    headers = None if headers is None else arrow_layout.headers_array(headers)
    if not isinstance(timestamps, int):
        timestamps = arrow_layout.timestamps_list(timestamps)
    _check_lengths(len(values), keys, headers, timestamps, offset_deltas)
    if magic == MAGIC_ROWS:
        return encode_batch(
            values.to_pylist(),
            keys=None if keys is None else keys.to_pylist(),
            timestamps=timestamps if isinstance(timestamps, int) else timestamps.tolist(),
            headers=None if headers is None else arrow_layout.header_pairs(headers),
            magic=magic,
            compression=compression,
            offset_deltas=offset_deltas,
            **fields,
        )
    assert magic == MAGIC_COLUMNS
    base, largest, deltas = arrow_layout.timestamp_deltas(timestamps, len(values), fields.get("delete_horizon"))
    offset_deltas = _sparse_deltas(offset_deltas, len(values))
    payload = arrow_layout.encode_arrays(values, keys, headers, deltas, offset_deltas)
    last_delta = offset_deltas[-1] if offset_deltas else len(values) - 1
    return _seal(magic, payload, compression, len(values), last_delta, base, largest, **fields)


def rewrite_batch(
    batch: BytesLike,
    *,
    compression: Compression | None = None,
    append_time: int | None = None,
    limit_bytes: int = MAX_PAYLOAD_BYTES,
) -> bytes:
    """Return the batch with another compression, or with this append time (milliseconds) for every record, or both.

    Records are not decoded and everything else is kept; the CRC is recomputed.
    """
    header = parse_header(batch)
    payload: BytesLike = _stored_payload(batch, header)
    attributes, largest = header.attributes, header.max_timestamp
    if compression is not None and compression is not header.compression:
        if header.compression is not Compression.NONE:
            payload = decompress(header.compression, payload, limit_bytes)
        payload = _compressed(compression, [payload])
        attributes = attributes & ~COMPRESSION_MASK | compression
    if append_time is not None:
        attributes, largest = attributes | APPEND_TIME_BIT, append_time
    return _assemble(header._replace(attributes=attributes, max_timestamp=largest), [bytes(payload)])


def _check_lengths(count: int, *columns: Any) -> None:
    for column in columns:
        if column is not None and not isinstance(column, int) and len(column) != count:
            raise ValueError(f"a column has {len(column)} entries, the values {count}")


def _sparse_deltas(offset_deltas: Sequence[int] | None, count: int) -> list[int] | None:
    """Return the deltas, or None when they are dense and need not be stored."""
    if offset_deltas is None or list(offset_deltas) == list(range(count)):
        return None
    deltas = list(map(int, offset_deltas))
    if deltas[0] < 0 or sorted(set(deltas)) != deltas:
        raise ValueError("offset deltas do not rise from 0 or above")
    return deltas


def _timestamp_deltas(
    timestamps: int | Sequence[int], count: int, delete_horizon: int | None
) -> tuple[int, int, Sequence[int] | None]:
    """Base timestamp, largest timestamp, and deltas from the base (None when all are zero)."""
    if isinstance(timestamps, int):
        base = timestamps if delete_horizon is None else delete_horizon
        return base, timestamps, None if base == timestamps else [timestamps - base] * count
    if count == 0:
        return -1 if delete_horizon is None else delete_horizon, -1, None
    base = timestamps[0] if delete_horizon is None else delete_horizon
    smallest, largest = min(timestamps), max(timestamps)
    if smallest < MIN_TIMESTAMP:
        raise ValueError(f"timestamp {smallest} is out of range")
    if smallest == largest == base:
        return base, largest, None
    return base, largest, [timestamp - base for timestamp in timestamps]


def _seal(
    magic: int,
    payload: list[Any],
    compression: Compression,
    record_count: int,
    last_record_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    last_offset_delta: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    append_time: bool = False,
    delete_horizon: int | None = None,
) -> bytes:
    """Return the finished batch around a payload that is not compressed yet."""
    if last_offset_delta is None:
        last_offset_delta = last_record_delta
    if min(base_timestamp, max_timestamp) < MIN_TIMESTAMP or max(base_timestamp, max_timestamp) > MAX_TIMESTAMP:
        raise ValueError(f"timestamps {base_timestamp}, {max_timestamp} are out of range")
    if last_offset_delta < max(last_record_delta, 0):
        raise ValueError(f"last offset delta {last_offset_delta} does not cover the records")
    if compression is not Compression.NONE:
        payload = [_compressed(compression, payload)]
    attributes = (
        compression
        | (APPEND_TIME_BIT if append_time else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon is not None else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=magic,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )
    return _assemble(header, payload)


def _compressed(compression: Compression, payload: list[Any]) -> bytes:
    size = sum(map(len, payload))
    if size > MAX_PAYLOAD_BYTES:
        raise BatchTooLarge(f"a payload of {size} bytes would not be decompressed by readers")
    return compress(compression, b"".join(payload))


def _assemble(header: BatchHeader, payload: list[Any]) -> bytes:
    """Return the batch with this header, whose length and CRC are computed here, and this already encoded payload."""
    size = sum(map(len, payload))
    if size > MAX_BATCH_LENGTH - _COLUMNS_START:
        raise BatchTooLarge(f"a payload of {size} bytes does not fit a batch")
    if header.magic == MAGIC_COLUMNS:
        pad_bytes = -size % sections.ALIGNMENT
        payload = [bytes((pad_bytes, 0, 0)), *payload, bytes(pad_bytes)]
    fields = header._asdict()
    del fields["batch_length"], fields["crc"]
    return b"".join((pack_header(**fields, body=payload), *payload))


# -- decoding


def decode_records(
    batch: BytesLike, *, topic: str = "", partition: int = 0, limit_bytes: int = MAX_PAYLOAD_BYTES
) -> list[Record]:
    """Return every record of one batch, in order."""
    return list(records_of(topic, partition, *decode_columns(batch, limit_bytes=limit_bytes)))


def decode_columns(batch: BytesLike, *, limit_bytes: int = MAX_PAYLOAD_BYTES) -> Columns:
    """Return the records of one batch, a list a column."""
    header = parse_header(batch)
    payload = _open_payload(batch, header, limit_bytes)
    if header.magic == MAGIC_ROWS:
        return rows_layout.decode_rows(header, payload)
    return columns_layout.decode_columns(header, payload)


def decode_arrow(batch: BytesLike, *, schema: Any = None, limit_bytes: int = MAX_PAYLOAD_BYTES) -> Any:
    """Return one batch as a pyarrow.RecordBatch: key, value (binary), offset (int64), timestamp (milliseconds, UTC),
    headers; or those of them that `schema` has.

    Columns that are not compressed stay in the memory of `batch`, which the result keeps alive and which must not
    change; rows are decoded one by one.
    """
    from lograft.storage.batch import arrow_payload as arrow_layout

    header = parse_header(batch)
    payload = _open_payload(batch, header, limit_bytes)
    schema = arrow_layout.SCHEMA if schema is None else schema
    if header.magic == MAGIC_ROWS:
        return arrow_layout.from_columns(rows_layout.decode_rows(header, payload)).select(schema.names)
    return arrow_layout.decode_arrays(header, payload, schema)


def arrow_of(columns: Columns) -> Any:
    """Return decoded records in the form that `decode_arrow` returns."""
    from lograft.storage.batch import arrow_payload as arrow_layout

    return arrow_layout.from_columns(columns)


def _open_payload(batch: BytesLike, header: BatchHeader, limit_bytes: int) -> BytesLike:
    stored = _stored_payload(batch, header)
    compression = header.compression
    return stored if compression is Compression.NONE else decompress(compression, stored, limit_bytes)


def _stored_payload(batch: BytesLike, header: BatchHeader) -> memoryview:
    """Return the payload of a buffer that holds exactly one batch, without what frames it and perhaps still
    compressed."""
    if len(batch) < header.total_bytes:
        raise TruncatedBatch(f"a batch of {header.total_bytes} bytes in a buffer of {len(batch)}")
    if len(batch) > header.total_bytes:
        raise BadBatchLength(f"{len(batch) - header.total_bytes} bytes follow the batch")
    return _payload_at(batch, 0, header)


def _payload_at(buffer: BytesLike, position: int, header: BatchHeader) -> memoryview:
    view = memoryview(buffer)[position : position + header.total_bytes]
    if header.magic == MAGIC_ROWS:
        return view[HEADER_BYTES:]
    pad_bytes = view[HEADER_BYTES]
    end = header.total_bytes - pad_bytes
    if pad_bytes >= sections.ALIGNMENT or end < _COLUMNS_START or any(view[HEADER_BYTES + 1 : _COLUMNS_START]):
        raise BadBatchLength(f"bytes {bytes(view[HEADER_BYTES:_COLUMNS_START]).hex()} before a columns payload")
    if any(view[end:]):
        raise BadBatchLength("the pad bytes are not zero")
    return view[_COLUMNS_START:end]


# -- validation


def validate_batch(buffer: BytesLike, position: int = 0, *, max_bytes: int | None = None) -> BatchHeader:
    """Check everything that does not need decoding records, and return the header. More bytes may follow in the
    buffer."""
    header = parse_header(buffer, position)
    if max_bytes is not None and header.total_bytes > max_bytes:
        raise BatchTooLarge(
            f"a batch of {header.total_bytes} bytes is over the topic's max.message.bytes of {max_bytes}: "
            "send less at a time, or let the topic take more"
        )
    check_crc(buffer, position, header)
    validate_payload(buffer, position, header)
    return header


def validate_payload(buffer: BytesLike, position: int, header: BatchHeader) -> None:
    """Check, without decoding records, what a correct CRC does not guarantee: the CRC covers whatever was sent."""
    if header.attributes & ~_KNOWN_ATTRIBUTES:
        raise BadAttributes(f"attributes {header.attributes:#06x} have unknown bits")
    payload = _payload_at(buffer, position, header)
    if header.compression is Compression.NONE and header.magic == MAGIC_COLUMNS:
        sections.parse_sections(payload, header.record_count)
    if header.compression is not Compression.NONE:
        check_beginning(header.compression, payload)


def check_records(
    batch: BytesLike, header: BatchHeader, *, limit_bytes: int = MAX_PAYLOAD_BYTES, latest: int = MAX_TIMESTAMP
) -> None:
    """Raise a subclass of InvalidBatch if a decoder would, for a batch that `validate_batch` has let through; or if a
    record is later than `latest`, which the base timestamp is not."""
    payload = _open_payload(batch, header, limit_bytes)
    if header.magic == MAGIC_ROWS:
        rows_layout.check_rows(header, payload, latest=latest)
    else:
        columns_layout.check_columns(header, payload, latest=latest)


def check_keys(
    batch: BytesLike, header: BatchHeader, *, limit_bytes: int = MAX_PAYLOAD_BYTES, latest: int = MAX_TIMESTAMP
) -> None:
    """Like `check_records`, but also raise InvalidRecord if a record has no key."""
    payload = _open_payload(batch, header, limit_bytes)
    if header.magic == MAGIC_ROWS:
        columns = rows_layout.decode_rows(header, payload)
        columns_layout.check_latest(max(columns.timestamps, default=MIN_TIMESTAMP), latest)
        has_null_key = None in columns.keys
    else:
        columns_layout.check_columns(header, payload, latest=latest)
        has_null_key = columns_layout.has_null_key(header, payload)
    if has_null_key:
        raise InvalidRecord("every record of a compacted topic needs a key")


def validate_deep(batch: BytesLike, *, limit_bytes: int = MAX_PAYLOAD_BYTES) -> BatchHeader:
    """Check everything, every record included, of a buffer that holds exactly one batch."""
    header = validate_batch(batch)
    decoded = decode_columns(batch, limit_bytes=limit_bytes)
    if decoded.timestamps and max(decoded.timestamps) != header.max_timestamp:
        raise BadRecord(f"the largest timestamp is {max(decoded.timestamps)}, the header says {header.max_timestamp}")
    return header


def iterate_batches(buffer: BytesLike, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch in buffer[start:end]; raises at the first that is malformed or cut
    short.

    Ignores CRCs and payloads.
    """
    end = len(buffer) if end is None else end
    position = start
    while position < end:
        header = parse_header(buffer, position)
        if position + header.total_bytes > end:
            raise TruncatedBatch(f"the batch at {position} needs {header.total_bytes} bytes, {end - position} are")
        yield position, header
        position += header.total_bytes
