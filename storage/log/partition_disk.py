"""The file operations of one partition, in the order of its disk's queue; `recovery.py` handles what a crash leaves of
them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from lograft.runtime.blocking import Blocking
from lograft.runtime.clock import Clock
from lograft.runtime.disk.disk_writer import DiskWriter
from lograft.runtime.files import Files, replace_file
from lograft.storage.files.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PRODUCERS_SUFFIX,
    TIME_INDEX_SUFFIX,
    numbered,
    swap_name,
)
from lograft.storage.files.segment import Segment, SegmentFiles, write_index
from lograft.storage.log.recovery import complete_swap, write_producers
from lograft.storage.state.checkpoint import CHECKPOINT_FILE, EPOCHS_FILE, Checkpoint, encode_epochs
from lograft.storage.state.disk_space import DiskSpace
from lograft.storage.state.epoch_cache import EpochCache


@dataclass(frozen=True, slots=True)
class Disk:
    """Resources that all partitions of one data directory share."""

    files: Files
    blocking: Blocking
    clock: Clock
    writer: DiskWriter
    segment_files: SegmentFiles
    space: DiskSpace = field(default_factory=DiskSpace)


class PartitionDisk:
    """Queues a partition's changes on disk. Calls return at once; the changes happen in the order of the calls.

    Contents are captured by the call, so later changes on the loop do not reach the disk by accident.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._files = disk.writer.files
        self._writer = disk.writer
        self.directory = directory

    def replace_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._replace(CHECKPOINT_FILE, checkpoint.encode())

    def replace_epochs(self, epochs: EpochCache) -> None:
        self._replace(EPOCHS_FILE, encode_epochs(epochs))

    def write_producers(self, offset: int, content: bytes) -> None:
        self._writer.enqueue(lambda: write_producers(self._files, self.directory, offset, content))

    def write_index(self, segment: Segment, encoded: tuple[bytes, bytes]) -> None:
        """Write an index. Ignore a full disk: an index can be rebuilt."""
        if self._writer.failure is None:
            self._writer.enqueue(lambda: write_index(self._files, segment, encoded))

    def remove_segments(self, segments: Sequence[Segment]) -> None:
        """Remove segments with their indexes, in the order given."""
        names = [
            numbered(segment.base_offset, suffix)
            for segment in segments
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
        ]
        self._writer.enqueue(partial(self._remove_now, names))

    def swap_in(self, cleaned: str, base_offset: int, limit: int) -> "asyncio.Future[None]":
        """Replace all segments with a base in [base_offset, limit) by the synced file `cleaned`."""
        name = swap_name(base_offset, limit)

        def swap() -> None:
            if self._files.exists(cleaned):  # else the rename is done, and the later steps are repeated
                self._files.rename(cleaned, f"{self.directory}/{name}")
            self._files.sync_directory(self.directory)  # from here on recovery completes the swap after a crash
            names = self._files.list_directory(self.directory)
            complete_swap(self._files, self.directory, name, base_offset, limit, names)

        return self._writer.call(swap)

    def remove_index(self, segment: Segment) -> None:
        names = [numbered(segment.base_offset, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        self._writer.enqueue(partial(self._remove_now, names))

    def remove_snapshots(self, offsets: Sequence[int]) -> None:
        if offsets:
            names = [numbered(offset, PRODUCERS_SUFFIX) for offset in offsets]
            self._writer.enqueue(partial(self._remove_now, names))

    def afterwards(self, then: Callable[[], None]) -> None:
        """Call `then` on the loop once all earlier operations are done or have failed."""

        def done(answer: asyncio.Future[None]) -> None:
            if not answer.cancelled():
                answer.exception()  # a failure is the writer's to report
            then()

        self._writer.call(lambda: None).add_done_callback(done)

    async def barrier(self) -> None:
        """Wait until all earlier operations are done."""
        await self._writer.call(lambda: None)

    def _replace(self, name: str, content: bytes) -> None:
        self._writer.enqueue(lambda: replace_file(self._files, f"{self.directory}/{name}", content))

    def _remove_now(self, names: list[str]) -> None:
        for name in names:
            path = f"{self.directory}/{name}"
            if self._files.exists(path):
                self._files.remove(path)
        self._files.sync_directory(self.directory)
