"""Retention: delete the oldest segments by age and by size, as Kafka decides it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lograft.storage.errors import SegmentRetired
from lograft.storage.files.segment_index import NO_TIMESTAMP, SegmentSummary
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_log import PartitionLog

KEEP_FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class RetainedSegment:
    """The facts retention needs about a segment. Invariant: the next one starts at `end_offset`."""

    end_offset: int
    size_bytes: int
    latest_ms: int | None  # None while unknown, which counts as young


def latest_ms(summary: SegmentSummary) -> int:
    """Return the time that decides a segment's age: its newest record's, or its first append if no record is left."""
    return summary.first_append_ms if summary.max_timestamp == NO_TIMESTAMP else summary.max_timestamp


def is_expired(latest_ms: int | None, config: LogConfig, now_ms: int) -> bool:
    """Return True if a segment is past `retention.ms`."""
    if config.retention_ms == KEEP_FOR_EVER or latest_ms is None:
        return False
    return now_ms - latest_ms > config.retention_ms


def retention_start(
    segments: Sequence[RetainedSegment], config: LogConfig, now_ms: int, bound: int, start_offset: int
) -> int:
    """Return the new log start: `start_offset`, as before, or the start of a later segment.

    Delete only whole leading segments that end at or below `bound`. By size, delete while the rest still has
    `retention.bytes`: a log keeps that much, and up to a segment more.
    """
    if not config.cleanup_delete:
        return start_offset
    left_bytes = sum(segment.size_bytes for segment in segments)
    for segment in segments:
        left_bytes -= segment.size_bytes
        is_surplus = config.retention_bytes != KEEP_FOR_EVER and left_bytes >= config.retention_bytes
        if segment.end_offset > bound or segment.size_bytes == 0:
            break
        if not is_surplus and not is_expired(segment.latest_ms, config, now_ms):
            break
        start_offset = max(start_offset, segment.end_offset)
    return start_offset


async def apply_retention(log: PartitionLog, now_ms: int, bound: int) -> int:
    """Delete the oldest segments as `retention.ms` and `retention.bytes` require. Return the number of bytes deleted.

    Never touch anything at or above `bound`, the high watermark. Roll an active segment before deleting it, so that the
    log continues. Do nothing while the log is being truncated, reset or closed.
    """
    if not log.config.cleanup_delete:
        return 0
    await _learn_ages(log, now_ms)
    if log.is_exclusive:
        return 0
    # No await from here on: the decision must match the log it is carried out on.
    start_offset = retention_start(_segments(log), log.config, now_ms, bound, log.start_offset)
    if start_offset == log.start_offset:
        return 0
    if start_offset > log.segments.active.base_offset:
        log.roll()
    size_before = log.size_bytes
    log.delete_prefix(start_offset)
    return size_before - log.size_bytes


async def _learn_ages(log: PartitionLog, now_ms: int) -> None:
    """Load the indexes of the leading segments that are expired, and of the first that is not."""
    for segment in list(log.segments):
        try:
            index = await log.index_of(segment)
        except SegmentRetired:
            continue  # it was removed by another operation
        if not is_expired(latest_ms(index.summary), log.config, now_ms):
            return


def _segments(log: PartitionLog) -> list[RetainedSegment]:
    ends = [*(after.base_offset for _, after in pairwise(log.segments)), log.end_offset]
    return [
        RetainedSegment(end, segment.size_bytes, None if segment.index is None else latest_ms(segment.index.summary))
        for segment, end in zip(log.segments, ends, strict=True)
    ]
