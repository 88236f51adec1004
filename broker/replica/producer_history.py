"""A leader's producer state at an earlier offset of its log: a follower that starts there needs it."""

from collections.abc import Sequence

from lograft.storage.errors import CorruptLog, SegmentRetired
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.log.truncation import find_cut


async def producers_at(log: PartitionLog, offset: int) -> bytes:
    """Return the producer state as of `offset`, where a batch starts, as `PartitionLog.reset` takes it.

    Meanwhile the log may be appended to, and its oldest segments may go. Raise `LogClosed` if it is closed.
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
    """The name of one that went, or was compacted, may have been another file's before it was read."""
    return log.generation == generation and not any(segment.retired for segment in segments)


async def _producers_at(log: PartitionLog, segments: Sequence[Segment], offset: int) -> bytes:
    disk, last = log.disk, segments[-1]
    # A copy: the index of the active segment grows on the loop while the other thread reads.
    index = SegmentIndex.decode(*(await log.index_of(last)).encode())
    await disk.writer.call(lambda: None)  # what the copy knows of is in the file
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
