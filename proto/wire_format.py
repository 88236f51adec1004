"""The part of protobuf's wire format that hot paths read and write directly.

The generated code copies a `bytes` field two or three times on each side. For a message with a megabyte of batches that
costs as much as sending it, so this module composes and splits such messages. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10

MAX_FIELDS = 50_000
"""More than any message of ours has. Parsing is linear in the fields: millions would take too long."""


class CodecError(ValueError):
    """Malformed bytes; they change nothing."""


class WireError(ValueError):
    """Bytes that are not a protobuf message."""


def varint(value: int) -> bytes:
    """Return an unsigned number as a protobuf varint."""
    assert value >= 0
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field_head(number: int, size_bytes: int) -> bytes:
    """Return the tag and length that precede the content of a field of bytes, a string or a message."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(size_bytes)


def message_field(number: int, small_fields: bytes, bytes_number: int, content: Sequence[Buffer]) -> list[Buffer]:
    """A field that is a message: its `small_fields`, already serialized, and one field of bytes, in parts.

    The parts of the result, one after the other, are the field. A message is its fields one after the other.
    """
    content_head = field_head(bytes_number, sum(map(len, content)))
    size = len(small_fields) + len(content_head) + sum(map(len, content))
    return [field_head(number, size) + small_fields + content_head, *content]


def _fields_of(message: memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield each field's number, wire type, start, content start and end."""
    position, size = 0, len(message)
    while position < size:
        begin = position
        tag, position = _read_varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _LENGTH_DELIMITED:
            length, position = _read_varint(message, position)
            end = position + length
        elif kind == _VARINT:
            _, end = _read_varint(message, position)
        elif kind in _FIXED_BYTES:
            end = position + _FIXED_BYTES[kind]
        else:
            raise WireError(f"wire type {kind} at byte {begin}")
        if number == 0 or end > size:
            raise WireError(f"field {number} at byte {begin} reaches to {end} of {size}")
        yield number, kind, begin, position, end
        position = end


def cut_out(message: memoryview, number: int) -> tuple[bytes, list[memoryview]]:
    """The message without its fields of bytes (or messages) that have this number, and their contents, in place.

    `WireError` if it is malformed, or has too many fields. A message is what its fields are, so the rest can be read by
    the generated code.
    """
    kept: list[memoryview] = []
    contents: list[memoryview] = []
    kept_from = 0
    for count, (field, kind, begin, start, end) in enumerate(_fields_of(message)):
        if count == MAX_FIELDS:
            raise WireError(f"more than {MAX_FIELDS} fields")
        if field == number and kind == _LENGTH_DELIMITED:
            kept.append(message[kept_from:begin])
            contents.append(message[start:end])
            kept_from = end
    kept.append(message[kept_from:])
    return b"".join(kept), contents


def fields_before(message: memoryview, number: int) -> bytes:
    """The message up to its first field of this number: a message of its own. `WireError` if it is malformed."""
    for count, (field, _, begin, _, _) in enumerate(_fields_of(message)):
        if field == number or count == MAX_FIELDS:
            return bytes(message[:begin])
    return bytes(message)


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    end = min(position + _MAX_VARINT_BYTES, len(message))
    while position < end:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise WireError(f"a number at byte {position} has no end")
