"""The segments of one log and their producer snapshots: adding, replacing and removing them."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from lograft.runtime.disk.disk_writer import AppendObserver
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.log.partition_disk import Disk, PartitionDisk
from lograft.storage.state.producer_state import ProducerState


class SegmentList:
    """Sorted by base offset; never empty once `start` was called; only the last one is appended to."""

    def __init__(self, disk: Disk, operations: PartitionDisk, found: list[Segment], snapshots: list[int]) -> None:
        self._disk = disk
        self._operations = operations
        self._segments = found
        self.snapshots = snapshots

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, place: int) -> Segment:
        return self._segments[place]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def place_of(self, offset: int) -> int:
        """Return where the segment is that holds `offset`, or would."""
        return max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)

    def up_to(self, place: int) -> list[Segment]:
        return self._segments[: place + 1]

    def start_after(self, offset: int) -> int | None:
        """Return the base of the first segment that starts after `offset`."""
        place = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[place].base_offset if place < len(self._segments) else None

    # -- the active segment

    def start(self, base_offset: int, observer: AppendObserver) -> None:
        """Start a new active segment."""
        segment = Segment(self._operations.directory, base_offset, 0, SegmentIndex(base_offset))
        segment.append_file = self._disk.writer.create(segment.path, observer)
        self._segments.append(segment)

    def seal_active(self) -> Segment:
        """Seal the active segment; call `start` next."""
        sealed = self.active
        assert sealed.size_bytes > 0
        assert sealed.index is not None
        assert sealed.append_file is not None
        # The index records the segment's length and is durable before the next segment exists: recovery then detects a
        # crash that lost the segment's end without tearing a batch.
        self._operations.write_index(sealed, sealed.index.encode())
        self._disk.writer.release(sealed.append_file)
        sealed.seal()
        self._operations.afterwards(lambda: self._disk.segment_files.settle(sealed))
        return sealed

    def shorten(self, segment: Segment, index: SegmentIndex, observer: AppendObserver) -> None:
        """Make `segment` the active one, truncated to what `index` covers."""
        assert segment is self.active
        self._operations.remove_index(segment)
        if segment.append_file is None:
            handle = segment.handle
            assert handle is not None, "it is leased, so it is open"
            segment.append_file = self._disk.writer.adopt(handle, segment.size_bytes, observer)
        segment.index, segment.size_bytes = index, index.summary.size_bytes
        # The caller waits for the queue, and learns of a failure there.
        self._disk.writer.truncate(segment.append_file, segment.size_bytes).add_done_callback(_retrieve)

    # -- removing

    def retire_before(self, offset: int) -> None:
        """Remove segments wholly below `offset`, oldest first."""
        kept = self.place_of(offset)
        self._retire(self._segments[:kept])
        del self._segments[:kept]
        self.drop_snapshots(lambda snapshot: snapshot < self._segments[0].base_offset)

    def retire_after(self, place: int) -> None:
        """Remove segments after the one at `place` (-1: all), newest first, so that no crash leaves a hole."""
        self._retire(self._segments[place + 1 :][::-1])
        del self._segments[place + 1 :]

    def replace(self, old: Sequence[Segment], new: Segment, cleaned: str) -> "asyncio.Future[None]":
        """Replace `old` by `new`; the files of both are open. The file of `new` is named `cleaned` until the result
        resolves.

        Do not close it before: its final name still belongs to the first of `old`.
        """
        place = self._segments.index(old[0])
        limit = place + len(old)
        assert self._segments[place:limit] == list(old)
        assert limit < len(self._segments), "the active segment stays"
        assert new.handle is not None
        assert new.leases > 0
        assert new.index is not None
        swapped = self._operations.swap_in(cleaned, new.base_offset, self._segments[limit].base_offset)
        self._operations.write_index(new, new.index.encode())
        self._segments[place:limit] = [new]
        for segment in old:
            segment.retired = True
            self._disk.segment_files.settle(segment)
        return swapped

    def _retire(self, segments: list[Segment]) -> None:
        """Retire segments. The queue deletes their files; the files close with their last reader."""
        if not segments:
            return
        for segment in segments:
            segment.retired = True
            if segment.append_file is not None:
                self._disk.writer.release(segment.append_file)
                segment.seal()

        def settle() -> None:
            for segment in segments:
                if self._disk.writer.failure is not None:
                    segment.size_bytes = segment.written_bytes  # the rest is never written
                self._disk.segment_files.settle(segment)

        self._operations.remove_segments(segments)
        self._operations.afterwards(settle)

    # -- producer snapshots

    def snapshot_producers(self, offset: int, producers: ProducerState) -> None:
        """Write the producer state as of `offset`; keep that and the snapshot of each segment's start, delete
        others."""
        bases = [segment.base_offset for segment in self._segments]
        self._operations.write_producers(offset, producers.encode())
        self.drop_snapshots(lambda snapshot: snapshot not in bases and snapshot != offset)
        if offset not in self.snapshots:
            self.snapshots.append(offset)

    def drop_snapshots(self, is_dropped: Callable[[int], bool]) -> None:
        self._operations.remove_snapshots(list(filter(is_dropped, self.snapshots)))
        self.snapshots = [offset for offset in self.snapshots if not is_dropped(offset)]

    def close(self) -> None:
        """Close every file that no reader holds; the rest close with their last lease."""
        for segment in self._segments:
            segment.retired = True
            if segment.append_file is not None:
                segment.seal()
            if self._disk.writer.failure is not None:
                segment.size_bytes = segment.written_bytes  # the rest never comes
            self._disk.segment_files.settle(segment)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _retrieve(answer: "asyncio.Future[None]") -> None:
    if not answer.cancelled():
        answer.exception()
