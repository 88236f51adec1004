"""Sparse indexes of a segment: offset to position, and time to offset. Rebuilt from the batches if missing or wrong.
Pure."""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from lograft.storage.batch.header import BatchHeader
from lograft.storage.files.sealed_file import BrokenSeal, seal, unseal

_SUMMARY = struct.Struct(">qqqqq")
_OFFSET_ENTRY = struct.Struct(">II")
_TIME_ENTRY = struct.Struct(">qI")
OFFSET_INDEX_KIND = "lograft-offset-index-1"
TIME_INDEX_KIND = "lograft-time-index-1"
NO_TIMESTAMP = -1
SUMMARY_BYTES = _SUMMARY.size  # at the beginning of an `.index` file
MAX_OFFSET_SPAN = 2**32 - 1  # the range of an entry


@dataclass(slots=True)
class SegmentSummary:
    """Facts about a segment that need no reading of it. Invariant: covers exactly the first `size_bytes` of the
    file."""

    base_offset: int
    next_offset: int  # one past the last batch; the base offset while empty
    size_bytes: int = 0
    first_append_ms: int = NO_TIMESTAMP  # wall clock; segments roll by their age
    max_timestamp: int = NO_TIMESTAMP

    def encode(self) -> bytes:
        return _SUMMARY.pack(
            self.base_offset, self.next_offset, self.size_bytes, self.first_append_ms, self.max_timestamp
        )

    @classmethod
    def decode(cls, content: bytes) -> "SegmentSummary":
        """Raise ValueError if the data is too short."""
        if len(content) < _SUMMARY.size:
            raise ValueError(f"a summary has {_SUMMARY.size} bytes, not {len(content)}")
        return cls(*_SUMMARY.unpack_from(content))


class SegmentIndex:
    """Both indexes of one segment, and its summary; grows with each batch.

    Offset entries: a batch's base offset (relative to the segment's) and its position, one every `interval_bytes`.
    Time entries: a running maximum of timestamps, and the first offset at which a later timestamp may occur.
    """

    def __init__(self, base_offset: int) -> None:
        self.summary = SegmentSummary(base_offset, base_offset)
        self._offsets = array("I")
        self._positions = array("I")
        self._timestamps = array("q")
        self._time_offsets = array("I")
        self._unindexed_bytes = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, header: BatchHeader, now_ms: int, interval_bytes: int) -> None:
        """Add a batch that was appended at the end."""
        base_offset = header.base_offset
        summary = self.summary
        assert base_offset >= summary.next_offset
        if summary.size_bytes == 0:
            summary.first_append_ms = now_ms
        if summary.size_bytes == 0 or self._unindexed_bytes >= interval_bytes:
            relative = base_offset - summary.base_offset
            self._offsets.append(relative)
            self._positions.append(summary.size_bytes)
            if not self._timestamps or summary.max_timestamp > self._timestamps[-1]:
                # No earlier record exceeds the maximum so far: a search for later times may start here.
                self._timestamps.append(summary.max_timestamp)
                self._time_offsets.append(relative)
            self._unindexed_bytes = 0
        size_bytes = header.total_bytes
        self._unindexed_bytes += size_bytes
        summary.size_bytes += size_bytes
        summary.next_offset = header.next_offset
        if header.record_count and header.max_timestamp > summary.max_timestamp:
            summary.max_timestamp = header.max_timestamp

    def position_at_or_before(self, offset: int) -> int:
        """Return the position of an indexed batch whose base is at most `offset`; the start if there is none."""
        return self.batch_at_or_before(offset)[1]

    def batch_at_or_before(self, offset: int) -> tuple[int, int]:
        """Return the base and position of an indexed batch whose base is at most `offset`; the start if there is
        none."""
        at = bisect_right(self._offsets, offset - self.summary.base_offset) - 1
        if at < 0:
            return self.summary.base_offset, 0
        return self.summary.base_offset + self._offsets[at], self._positions[at]

    def position_at_or_after(self, offset: int) -> int:
        """Return the position of the first indexed batch whose base is at least `offset`; the end if there is none."""
        at = bisect_left(self._offsets, offset - self.summary.base_offset)
        return self._positions[at] if at < len(self._positions) else self.summary.size_bytes

    def boundary_after(self, position: int, limit: int) -> int:
        """Return the last known batch boundary in (position, limit], or the first one after `limit` if there is
        none."""
        if self.summary.size_bytes <= limit:
            return self.summary.size_bytes
        at = bisect_right(self._positions, limit) - 1
        if at >= 0 and self._positions[at] > position:
            return self._positions[at]
        at += 1
        return self._positions[at] if at < len(self._positions) else self.summary.size_bytes

    def last_position_within(self, position: int, limit: int) -> int:
        """Return the last indexed batch start in [position, limit], or `position` itself, which must be a batch's
        start."""
        at = bisect_right(self._positions, limit) - 1
        return max(position, self._positions[at]) if at >= 0 else position

    def offset_to_search_from(self, timestamp: int) -> int:
        """No record before this offset has a timestamp of at least `timestamp`."""
        at = bisect_left(self._timestamps, timestamp) - 1
        return self.summary.base_offset + (self._time_offsets[at] if at >= 0 else 0)

    def rewound_before(self, offset: int) -> "SegmentIndex":
        """Return a copy as it was before the last indexed batch whose base is below `offset` was added (or the first
        one)."""
        kept = max(bisect_left(self._offsets, offset - self.summary.base_offset) - 1, 0)
        index = SegmentIndex(self.summary.base_offset)
        if kept == 0:
            index.summary.first_append_ms = self.summary.first_append_ms
            return index
        kept_times = bisect_right(self._time_offsets, self._offsets[kept])
        index._offsets, index._positions = self._offsets[:kept], self._positions[:kept]
        index._timestamps, index._time_offsets = self._timestamps[:kept_times], self._time_offsets[:kept_times]
        index.summary = SegmentSummary(
            self.summary.base_offset,
            self._offsets[kept - 1] + self.summary.base_offset + 1,  # a lower bound; exact once a batch is added
            self._positions[kept],
            self.summary.first_append_ms,
            self._timestamps[kept_times - 1],
        )
        index._unindexed_bytes = sys.maxsize  # so that the batch that was indexed there is indexed again
        return index

    def encode(self) -> tuple[bytes, bytes]:
        """Return the contents of the `.index` and the `.timeindex` file."""
        summary = self.summary.encode()
        offsets = _interleave(self._offsets, self._positions)
        times = b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._time_offsets))
        return seal(OFFSET_INDEX_KIND, summary + offsets), seal(TIME_INDEX_KIND, summary + times)

    @classmethod
    def decode(cls, offset_file: bytes, time_file: bytes) -> "SegmentIndex":
        """Return the inverse of `encode`; Raise BrokenSeal if a file is damaged or they belong to different
        segments."""
        body = unseal(OFFSET_INDEX_KIND, offset_file)
        summary = SegmentSummary.decode(body)
        other, times = decode_time_index(time_file)
        if other != summary:
            raise BrokenSeal("the offset index and the time index describe different segments")
        index = cls(summary.base_offset)
        index.summary = summary
        index._offsets, index._positions = _deinterleave(body[_SUMMARY.size :])
        index._timestamps = array("q", (entry[0] for entry in times))
        index._time_offsets = array("I", (entry[1] for entry in times))
        index._unindexed_bytes = summary.size_bytes - (index._positions[-1] if index._positions else 0)
        return index


def _interleave(offsets: "array[int]", positions: "array[int]") -> bytes:
    """Return the entries of an offset index as bytes: `_OFFSET_ENTRY` for each pair, without a step per entry."""
    entries = array("I", bytes(len(offsets) * _OFFSET_ENTRY.size))
    entries[0::2], entries[1::2] = offsets, positions
    if sys.byteorder == "little":
        entries.byteswap()
    return entries.tobytes()


def _deinterleave(content: bytes) -> tuple["array[int]", "array[int]"]:
    entries = array("I")
    entries.frombytes(content)
    if sys.byteorder == "little":
        entries.byteswap()
    return entries[0::2], entries[1::2]


def decode_offset_index(content: bytes) -> tuple[SegmentSummary, list[tuple[int, int]]]:
    """Return the summary and the (relative offset, position) entries of an `.index` file."""
    body = unseal(OFFSET_INDEX_KIND, content)
    return SegmentSummary.decode(body), list(_OFFSET_ENTRY.iter_unpack(body[_SUMMARY.size :]))


def decode_time_index(content: bytes) -> tuple[SegmentSummary, list[tuple[int, int]]]:
    """Return the summary and the (timestamp, relative offset) entries of a `.timeindex` file."""
    body = unseal(TIME_INDEX_KIND, content)
    return SegmentSummary.decode(body), list(_TIME_ENTRY.iter_unpack(body[_SUMMARY.size :]))
