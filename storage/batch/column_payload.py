"""The columns payload (magic 3) from and to Python lists; `arrow` does the same for Arrow arrays.

Decoding checks every offset before using it: a batch may come from an untrusted client. Pure.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, islice, pairwise
from operator import lt
from typing import Any

from lograft.storage.batch.compression import BytesLike
from lograft.storage.batch.header import MAX_BATCH_LENGTH, MAX_TIMESTAMP, MIN_TIMESTAMP, BatchHeader
from lograft.storage.batch.record import Columns, Headers
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
from lograft.storage.errors import BadRecord, BatchTooLarge, InvalidTimestamp

_OFFSET_BYTES = 4
_OFFSET_SIGN = b"\x00\x00\x00\x80"
_OFFSET_MASK = 0xFFFF_FFFF
_DELTA_BYTES = 8
_DELTA_ONE = (1).to_bytes(_DELTA_BYTES, "little")
_DELTA_BITS = 8 * _DELTA_BYTES
_MOST_KEPT_LANES = 1 << 14  # for larger batches it is no burden to make them


def encode_columns(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Iterable[tuple[str, bytes | None]]] | None,
    timestamp_deltas: Sequence[int] | None,
    offset_deltas: Sequence[int] | None,
) -> list[Any]:
    """Return the parts of the payload; deltas of None are left out: all zero, and dense."""
    if not values:
        return lay_out(())
    sections: list[tuple[Section, bytes]] = []
    if timestamp_deltas is not None:
        sections.append((Section.TIMESTAMP_DELTAS, pack_integers("q", timestamp_deltas)))
    if offset_deltas is not None:
        sections.append((Section.OFFSET_DELTAS, pack_integers("i", offset_deltas)))
    if keys is not None:
        sections += _encode_nullable(KEY_COLUMN, keys)
    sections += _encode_nullable(VALUE_COLUMN, values) or _encode_all_null(VALUE_COLUMN, len(values))
    if headers is not None and any(headers):
        sections += _encode_headers(headers)
    return lay_out(sections)


def decode_columns(header: BatchHeader, payload: BytesLike) -> Columns:
    """Return the records of an uncompressed columns payload; raises a subclass of InvalidBatch if any part is
    malformed."""
    spans = parse_sections(payload, header.record_count)
    count = header.record_count
    if count == 0:
        return Columns([], [], [], [], [])
    view = memoryview(payload)
    return Columns(
        offsets=_decode_record_offsets(header, view, spans),
        timestamps=_decode_timestamps(header, view, spans),
        keys=_decode_nullable(KEY_COLUMN, view, spans, count),
        values=_decode_nullable(VALUE_COLUMN, view, spans, count),
        headers=_decode_headers(view, spans, count),
    )


def check_columns(header: BatchHeader, payload: BytesLike, *, latest: int = MAX_TIMESTAMP) -> None:
    """Raise what `decode_columns` would, in about a thirtieth of its time: no record becomes an object. Raise
    `InvalidTimestamp` if a record is later than `latest`, which the base timestamp is not.

    Integers are compared a whole section at a time, each in a lane of one big number.
    """
    spans = parse_sections(payload, header.record_count)
    if header.record_count == 0:
        return
    view = memoryview(payload)
    if Section.OFFSET_DELTAS in spans:
        _decode_record_offsets(header, view, spans)
    if Section.TIMESTAMP_DELTAS in spans and not header.is_append_time:
        _check_timestamps(header.base_timestamp, latest, view, spans[Section.TIMESTAMP_DELTAS])
    _check_nullable(KEY_COLUMN, view, spans, header.record_count)
    _check_nullable(VALUE_COLUMN, view, spans, header.record_count)
    if Section.HEADER_OFFSETS in spans:
        _check_headers(header, view, spans)


def has_null_key(header: BatchHeader, payload: BytesLike) -> bool:
    """Return True if a record has no key, in a payload that passed `check_columns`."""
    spans = parse_sections(payload, header.record_count)
    if KEY_COLUMN.offsets not in spans:
        return header.record_count > 0
    if KEY_COLUMN.validity not in spans:
        return False
    return _number(memoryview(payload), spans[KEY_COLUMN.validity]) != (1 << header.record_count) - 1


def pack_integers(code: str, numbers: Iterable[int]) -> bytes:
    numbers = tuple(numbers)
    return struct.pack(f"<{len(numbers)}{code}", *numbers)


def check_offset_deltas(header: BatchHeader, deltas: Sequence[int]) -> None:
    """Offset deltas rise, and stay within the batch."""
    if not all(map(lt, deltas, islice(deltas, 1, None))):
        raise BadRecord("offset deltas do not rise")
    if deltas[0] < 0 or deltas[-1] > header.last_offset_delta:
        raise BadRecord(f"offset deltas {deltas[0]} to {deltas[-1]} are not within 0 to {header.last_offset_delta}")


def absolute_timestamps(header: BatchHeader, deltas: Sequence[int] | None) -> list[int]:
    """Return the timestamps readers see: the append time for all records, else base timestamp plus delta."""
    if header.is_append_time:
        return [header.max_timestamp] * header.record_count
    base = header.base_timestamp
    if deltas is None:
        return [base] * header.record_count
    check_timestamp_range(base, min(deltas), max(deltas))
    return list(map(base.__add__, deltas))


def check_timestamp_range(base: int, smallest_delta: int, largest_delta: int, latest: int = MAX_TIMESTAMP) -> None:
    if base + smallest_delta < MIN_TIMESTAMP or base + largest_delta > MAX_TIMESTAMP:
        raise BadRecord("a timestamp is out of range")
    check_latest(base + largest_delta, latest)


def check_latest(timestamp: int, latest: int) -> None:
    """Retention and lookups by time believe the header: no record may be later than it says."""
    if timestamp > latest:
        raise InvalidTimestamp(f"a record has timestamp {timestamp}, and the header says that the largest is {latest}")


# -- encoding


def _encode_nullable(column: BinaryColumn, items: Sequence[bytes | None]) -> list[tuple[Section, bytes]]:
    """Return the sections of one column; none at all when every item is null."""
    try:
        # Raises at the first null: the cheapest way to find one.
        data = b"".join(items)  # type: ignore[arg-type]
    except TypeError:
        if None not in items:
            raise
        return _encode_with_nulls(column, items)
    offsets = tuple(accumulate(map(len, items), initial=0))  # type: ignore[arg-type]
    if len(data) > MAX_BATCH_LENGTH:
        raise BatchTooLarge(f"a column of {len(data)} bytes does not fit a batch")
    if offsets[-1] != len(data):
        raise TypeError("keys, values and header values are bytes")
    return [(column.offsets, pack_integers("i", offsets)), (column.data, data)]


def _encode_with_nulls(column: BinaryColumn, items: Sequence[bytes | None]) -> list[tuple[Section, bytes]]:
    filled = [b"" if item is None else item for item in items]
    bits = "".join(["0" if item is None else "1" for item in items])
    if "1" not in bits:
        return []
    validity = int(bits[::-1], 2).to_bytes((len(items) + 7) // 8, "little")
    (offsets, data) = _encode_nullable(column, filled)
    return [offsets, (column.validity, validity), data]


def _encode_all_null(column: BinaryColumn, count: int) -> list[tuple[Section, bytes]]:
    """Encode a column of nulls. Values are always present, because their offsets bound the record count by the
    payload's size."""
    return [(column.offsets, bytes(4 * (count + 1))), (column.validity, bytes((count + 7) // 8)), (column.data, b"")]


def _encode_headers(headers: Sequence[Iterable[tuple[str, bytes | None]]]) -> list[tuple[Section, bytes]]:
    lists = [tuple(pairs) for pairs in headers]
    pairs = list(chain.from_iterable(lists))
    names = [name.encode() for name, _ in pairs]
    values = [value for _, value in pairs]
    return [
        (Section.HEADER_OFFSETS, pack_integers("i", accumulate(map(len, lists), initial=0))),
        (Section.HEADER_KEY_OFFSETS, pack_integers("i", accumulate(map(len, names), initial=0))),
        (Section.HEADER_KEY_BYTES, b"".join(names)),
        *_encode_nullable(HEADER_VALUE_COLUMN, values),
    ]


# -- decoding


def _decode_record_offsets(header: BatchHeader, view: memoryview, spans: Spans) -> Sequence[int]:
    if Section.OFFSET_DELTAS not in spans:
        return range(header.base_offset, header.base_offset + header.record_count)
    deltas = _integers("i", view, spans[Section.OFFSET_DELTAS])
    check_offset_deltas(header, deltas)
    return [header.base_offset + delta for delta in deltas]


def _decode_timestamps(header: BatchHeader, view: memoryview, spans: Spans) -> list[int]:
    if Section.TIMESTAMP_DELTAS not in spans:
        return absolute_timestamps(header, None)
    return absolute_timestamps(header, _integers("q", view, spans[Section.TIMESTAMP_DELTAS]))


def _decode_nullable(column: BinaryColumn, view: memoryview, spans: Spans, count: int) -> Sequence[bytes | None]:
    if column.offsets not in spans:
        return [None] * count
    items = _slices(view, spans, column.offsets, column.data)
    if column.validity not in spans:
        return items
    bits = _validity_bits(view, spans[column.validity], count)
    return [item if bit == "1" else None for item, bit in zip(items, bits, strict=True)]


def _decode_headers(view: memoryview, spans: Spans, count: int) -> list[Headers]:
    if Section.HEADER_OFFSETS not in spans:
        return [()] * count
    pairs_count = header_count(spans)
    offsets = _checked_offsets(view, spans[Section.HEADER_OFFSETS], pairs_count, Section.HEADER_OFFSETS)
    try:
        names = [
            str(name, "utf-8") for name in _slices(view, spans, Section.HEADER_KEY_OFFSETS, Section.HEADER_KEY_BYTES)
        ]
    except UnicodeDecodeError as error:
        raise BadRecord(f"a header key is not UTF-8: {error.reason}") from None
    values = _decode_nullable(HEADER_VALUE_COLUMN, view, spans, pairs_count)
    pairs = tuple(zip(names, values, strict=True))
    return [pairs[start:end] for start, end in pairwise(offsets)]


def _slices(view: memoryview, spans: Spans, offsets_section: Section, data_section: Section) -> list[bytes]:
    """Return the byte strings of one column. One copy of the whole section makes each slice a plain `bytes`."""
    start, length = spans[data_section]
    data = bytes(view[start : start + length])
    offsets = _checked_offsets(view, spans[offsets_section], length, offsets_section)
    return [data[first:last] for first, last in pairwise(offsets)]


def _checked_offsets(view: memoryview, span: tuple[int, int], end: int, section: Section) -> tuple[int, ...]:
    """Return the offsets, checked: they begin at 0, never fall, and end at the end of their data."""
    offsets = _integers("i", view, span)
    # Sorting a sorted list takes one pass in C; comparing pairs in Python would take five times as long.
    if offsets[0] != 0 or offsets[-1] != end or sorted(offsets) != list(offsets):
        raise _bad_offsets(section, end)
    return offsets


def _bad_offsets(section: Section, end: int) -> BadRecord:
    return BadRecord(f"the offsets of section {section:d} do not rise from 0 to {end}")


def _validity_bits(view: memoryview, span: tuple[int, int], count: int) -> str:
    number = _number(view, span)
    _check_validity(number, count)
    # A bit above the last keeps leading zeros; reversed, and without it, the first record comes first.
    return f"{number | 1 << count:b}"[:0:-1]


def _check_validity(number: int, count: int) -> None:
    if number >> count:
        raise BadRecord("validity bits beyond the last record are set")


def _check_nullable(column: BinaryColumn, view: memoryview, spans: Spans, count: int) -> None:
    if column.offsets not in spans:
        return
    _check_offsets(view, spans[column.offsets], spans[column.data][1], column.offsets)
    if column.validity in spans:
        _check_validity(_number(view, spans[column.validity]), count)


def _check_headers(header: BatchHeader, view: memoryview, spans: Spans) -> None:
    names_start, names_bytes = spans[Section.HEADER_KEY_BYTES]
    if not bytes(view[names_start : names_start + names_bytes]).isascii():
        _decode_headers(view, spans, header.record_count)  # where a name may begin depends on the text
        return
    count = header_count(spans)
    _check_offsets(view, spans[Section.HEADER_OFFSETS], count, Section.HEADER_OFFSETS)
    _check_offsets(view, spans[Section.HEADER_KEY_OFFSETS], names_bytes, Section.HEADER_KEY_OFFSETS)
    _check_nullable(HEADER_VALUE_COLUMN, view, spans, count)


def _check_offsets(view: memoryview, span: tuple[int, int], end: int, section: Section) -> None:
    """Check offsets as `_checked_offsets` does, without returning them."""
    lanes = span[1] // _OFFSET_BYTES
    offsets, signs = _number(view, span), int.from_bytes(_OFFSET_SIGN * lanes, "little")
    lane_bits = 8 * _OFFSET_BYTES
    last = offsets >> lane_bits * (lanes - 1)
    rises = offsets & signs == 0 and offsets & _OFFSET_MASK == 0 and last == end
    if rises:
        # A lane keeps its sign bit, and borrows nothing from the next, if the subtracted offset is not the larger one.
        signs >>= lane_bits
        earlier = offsets ^ last << lane_bits * (lanes - 1)
        rises = ((offsets >> lane_bits | signs) - earlier) & signs == signs
    if not rises:
        raise _bad_offsets(section, end)


def _check_timestamps(base: int, latest: int, view: memoryview, span: tuple[int, int]) -> None:
    if base < MIN_TIMESTAMP or not _are_within(latest - base, view, span):
        deltas = _integers("q", view, span)
        check_timestamp_range(base, min(deltas), max(deltas), latest)


def _are_within(most: int, view: memoryview, span: tuple[int, int]) -> bool:
    """Return whether all deltas are from 0 to `most`, all compared at once. There may be more lanes than deltas."""
    if most < 0:
        return False
    ones, signs = _delta_lanes(span[1] // _DELTA_BYTES)
    deltas = _number(view, span)
    # A lane keeps its sign bit if the delta is not the larger one, and borrows nothing from the next.
    return deltas & signs == 0 and (ones * most + signs - deltas) & signs == signs


def _delta_lanes(count: int) -> tuple[int, int]:
    """Return numbers with a 1, and with the sign bit, in each of at least `count` lanes: few sizes, to be kept."""
    step = 1 << max(count.bit_length() - 3, 0)
    lanes = (count + step - 1) // step * step
    return _kept_delta_lanes(lanes) if lanes <= _MOST_KEPT_LANES else _make_delta_lanes(lanes)


def _make_delta_lanes(lanes: int) -> tuple[int, int]:
    ones = int.from_bytes(_DELTA_ONE * lanes, "little")
    return ones, ones << _DELTA_BITS - 1


_kept_delta_lanes = lru_cache(4 * _MOST_KEPT_LANES.bit_length())(_make_delta_lanes)


def _number(view: memoryview, span: tuple[int, int]) -> int:
    start, length = span
    return int.from_bytes(view[start : start + length], "little")


def _integers(code: str, view: memoryview, span: tuple[int, int]) -> tuple[int, ...]:
    start, length = span
    count = length // struct.calcsize(f"<{code}")
    return struct.unpack_from(f"<{count}{code}", view, start)
