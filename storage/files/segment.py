"""One segment of a log, and the open files of all of them."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from lograft.runtime.blocking import Blocking, run_to_end
from lograft.runtime.disk.disk_writer import AppendFile
from lograft.runtime.files import File, Files, read_whole, replace_file
from lograft.storage.errors import CorruptLog, InvalidBatch, SegmentRetired
from lograft.storage.files.batch_scan import scan_batches
from lograft.storage.files.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, numbered
from lograft.storage.files.segment_index import MAX_OFFSET_SPAN, SUMMARY_BYTES, SegmentIndex, SegmentSummary


class Segment:
    """A run of batches in one file. The active segment has an `append_file` and always an index; the others load theirs
    on demand."""

    __slots__ = (
        "_handle",
        "_sealed_file",
        "append_file",
        "base_offset",
        "directory",
        "index",
        "leases",
        "retired",
        "size_bytes",
    )

    def __init__(self, directory: str, base_offset: int, size_bytes: int, index: SegmentIndex | None) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.index = index
        self.append_file: AppendFile | None = None
        self.leases = 0
        self.retired = False  # no longer part of its log; its file closes with the last lease
        self._handle: File | None = None
        self._sealed_file: AppendFile | None = None

    @property
    def path(self) -> str:
        return self.path_of(LOG_SUFFIX)

    def path_of(self, suffix: str) -> str:
        return f"{self.directory}/{numbered(self.base_offset, suffix)}"

    @property
    def has_index(self) -> bool:
        return self.index is not None

    @property
    def handle(self) -> File | None:
        """The open file, if it is open."""
        file = self.append_file or self._sealed_file
        return self._handle if file is None else file.opened

    @property
    def written_bytes(self) -> int:
        """The readable size of the file; the writer has not written the rest yet."""
        file = self.append_file or self._sealed_file
        return self.size_bytes if file is None else file.written

    def seal(self) -> None:
        """Stop appending. The writer may not have written the last batches yet."""
        self._sealed_file, self.append_file = self.append_file, None

    def attach(self, handle: File) -> None:
        assert self.handle is None
        self._handle, self._sealed_file = handle, None

    def close(self) -> None:
        handle = self.handle
        self._handle = self._sealed_file = self.append_file = None
        if handle is not None:
            handle.close()


class SegmentFiles:
    """Opens segments for reading and indexes for searching; keeps at most `max_open` sealed segments open.

    A segment stays readable under a lease, even if it is removed or replaced meanwhile.
    """

    def __init__(self, files: Files, blocking: Blocking, max_open: int = 1024) -> None:
        self._files = files
        self._blocking = blocking
        self._max_open = max_open
        self._idle: OrderedDict[Segment, None] = OrderedDict()  # open, sealed and without a lease; oldest first

    async def lease(self, segment: Segment) -> File:
        """Return the segment's file, open until `release`. `SegmentRetired` if it left the log before."""
        # Count the lease before opening the file: if the segment is replaced meanwhile, existing leases keep it open,
        # and nobody opens the replacement by its name instead.
        segment.leases += 1
        self._idle.pop(segment, None)
        try:
            return segment.handle or await self._open(segment)
        except BaseException:
            self.release(segment)
            raise

    async def _open(self, segment: Segment) -> File:
        if segment.retired:
            raise SegmentRetired(segment.path)
        try:
            opened = await run_to_end(self._blocking, self._files.open, segment.path, dispose=lambda file: file.close())
        except FileNotFoundError:
            if segment.handle is not None:
                return segment.handle
            if segment.retired:
                raise SegmentRetired(segment.path) from None
            raise CorruptLog(segment.path, None, "the file is gone") from None
        if segment.handle is None:
            segment.attach(opened)
            return opened
        opened.close()  # another caller opened it meanwhile
        return segment.handle

    def release(self, segment: Segment) -> None:
        segment.leases -= 1
        assert segment.leases >= 0
        self.settle(segment)

    def settle(self, segment: Segment) -> None:
        """Close files that are not needed. Called when a lease ends, or a segment is sealed or retired."""
        if segment.leases > 0 or segment.handle is None:
            return
        if segment.append_file is not None or segment.written_bytes < segment.size_bytes:
            return  # still in use by the writer
        if segment.retired:
            self._idle.pop(segment, None)
            segment.close()
            return
        self._idle[segment] = None
        self._idle.move_to_end(segment)
        while len(self._idle) > self._max_open:
            oldest, _ = self._idle.popitem(last=False)
            oldest.close()

    async def index_of(
        self, segment: Segment, interval_bytes: int, on_rebuilt: Callable[[Segment, tuple[bytes, bytes]], None]
    ) -> SegmentIndex:
        """Return the segment's index, loaded, or rebuilt from its batches if its files are missing or wrong.

        `SegmentRetired` as for `lease`, `CorruptLog` if the batches are damaged.
        """
        if segment.index is None:
            file = await self.lease(segment)
            try:
                load = partial(load_index, self._files, segment, file, interval_bytes)
                index, is_rebuilt = await self._blocking.run_blocking(load)
            except CorruptLog:
                # Discard it if the segment was truncated (and so has an index again) or removed while it was read.
                if segment.retired:
                    raise SegmentRetired(segment.path) from None
                if not segment.has_index:
                    raise
                return await self.index_of(segment, interval_bytes, on_rebuilt)
            finally:
                self.release(segment)
            if segment.index is None:
                segment.index = index
                if is_rebuilt and not segment.retired:
                    on_rebuilt(segment, index.encode())
        return segment.index


def load_index(files: Files, segment: Segment, file: File, interval_bytes: int) -> tuple[SegmentIndex, bool]:
    """Return the index of a sealed segment from its files, or rebuilt from its batches (then also True). Blocking."""
    index = read_index(files, segment)
    if index is not None and index.summary.size_bytes == segment.size_bytes:
        return index, False
    if index is not None and index.summary.size_bytes > segment.size_bytes:
        # Truncation removes the index of a segment before it cuts the segment.
        reason = f"it has {segment.size_bytes} bytes, and had {index.summary.size_bytes}"
        raise CorruptLog(segment.path, segment.size_bytes, reason)
    return rebuild_index(file, segment, interval_bytes), True


def read_index(files: Files, segment: Segment) -> SegmentIndex | None:
    """Return the index from its files if both are present, sound and of this segment. Blocking."""
    try:
        offset_file = read_whole(files, segment.path_of(INDEX_SUFFIX))
        time_file = read_whole(files, segment.path_of(TIME_INDEX_SUFFIX))
        index = SegmentIndex.decode(offset_file, time_file)
    except (FileNotFoundError, ValueError):
        return None
    return index if index.summary.base_offset == segment.base_offset else None


def read_summary(files: Files, segment: Segment) -> SegmentSummary | None:
    """Return the summary at the beginning of the index file, unchecked; None if it is missing. Blocking."""
    try:
        file = files.open(segment.path_of(INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    try:
        return SegmentSummary.decode(file.read(0, SUMMARY_BYTES))
    except ValueError:
        return None
    finally:
        file.close()


def rebuild_index(file: File, segment: Segment, interval_bytes: int) -> SegmentIndex:
    """Rebuild the index of a sealed segment from its batches. Raise CorruptLog if one is damaged. Blocking."""
    index = SegmentIndex(segment.base_offset)
    try:
        for batch in scan_batches(file, 0, segment.size_bytes):
            header = batch.header
            if not index.summary.next_offset <= header.base_offset <= segment.base_offset + MAX_OFFSET_SPAN:
                raise InvalidBatch(f"offset {header.base_offset} after {index.summary.next_offset - 1}")
            index.add(header, header.max_timestamp, interval_bytes)
    except InvalidBatch as error:
        raise CorruptLog(segment.path, index.summary.size_bytes, str(error)) from error
    return index


def write_index(files: Files, segment: Segment, encoded: tuple[bytes, bytes]) -> None:
    """Durably replace both index files with the output of `SegmentIndex.encode`. Blocking."""
    offset_file, time_file = encoded
    replace_file(files, segment.path_of(INDEX_SUFFIX), offset_file)
    replace_file(files, segment.path_of(TIME_INDEX_SUFFIX), time_file)
