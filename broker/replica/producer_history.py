"""A leader's producer state at an earlier offset of its log, for a follower that starts there."""

from collections.abc import Sequence

from lograft.storage.errors import CorruptLog, SegmentRetired
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.log.truncation import find_cut


async def producers_at(log: PartitionLog, offset: int) -> bytes:
    """Return the producer state as of `offset`, where a batch starts, in the form that `PartitionLog.reset` accepts.

    The log may be appended to meanwhile, and lose its oldest segments. Raise `LogClosed` if it is closed.
    """
    while True:
        log.check_open()
        if offset >= log.end_offset:
            return log.producers.encode()
        segments, generation = log.segments.up_to(log.segments.place_of(offset)), log.generation
        try:
            found = await _producers_at(log, segments, offset)
        except (SegmentRetired, FileNotFoundError, CorruptLog):
            if _are_as_they_were(log, segments, generation):
                raise
        else:
            if _are_as_they_were(log, segments, generation):
                return found


def _are_as_they_were(log: PartitionLog, segments: Sequence[Segment], generation: int) -> bool:
    """Return whether the segments are unchanged: the file of a deleted or compacted segment may have been replaced
    before it was read."""
    return log.generation == generation and not any(segment.retired for segment in segments)


async def _producers_at(log: PartitionLog, segments: Sequence[Segment], offset: int) -> bytes:
    disk, last = log.disk, segments[-1]
    # Copy the index: that of the active segment grows on the event loop while the worker reads.
    index = SegmentIndex.decode(*(await log.index_of(last)).encode())
    await disk.writer.call(lambda: None)  # wait until the file has all that the copy lists
    file = await disk.segment_files.lease(last)
    try:
        cut = await disk.blocking.run_blocking(
            find_cut,
            disk.files,
            segments,
            file,
            index,
            offset,
            tuple(log.segments.snapshots),
            log.config.index_interval_bytes,
            disk.clock.monotonic_ms(),
        )
    finally:
        disk.segment_files.release(last)
    return cut.producers.encode()
