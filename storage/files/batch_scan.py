"""A scan over the batches of a segment file, with every check that needs no neighbouring batch."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from lograft.runtime.files import Buffer, File
from lograft.storage.batch.header import HEADER_BYTES, BatchHeader, check_crc, parse_header
from lograft.storage.errors import InvalidBatch, TruncatedBatch

CHUNK_BYTES = 1024 * 1024

_BOUNDS = struct.Struct(">qi11xi")  # baseOffset, batchLength, and at 23 lastOffsetDelta


class ScannedBatch(NamedTuple):
    """A batch and its position."""

    position: int
    header: BatchHeader
    content: memoryview

    @property
    def end_position(self) -> int:
        return self.position + self.header.total_bytes


def scan_batches(
    file: File, position: int, end: int, *, chunk_bytes: int = CHUNK_BYTES, verify: bool = True
) -> Iterator[ScannedBatch]:
    """Yield the batches in [position, end) of `file`, which must both be batch boundaries unless the file is damaged.

    Raises `InvalidBatch` at the first batch whose header, length or (with `verify`) CRC is wrong: batches yielded
    before it are sound, and the damage begins at the end of the last one.
    """
    chunk = memoryview(b"")
    chunk_start = position
    while position < end:
        at = position - chunk_start
        if len(chunk) - at < HEADER_BYTES:
            chunk, chunk_start, at = _read(file, position, max(chunk_bytes, HEADER_BYTES), end), position, 0
        header = parse_header(chunk, at)
        if position + header.total_bytes > end:
            raise TruncatedBatch(f"a batch of {header.total_bytes} bytes where {end - position} are left")
        if len(chunk) - at < header.total_bytes:
            chunk, chunk_start, at = _read(file, position, max(chunk_bytes, header.total_bytes), end), position, 0
            if len(chunk) < header.total_bytes:
                raise TruncatedBatch(f"a batch of {header.total_bytes} bytes where {len(chunk)} could be read")
        if verify:
            check_crc(chunk, at, header)
        yield ScannedBatch(position, header, chunk[at : at + header.total_bytes])
        position += header.total_bytes


def _read(file: File, position: int, size: int, end: int) -> memoryview:
    return memoryview(file.read(position, min(size, end - position)))


class BatchBounds(NamedTuple):
    """The part of a header that a walk over batches needs."""

    base_offset: int
    next_offset: int
    total_bytes: int


def batch_bounds(buffer: Buffer, at: int) -> BatchBounds:
    """Return the bounds of the batch at `at`; Raise InvalidBatch if they are impossible."""
    try:
        base_offset, length, last_delta = _BOUNDS.unpack_from(buffer, at)
    except struct.error:
        raise TruncatedBatch(f"a header of {HEADER_BYTES} bytes where {len(buffer) - at} are left") from None
    if length < HEADER_BYTES - 12 or last_delta < 0 or base_offset < 0:
        raise InvalidBatch(f"impossible bounds: offset {base_offset}, length {length}, last delta {last_delta}")
    return BatchBounds(base_offset, base_offset + last_delta + 1, 12 + length)
