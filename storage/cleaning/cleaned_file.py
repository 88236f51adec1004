"""The file that compaction writes: a new segment with its index. Blocking; one thread at a time."""

import contextlib
from dataclasses import dataclass

from lograft.runtime.files import Buffer, File, Files
from lograft.storage.batch.header import parse_header
from lograft.storage.cleaning.batch_cleaner import BatchCleaner
from lograft.storage.errors import CorruptLog, InvalidBatch
from lograft.storage.files.batch_scan import scan_batches
from lograft.storage.files.file_names import CLEANED_SUFFIX
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.inspect.batch_check import PlaceCheck

WRITE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A segment to read once from start to end, as it was when opened."""

    file: File
    path: str
    size_bytes: int
    places: PlaceCheck


class CleanedFile:
    """The compacted copy of some segments. It can be discarded until it replaces them."""

    def __init__(self, files: Files, first: Segment, first_append_ms: int, interval_bytes: int) -> None:
        self.path = first.path_of(CLEANED_SUFFIX)
        self.index = SegmentIndex(first.base_offset)
        self.is_changed = False  # True if the copy differs from the segments copied so far
        self._files = files
        self._first_append_ms = first_append_ms
        self._interval_bytes = interval_bytes
        self._file: File | None = None
        self._unwritten: list[Buffer] = []
        self._unwritten_bytes = 0
        self._written_bytes = 0

    @property
    def file(self) -> File:
        assert self._file is not None, "create comes first"
        return self._file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def hand_over(self) -> File:
        """Hand the file over: its new owner closes it."""
        file, self._file = self.file, None
        return file

    def create(self) -> None:
        self._file = self._files.create(self.path)

    def copy(self, source: SegmentSource, is_last: bool, start: int, limit_bytes: int, cleaner: BatchCleaner) -> int:
        """Clean batches of `source` from `start` on, about `limit_bytes` of them. Return the start of the next one.

        Keep the last batch of the last source in some form. Raise CorruptLog if a batch is damaged.
        """
        position, size = start, source.size_bytes
        try:
            for found in scan_batches(source.file, start, size):
                source.places.check(found.header)
                position = found.end_position
                cleaned = cleaner.clean(found.header, found.content, is_last=is_last and position == size)
                self.is_changed = self.is_changed or cleaned is not found.content
                if cleaned is not None:
                    self._append(cleaned)
                if position - start >= limit_bytes:
                    break
        except InvalidBatch as error:
            raise CorruptLog(source.path, position, str(error)) from error
        return position

    def _append(self, batch: Buffer) -> None:
        self.index.add(parse_header(batch), self._first_append_ms, self._interval_bytes)
        self._unwritten.append(batch)
        self._unwritten_bytes += len(batch)
        if self._unwritten_bytes >= WRITE_BYTES:
            self.write()

    def write(self) -> None:
        """Write buffered batches."""
        if self._unwritten:
            self.file.write(self._written_bytes, self._unwritten)
            self._written_bytes += self._unwritten_bytes
            self._unwritten, self._unwritten_bytes = [], 0

    def discard(self) -> None:
        """Remove the file. Recovery removes it if this fails."""
        with contextlib.suppress(OSError):
            self.hand_over().close()
            self._files.remove(self.path)
