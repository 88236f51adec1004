"""The 61 bytes every batch begins with, byte for byte Kafka's v2 batch header, and the CRC-32C over what follows.

Offsets and the leader epoch precede the CRC and are not covered by it, so a leader can stamp a batch without reading
it. Pure.
"""

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import google_crc32c

from lograft.storage.batch.compression import BytesLike, Compression
from lograft.storage.errors import (
    BadAttributes,
    BadBatchLength,
    BadCrc,
    BadRecordCount,
    TruncatedBatch,
    UnknownCompression,
    UnknownMagic,
)

HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12  # base offset and length: what batchLength does not count
MAGIC_ROWS = 2
MAGIC_COLUMNS = 3
COLUMNS_PREFIX_BYTES = 3  # pad count and two zeros, between the header and a columns payload
MAX_OFFSET = 2**63 - 1
MAX_BATCH_LENGTH = 2**31 - 1
# Any two timestamps differ by what 64 bits hold, so that compaction can move every base timestamp.
MIN_TIMESTAMP = -(2**62)
MAX_TIMESTAMP = 2**62 - 1

COMPRESSION_MASK = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_BEFORE_CRC = struct.Struct(">qiibI")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_PRODUCER = struct.Struct(">qhi")
_CRC = struct.Struct(">I")
_CRC_START = 21
_PRODUCER_START = 43
_EPOCH_START = 12
_EPOCH_END = 16
_SMALLEST_BATCH_LENGTH = {
    MAGIC_ROWS: HEADER_BYTES - LENGTH_PREFIX_BYTES,
    MAGIC_COLUMNS: HEADER_BYTES + COLUMNS_PREFIX_BYTES - LENGTH_PREFIX_BYTES,
}


class BatchHeader(NamedTuple):
    """The header's fields in their order on disk. Timestamps are milliseconds."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def total_bytes(self) -> int:
        """The size of the whole batch, and so the distance to the next one."""
        return LENGTH_PREFIX_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's sequence number of the last record; sequences wrap at 2**31. -1 if there are none."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF if self.base_sequence >= 0 else -1

    @property
    def compression(self) -> Compression:
        """Raises UnknownCompression for a number no codec has."""
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError:
            raise UnknownCompression(f"compression number {self.attributes & COMPRESSION_MASK} is unknown") from None

    @property
    def is_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)


def parse_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """Return the header at `position`. Needs only the 61 bytes, and checks only what they show."""
    assert position >= 0
    if len(buffer) - position < HEADER_BYTES:
        raise TruncatedBatch(f"{len(buffer) - position} bytes at {position} are too few for a batch header")
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    smallest = _SMALLEST_BATCH_LENGTH.get(header.magic)
    if smallest is None:
        raise UnknownMagic(f"magic {header.magic} at {position} is unknown")
    if header.batch_length < smallest:
        raise BadBatchLength(f"batch length {header.batch_length} at {position} is below {smallest}")
    if header.magic == MAGIC_COLUMNS and header.total_bytes % 8:
        raise BadBatchLength(f"a columns batch of {header.total_bytes} bytes at {position} is not a multiple of 8")
    if not 0 <= header.record_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        raise BadRecordCount(
            f"{header.record_count} records at {position} do not fit last offset delta {header.last_offset_delta}"
        )
    if not 0 <= header.base_offset <= MAX_OFFSET - header.last_offset_delta - 1:
        raise BadAttributes(f"base offset {header.base_offset} at {position} is out of range")
    timestamps = (header.base_timestamp, header.max_timestamp)
    if min(timestamps) < MIN_TIMESTAMP or max(timestamps) > MAX_TIMESTAMP:
        raise BadAttributes(f"timestamps {timestamps} at {position} are out of range")
    return header


def checksum(buffer: BytesLike, start: int, end: int) -> int:
    """CRC-32C of buffer[start:end]."""
    # The extension does not accept a memoryview. The copy costs a seventh of the checksum. NumPy would avoid it, but is
    # not worth having in a broker: its import would block the loop for a tenth of a second at the first batch.
    return int(google_crc32c.value(bytes(memoryview(buffer)[start:end])))


def check_crc(buffer: BytesLike, position: int, header: BatchHeader) -> None:
    """Raise TruncatedBatch if the batch at `position` is incomplete, BadCrc if it is damaged."""
    end = position + header.total_bytes
    if end > len(buffer):
        raise TruncatedBatch(f"the batch at {position} needs {header.total_bytes} bytes, {len(buffer) - position} are")
    actual = checksum(buffer, position + _CRC_START, end)
    if actual != header.crc:
        raise BadCrc(f"the batch at {position} has CRC {actual:#010x}, its header says {header.crc:#010x}")


def stamp(batch: BytesLike, base_offset: int, leader_epoch: int) -> bytes:
    """Return a copy of `batch` with the two fields a leader assigns; the CRC covers neither and stays right."""
    view = memoryview(batch)
    return b"".join(
        (
            _OFFSET.pack(base_offset),
            view[_OFFSET.size : _EPOCH_START],
            _EPOCH.pack(leader_epoch),
            view[_EPOCH_END:],
        )
    )


def renumber(batch: BytesLike, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """Return a copy of `batch` that another producer sends; its CRC is computed anew."""
    copy = bytearray(batch)
    _PRODUCER.pack_into(copy, _PRODUCER_START, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(copy, _CRC_START - _CRC.size, checksum(copy, _CRC_START, len(copy)))
    return bytes(copy)


def pack_header(
    *,
    base_offset: int,
    leader_epoch: int,
    magic: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    body: Iterable[Any],
) -> bytes:
    """Return the header for a batch whose bytes from 61 on are `body`: parts of bytes, or of contiguous uint8
    arrays."""
    after_crc = _AFTER_CRC.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    crc = google_crc32c.value(after_crc)
    total_bytes = HEADER_BYTES
    for part in body:
        crc = google_crc32c.extend(crc, part)
        total_bytes += len(part)
    before_crc = _BEFORE_CRC.pack(base_offset, total_bytes - LENGTH_PREFIX_BYTES, leader_epoch, magic, crc)
    return before_crc + after_crc
