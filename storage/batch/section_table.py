"""The section table of a columns payload: the columns present, their positions, and the checks of both.

This module uses only the table and the record count; decoding checks the content of the sections. Pure.
"""

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from lograft.storage.batch.compression import BytesLike
from lograft.storage.errors import BadRecordCount, BadSection

TABLE_HEADER = struct.Struct("<II")  # number of sections, zero
TABLE_ENTRY = struct.Struct("<HHII")  # id, flags (zero), offset and length in the uncompressed payload
ALIGNMENT = 8


class Section(IntEnum):
    """Sections lie in the payload, and are listed in the table, in the order of these numbers."""

    TIMESTAMP_DELTAS = 1
    OFFSET_DELTAS = 2
    KEY_OFFSETS = 3
    KEY_VALIDITY = 4
    KEY_BYTES = 5
    VALUE_OFFSETS = 6
    VALUE_VALIDITY = 7
    VALUE_BYTES = 8
    HEADER_OFFSETS = 9
    HEADER_KEY_OFFSETS = 10
    HEADER_KEY_BYTES = 11
    HEADER_VALUE_OFFSETS = 12
    HEADER_VALUE_VALIDITY = 13
    HEADER_VALUE_BYTES = 14


class BinaryColumn(NamedTuple):
    """The three sections that hold a column of nullable byte strings."""

    offsets: Section
    validity: Section
    data: Section


KEY_COLUMN = BinaryColumn(Section.KEY_OFFSETS, Section.KEY_VALIDITY, Section.KEY_BYTES)
VALUE_COLUMN = BinaryColumn(Section.VALUE_OFFSETS, Section.VALUE_VALIDITY, Section.VALUE_BYTES)
HEADER_VALUE_COLUMN = BinaryColumn(
    Section.HEADER_VALUE_OFFSETS, Section.HEADER_VALUE_VALIDITY, Section.HEADER_VALUE_BYTES
)

Span: TypeAlias = tuple[int, int]  # first byte and length, relative to the payload
Spans: TypeAlias = Mapping[int, Span]

# Plain integers: looking a member up in an enum class costs more than the rest of its validation.
_LAST_SECTION = int(max(Section))
_VALUE_OFFSETS = int(Section.VALUE_OFFSETS)
_HEADER_KEY_OFFSETS = int(Section.HEADER_KEY_OFFSETS)

# Sections of fixed-size elements: bits an element, and elements more than there are records, or headers.
_PER_RECORD = {
    int(Section.TIMESTAMP_DELTAS): (64, 0),
    int(Section.OFFSET_DELTAS): (32, 0),
    int(Section.KEY_OFFSETS): (32, 1),
    int(Section.KEY_VALIDITY): (1, 0),
    int(Section.VALUE_OFFSETS): (32, 1),
    int(Section.VALUE_VALIDITY): (1, 0),
    int(Section.HEADER_OFFSETS): (32, 1),
}
_PER_HEADER = {
    int(Section.HEADER_KEY_OFFSETS): (32, 1),
    int(Section.HEADER_VALUE_OFFSETS): (32, 1),
    int(Section.HEADER_VALUE_VALIDITY): (1, 0),
}
_PADDING = tuple(bytes(size) for size in range(ALIGNMENT))


def lay_out(sections: Iterable[tuple[Section, Any]]) -> list[Any]:
    """Return the parts of a payload with these sections, each bytes or a uint8 array, given in the order of their
    ids."""
    sections = list(sections)
    table_bytes = TABLE_HEADER.size + TABLE_ENTRY.size * len(sections)
    table = [TABLE_HEADER.pack(len(sections), 0)]
    parts: list[Any] = []
    end = table_bytes
    for section, content in sections:
        padding = -end % ALIGNMENT
        start = end + padding
        end = start + len(content)
        table.append(TABLE_ENTRY.pack(section, 0, start, len(content)))
        parts += (_PADDING[padding], content)
    return [b"".join(table), *parts]


def parse_sections(payload: BytesLike, record_count: int) -> Spans:
    """Return where each section of an uncompressed payload lies; raise BadSection or BadRecordCount if the table is
    wrong."""
    spans = _parse_table(payload)
    if record_count == 0:
        if spans:
            raise BadRecordCount(f"a batch of no records has {len(spans)} sections")
        return spans
    _check_presence(frozenset(spans))
    _check_sizes(spans, record_count)
    return spans


def header_count(spans: Spans) -> int:
    """Return the number of record headers in the batch."""
    return spans[_HEADER_KEY_OFFSETS][1] // 4 - 1 if _HEADER_KEY_OFFSETS in spans else 0


def _parse_table(payload: BytesLike) -> dict[int, Span]:
    if len(payload) < TABLE_HEADER.size:
        raise BadSection(f"a payload of {len(payload)} bytes has no room for a section table")
    count, reserved = TABLE_HEADER.unpack_from(payload)
    end = TABLE_HEADER.size + count * TABLE_ENTRY.size
    if count > _LAST_SECTION or reserved or end > len(payload):
        raise BadSection(f"a section table of {count} entries in a payload of {len(payload)} bytes")
    spans: dict[int, Span] = {}
    previous = 0
    for section, flags, start, length in TABLE_ENTRY.iter_unpack(memoryview(payload)[TABLE_HEADER.size : end]):
        if section > _LAST_SECTION or flags:
            raise BadSection(f"section {section} with flags {flags} is unknown")
        if section <= previous:
            raise BadSection(f"section {section} is doubled or out of order")
        if not end <= start < end + ALIGNMENT:
            raise BadSection(f"section {section} at {start} overlaps or leaves a gap: the one before ends at {end}")
        end = start + length
        spans[section] = (start, length)
        previous = section
    if end != len(payload):
        raise BadSection(f"sections end at {end}, the payload at {len(payload)}")
    return spans


@lru_cache(maxsize=256)
def _check_presence(spans: frozenset[int]) -> None:
    """Refuse incomplete groups of sections. Few combinations occur, so accepted ones are cached."""
    if Section.VALUE_OFFSETS not in spans:
        raise BadSection("the value offsets are missing")
    for column in (KEY_COLUMN, VALUE_COLUMN, HEADER_VALUE_COLUMN):
        present = column.offsets in spans
        if present != (column.data in spans) or (column.validity in spans and not present):
            raise BadSection(f"of the sections {tuple(map(int, column))} some are there without the others")
    headers = Section.HEADER_OFFSETS in spans
    if headers != (Section.HEADER_KEY_OFFSETS in spans) or headers != (Section.HEADER_KEY_BYTES in spans):
        raise BadSection("the header sections are not complete")
    if Section.HEADER_VALUE_OFFSETS in spans and not headers:
        raise BadSection("there are header values without header keys")


def _check_sizes(spans: Spans, record_count: int) -> None:
    """Refuse sections of fixed-size elements with the wrong number of elements."""
    value_offsets_bytes = spans[_VALUE_OFFSETS][1]
    if value_offsets_bytes != 4 * (record_count + 1):
        raise BadRecordCount(
            f"the header says {record_count} records, the value offsets are {value_offsets_bytes} bytes"
        )
    headers = max(header_count(spans), 0)
    for section, (_, length) in spans.items():
        if section in _PER_RECORD:
            bits, extra = _PER_RECORD[section]
            expected = (bits * (record_count + extra) + 7) // 8
        elif section in _PER_HEADER:
            bits, extra = _PER_HEADER[section]
            expected = (bits * (headers + extra) + 7) // 8
        else:
            continue
        if length != expected:
            raise BadSection(f"section {section} of {length} bytes does not fit {record_count} records")
