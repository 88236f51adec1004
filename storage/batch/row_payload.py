"""The rows payload (magic 2): Kafka's v2 records, which Kafka's own clients read and write.

Each record is its length, attributes (unused), timestamp delta, offset delta, key, value and headers; integers are
zigzag varints, and a length of -1 is a null. Pure.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from lograft.storage.batch.column_payload import absolute_timestamps, check_offset_deltas, check_timestamp_range
from lograft.storage.batch.compression import BytesLike
from lograft.storage.batch.header import MAX_TIMESTAMP, BatchHeader
from lograft.storage.batch.record import Columns, Headers
from lograft.storage.errors import BadRecord, BadRecordCount

_SMALLEST_RECORD_BYTES = 7  # length, attributes, two deltas, two null lengths, no headers
_VARINT_BITS = 64
_CACHED_BELOW = 1 << 16


class _Varints(dict[int, bytes]):
    """Zigzag varints by number; small numbers, which are nearly all, are computed once."""

    def __missing__(self, number: int) -> bytes:
        encoded = _encode_varint(number)
        if -_CACHED_BELOW < number < _CACHED_BELOW:
            self[number] = encoded
        return encoded


def _encode_varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_varints = _Varints()
_NULL = _encode_varint(-1)


def encode_rows(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Iterable[tuple[str, bytes | None]]] | None,
    timestamp_deltas: Sequence[int] | None,
    offset_deltas: Sequence[int] | None,
) -> bytes:
    """Return the payload; deltas of None are all zero, and dense."""
    count = len(values)
    varint = _varints.__getitem__
    # C code joins records from their pieces, one column of pieces at a time.
    bodies = list(
        map(
            b"".join,
            zip(
                repeat(b"\x00", count),
                repeat(b"\x00", count) if timestamp_deltas is None else map(varint, timestamp_deltas),
                map(varint, range(count) if offset_deltas is None else offset_deltas),
                *((repeat(_NULL, count),) if keys is None else _length_and_bytes(keys)),
                *_length_and_bytes(values),
                repeat(b"\x00", count) if headers is None else map(_encode_headers, headers),
                strict=True,
            ),
        )
    )
    return b"".join(chain.from_iterable(zip(map(varint, map(len, bodies)), bodies, strict=True)))


def decode_rows(header: BatchHeader, payload: BytesLike) -> Columns:
    """Return the records of an uncompressed rows payload; raises a subclass of InvalidBatch if any part is
    malformed."""
    count = header.record_count
    _check_count(count, payload)
    data = bytes(payload)
    timestamp_deltas: list[int] = []
    offset_deltas: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    position = 0
    try:
        for _ in range(count):
            if position == len(data):
                raise _too_few(count, len(values))
            length, start = _read_varint(data, position)
            end = start + length
            timestamp_delta, position = _read_varint(data, start + 1)
            offset_delta, position = _read_varint(data, position)
            key, position = _read_nullable(data, position)
            value, position = _read_nullable(data, position)
            pairs: Headers = ()
            if data[position]:
                pairs, position = _read_headers(data, position)
            else:
                position += 1
            _check_end(len(values), position, end)
            timestamp_deltas.append(timestamp_delta)
            offset_deltas.append(offset_delta)
            keys.append(key)
            values.append(value)
            headers.append(pairs)
    except IndexError:
        raise BadRecord(f"record {len(values)} reaches past the end of the payload") from None
    _check_all_used(count, data, position)
    if count == 0:
        return Columns([], [], [], [], [])
    check_offset_deltas(header, offset_deltas)
    base = header.base_offset
    offsets = [base + delta for delta in offset_deltas]
    return Columns(offsets, absolute_timestamps(header, timestamp_deltas), keys, values, headers)


def check_rows(header: BatchHeader, payload: BytesLike, *, latest: int = MAX_TIMESTAMP) -> None:
    """Raise what `decode_rows` would, keeping nothing of a record once it is checked. Raise `InvalidTimestamp` if a
    record is later than `latest`, which the base timestamp is not."""
    _check_count(header.record_count, payload)
    data = bytes(payload)
    size = len(data)
    previous_offset, position = -1, 0
    lowest = highest = 0  # of the timestamp deltas; 0 is the base, which is in range
    try:
        for number in range(header.record_count):
            if position == size:
                raise _too_few(header.record_count, number)
            length, start = _read_varint(data, position)
            timestamp_delta, position = _read_varint(data, start + 1)
            offset_delta, position = _read_varint(data, position)
            for _ in range(2):  # the key, and the value
                field_bytes, position = _read_varint(data, position)
                if field_bytes > 0:
                    position += field_bytes
                elif field_bytes < -1:
                    raise BadRecord(f"a length of {field_bytes}")
            if data[position]:
                _, position = _read_headers(data, position)
            else:
                position += 1
            _check_end(number, position, start + length)
            if not previous_offset < offset_delta <= header.last_offset_delta:
                raise BadRecord(f"offset delta {offset_delta} after {previous_offset}, of {header.last_offset_delta}")
            previous_offset = offset_delta
            if not lowest <= timestamp_delta <= highest:
                lowest, highest = min(lowest, timestamp_delta), max(highest, timestamp_delta)
    except IndexError:
        raise BadRecord(f"a record reaches past the end of the payload of {size} bytes") from None
    _check_all_used(header.record_count, data, position)
    if not header.is_append_time:
        check_timestamp_range(header.base_timestamp, lowest, highest, latest)


# -- encoding


def _length_and_bytes(items: Sequence[bytes | None]) -> tuple[Iterable[bytes], Iterable[bytes]]:
    if None in items:
        lengths = [_NULL if item is None else _varints[len(item)] for item in items]
        return lengths, [item or b"" for item in items]
    return map(_varints.__getitem__, map(len, items)), items  # type: ignore[arg-type,return-value]


def _encode_headers(pairs: Iterable[tuple[str, bytes | None]]) -> bytes:
    pairs = tuple(pairs)
    pieces = [_varints[len(pairs)]]
    for name, value in pairs:
        encoded = name.encode()
        pieces += (_varints[len(encoded)], encoded)
        pieces += (_NULL,) if value is None else (_varints[len(value)], value)
    return b"".join(pieces)


def _check_count(count: int, payload: BytesLike) -> None:
    if count * _SMALLEST_RECORD_BYTES > len(payload):
        raise BadRecordCount(f"{count} records cannot fit a payload of {len(payload)} bytes")


def _too_few(count: int, found: int) -> BadRecordCount:
    return BadRecordCount(f"the header says {count} records, the payload holds {found}")


def _check_end(number: int, position: int, end: int) -> None:
    if position != end:
        raise BadRecord(f"record {number} ends at {position}, its length says {end}")


def _check_all_used(count: int, data: bytes, position: int) -> None:
    if position != len(data):
        raise BadRecordCount(f"{len(data) - position} bytes follow the {count} records of the header")


# -- decoding: an index past the end raises IndexError, which the caller turns into BadRecord


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position
    number = byte & 0x7F
    shift = 7
    byte = data[position]
    if byte < 0x80:  # two bytes hold most lengths and offset deltas, so they have a fast path
        number |= byte << 7
        return number >> 1 ^ -(number & 1), position + 1
    while shift < _VARINT_BITS:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and number < 1 << _VARINT_BITS:
            return number >> 1 ^ -(number & 1), position
        shift += 7
    raise BadRecord("a varint is longer than 64 bits")


def _read_nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = _read_varint(data, position)
    if length < 0:
        if length != -1:
            raise BadRecord(f"a length of {length}")
        return None, start
    end = start + length
    return data[start:end], end


def _read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    count, position = _read_varint(data, position)
    if count < 0:
        raise BadRecord(f"a header count of {count}")
    pairs = []
    for _ in range(count):
        name, position = _read_nullable(data, position)
        if name is None:
            raise BadRecord("a header key is null")
        value, position = _read_nullable(data, position)
        try:
            pairs.append((name.decode(), value))
        except UnicodeDecodeError as error:
            raise BadRecord(f"a header key is not UTF-8: {error.reason}") from None
    return tuple(pairs), position
