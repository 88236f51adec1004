"""How much of a log its retention lets go: oldest segments first, by age and by size, as Kafka decides it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lograft.storage.files.segment_index import NO_TIMESTAMP, SegmentSummary
from lograft.storage.log.log_config import LogConfig

KEEP_FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class RetainedSegment:
    """What retention asks about a segment. Invariant: the next one starts at `end_offset`."""

    end_offset: int
    size_bytes: int
    latest_ms: int | None  # None while it is not known, which counts as young


def latest_ms(summary: SegmentSummary) -> int:
    """How old a segment is: its newest record's time, or, when it has no records left, the time it was begun."""
    return summary.first_append_ms if summary.max_timestamp == NO_TIMESTAMP else summary.max_timestamp


def is_expired(latest_ms: int | None, config: LogConfig, now_ms: int) -> bool:
    """Is a segment past `retention.ms`?"""
    if config.retention_ms == KEEP_FOR_EVER or latest_ms is None:
        return False
    return now_ms - latest_ms > config.retention_ms


def retention_start(
    segments: Sequence[RetainedSegment], config: LogConfig, now_ms: int, bound: int, start_offset: int
) -> int:
    """Where the log may start from now on: at `start_offset`, as before, or where a later segment begins.

    Only leading segments go, and only whole ones that end at or below `bound`. By size they go while what is left
    still has `retention.bytes`: a log keeps that much, and up to a segment more.
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
