"""Retention carried out: what `retention_plan` lets go of leaves the log."""

from itertools import pairwise

from lograft.storage.cleaning.retention_plan import RetainedSegment, is_expired, latest_ms, retention_start
from lograft.storage.errors import SegmentRetired
from lograft.storage.log.partition_log import PartitionLog


async def apply_retention(log: PartitionLog, now_ms: int, bound: int) -> int:
    """Delete the oldest segments as `retention.ms` and `retention.bytes` say; how many bytes went.

    Nothing at or above `bound`, the high watermark, is touched. An active segment that is to go is rolled first, so
    that the log goes on. Nothing is done while the log is being cut, reset or closed.
    """
    if not log.config.cleanup_delete:
        return 0
    await _learn_ages(log, now_ms)
    if log.is_exclusive:
        return 0
    # From here on there is no await: the decision is about the log as it is when it is carried out.
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
            continue  # it went by other means
        if not is_expired(latest_ms(index.summary), log.config, now_ms):
            return


def _segments(log: PartitionLog) -> list[RetainedSegment]:
    ends = [*(after.base_offset for _, after in pairwise(log.segments)), log.end_offset]
    return [
        RetainedSegment(end, segment.size_bytes, None if segment.index is None else latest_ms(segment.index.summary))
        for segment, end in zip(log.segments, ends, strict=True)
    ]
