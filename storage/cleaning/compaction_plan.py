"""The plan of a compaction: the cleanable segments, whether cleaning is worthwhile, and their groups. Pure."""

from collections.abc import Sequence

from lograft.storage.files.segment_index import SegmentIndex, SegmentSummary

MAX_GROUP_SEGMENTS = 64  # all segments of a group are open at once


def count_cleanable(summaries: Sequence[SegmentSummary], bound: int, now_ms: int, min_lag_ms: int) -> int:
    """Return how many of these, the oldest, may be cleaned: all below `bound`, and none younger than the lag."""
    for count, summary in enumerate(summaries):
        is_young = min_lag_ms > 0 and now_ms - summary.max_timestamp < min_lag_ms
        if summary.next_offset > bound or is_young:
            return count
    return len(summaries)


def is_worthwhile(indexes: Sequence[SegmentIndex], first_dirty: int, min_dirty_ratio: float) -> bool:
    """Return True if enough of these segments is dirty, that is, at or above `first_dirty`."""
    total_bytes = sum(index.summary.size_bytes for index in indexes)
    dirty_bytes = sum(index.summary.size_bytes - clean_bytes(index, first_dirty) for index in indexes)
    return dirty_bytes > 0 and dirty_bytes >= min_dirty_ratio * total_bytes


def clean_bytes(index: SegmentIndex, first_dirty: int) -> int:
    """Return how much of a segment, to the precision of its index, lies below `first_dirty`."""
    if index.summary.next_offset <= first_dirty:
        return index.summary.size_bytes
    return index.position_at_or_before(first_dirty)


def group_segments(summaries: Sequence[SegmentSummary], max_bytes: int, max_offsets: int) -> list[slice]:
    """Return runs of adjacent segments, each of which fits into one segment."""
    groups: list[slice] = []
    start, size_bytes = 0, 0
    for place, summary in enumerate(summaries):
        is_full = (
            size_bytes + summary.size_bytes > max_bytes
            or summary.next_offset - summaries[start].base_offset > max_offsets
            or place - start == MAX_GROUP_SEGMENTS
        )
        if is_full and place > start:
            groups.append(slice(start, place))
            start, size_bytes = place, 0
        size_bytes += summary.size_bytes
    if start < len(summaries):
        groups.append(slice(start, len(summaries)))
    return groups
