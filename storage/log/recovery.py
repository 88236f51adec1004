"""Opening a partition's directory: trust what the checkpoint vouches for, scan the rest, cut a torn tail. Blocking.

Everything below the recovery point was fsynced, so damage there is corruption: recovery raises CorruptLog and never
truncates it. The same holds below the noted high watermark if every append is synced. Above both, the first unsound
batch is where a crash interrupted a write: the log ends there.

No crash removes a file, so a missing file is corruption, unless the batches can rebuild it (an index, a producer
snapshot). The log start is the checkpoint's, never derived from the file names found.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from lograft.runtime.files import File, Files, parent_of, read_whole, replace_file
from lograft.storage.batch.header import BatchHeader
from lograft.storage.errors import CorruptLog, InvalidBatch
from lograft.storage.files.batch_scan import scan_batches
from lograft.storage.files.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PRODUCERS_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    numbered,
    parse_numbered,
    parse_swap,
)
from lograft.storage.files.sealed_file import seal, unseal
from lograft.storage.files.segment import Segment, load_index, read_index, read_summary, write_index
from lograft.storage.files.segment_index import MAX_OFFSET_SPAN, SegmentIndex
from lograft.storage.state.checkpoint import (
    CHECKPOINT_FILE,
    EPOCHS_FILE,
    Checkpoint,
    decode_epochs,
    encode_epochs,
)
from lograft.storage.state.epoch_cache import EpochCache
from lograft.storage.state.producer_state import ProducerState

PRODUCERS_KIND = "lograft-producers-1"


@dataclass(slots=True)
class RecoveredLog:
    """A partition as recovered from disk, sound and durable."""

    segments: list[Segment]
    end_offset: int
    checkpoint: Checkpoint
    epochs: EpochCache
    producers: ProducerState
    snapshots: list[int]
    active: File | None  # the last segment's open file, if any
    has_notes: bool = False  # index, snapshot and checkpoint were complete: no batch had to be read
    scanned_bytes: int = 0
    cut_bytes: int = 0


def create_partition(files: Files, directory: str, log_start: int = 0) -> None:
    """Create the directory of a new, empty partition, durably. Safe to repeat after a crash."""
    files.make_directory(directory)
    replace_file(files, f"{directory}/{EPOCHS_FILE}", encode_epochs(EpochCache()))
    checkpoint = Checkpoint(log_start=log_start, recovery_point=log_start, first_dirty=log_start)
    replace_file(files, f"{directory}/{CHECKPOINT_FILE}", checkpoint.encode())
    files.sync_directory(parent_of(directory))


def write_producers(files: Files, directory: str, offset: int, content: bytes) -> None:
    """Durably write `content`, the producer state as of `offset`."""
    replace_file(files, f"{directory}/{numbered(offset, PRODUCERS_SUFFIX)}", seal(PRODUCERS_KIND, content))


def read_producers(files: Files, directory: str, offset: int, now_ms: int) -> ProducerState | None:
    """Return the producer state as of `offset`, if its snapshot exists and is sound."""
    try:
        content = unseal(PRODUCERS_KIND, read_whole(files, f"{directory}/{numbered(offset, PRODUCERS_SUFFIX)}"))
        return ProducerState.decode(content, now_ms)
    except (FileNotFoundError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Facts about a log from outside its directory.

    - `noted_watermark`: its high watermark as last noted; None if never noted, so the log may be new.
    - `is_synced`: appends are synced before they are acknowledged, so everything below that watermark is on the disk.
    """

    noted_watermark: int | None = None
    is_synced: bool = True

    @property
    def durable_end(self) -> int:
        """Recovery must find everything below."""
        return self.noted_watermark or 0 if self.is_synced else 0


def recover(
    files: Files,
    directory: str,
    interval_bytes: int,
    wall_ms: int,
    monotonic_ms: int,
    known: LogFacts | None = None,
) -> RecoveredLog:
    """Bring the partition in `directory` to a sound state and return it. Raise CorruptLog if that is impossible."""
    return _Recovery(files, directory, interval_bytes, wall_ms, monotonic_ms, known or LogFacts()).run()


@dataclass(slots=True)
class _Resume:
    """The start of the scan: everything before it is known without reading."""

    segment: int  # its place in the list
    position: int
    index: SegmentIndex
    producers: ProducerState


@dataclass(slots=True)
class _Recovery:
    files: Files
    directory: str
    interval_bytes: int
    wall_ms: int
    monotonic_ms: int
    known: LogFacts
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    epochs: EpochCache = field(default_factory=EpochCache)
    segments: list[Segment] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    has_notes: bool = False
    has_removed: bool = False
    scanned_bytes: int = 0
    cut_bytes: int = 0

    def run(self) -> RecoveredLog:
        # A killed process may have left names that are not durable yet: sync them before relying on them.
        self.files.sync_directory(parent_of(self.directory))
        self.files.sync_directory(self.directory)
        names = self._tidy_up(self.files.list_directory(self.directory))
        self._read_small_files(names)
        orphans = self._list_segments(names)
        if self.checkpoint.resetting:
            return self._finish_reset()
        if not self.segments:
            self._check_nothing_was_there()
            self._remove_all(orphans)
            return self._empty()
        self._drop_segments_below_start()
        self._check_all_are_there()
        producers, end_offset, active = self._scan_from(self._resume_point())
        if self.checkpoint.log_start > end_offset and not self.known.is_synced:
            # The log start moved before the rest was synced, and a power failure lost everything above it.
            active.close()
            return self._finish_reset()
        if end_offset < max(self.durable_end, self.checkpoint.log_start):
            active.close()
            raise CorruptLog(
                self.segments[-1].path,
                self.segments[-1].size_bytes,
                f"the log ends at offset {end_offset}, and was durable up to "
                f"{max(self.durable_end, self.checkpoint.log_start)}",
            )
        try:
            self._remove_all(orphans)
            self._settle_epochs(end_offset)
            self._remove_stale_snapshots(end_offset)
            return self._result(end_offset, producers, active)
        except BaseException:
            active.close()
            raise

    # -- finding the files

    def _tidy_up(self, names: list[str]) -> list[str]:
        """Finish operations that a crash interrupted: complete swaps, and remove unfinished files."""
        for name in names:
            if name.endswith((TEMPORARY_SUFFIX, CLEANED_SUFFIX)):
                self._remove(name)
        swaps = [(name, bounds) for name in names if (bounds := parse_swap(name)) is not None]
        for name, (base, limit) in swaps:
            complete_swap(self.files, self.directory, name, base, limit, names)
        return self.files.list_directory(self.directory)

    def _read_small_files(self, names: list[str]) -> None:
        """Read epochs and checkpoint. Creation writes an empty `leader-epochs` first, then the checkpoint: unless new,
        a partition has both."""
        try:
            if EPOCHS_FILE in names:
                path = f"{self.directory}/{EPOCHS_FILE}"
                self.epochs = EpochCache(decode_epochs(read_whole(self.files, path)))
            if CHECKPOINT_FILE in names:
                path = f"{self.directory}/{CHECKPOINT_FILE}"
                self.checkpoint = Checkpoint.decode(read_whole(self.files, path))
        except (ValueError, TypeError) as error:
            raise CorruptLog(path, None, str(error)) from error
        has_data = len(self.epochs) > 0 or any(parse_numbered(name) for name in names)
        is_new = CHECKPOINT_FILE not in names and not has_data and self.known.noted_watermark is None
        for name in (CHECKPOINT_FILE, EPOCHS_FILE):
            if name not in names and not is_new:
                raise CorruptLog(f"{self.directory}/{name}", None, "it is missing, and the partition is not new")

    @property
    def durable_end(self) -> int:
        """Everything below was synced: damage there is corruption."""
        return max(self.checkpoint.recovery_point, self.known.durable_end)

    def _list_segments(self, names: list[str]) -> list[str]:
        """Note segments and producer snapshots; return the names of indexes without a segment."""
        numbers = list(filter(None, map(parse_numbered, names)))
        for offset, suffix in numbers:
            if suffix == LOG_SUFFIX:
                size = self.files.size(f"{self.directory}/{numbered(offset, LOG_SUFFIX)}")
                self.segments.append(Segment(self.directory, offset, size, index=None))
            elif suffix == PRODUCERS_SUFFIX:
                self.snapshots.append(offset)
        bases = {segment.base_offset for segment in self.segments}
        indexes = ((offset, suffix) for offset, suffix in numbers if suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        return [numbered(offset, suffix) for offset, suffix in indexes if offset not in bases]

    # -- completeness

    def _check_nothing_was_there(self) -> None:
        """Raise CorruptLog if the log had a segment with content, now that none is found.

        The first segment is created before the first epoch is noted.
        """
        checkpoint = self.checkpoint
        is_new = not self.epochs and not checkpoint.newest_segment
        if not is_new or self.durable_end > checkpoint.log_start:
            raise CorruptLog(self.directory, None, "its segments are missing, and it was not empty")

    def _check_all_are_there(self) -> None:
        """Raise CorruptLog if a segment is missing at the beginning, in between, or at the end.

        Only segments that the scan will skip are compared with their neighbours.
        """
        first, last, checkpoint = self.segments[0], self.segments[-1], self.checkpoint
        if first.base_offset > checkpoint.log_start:
            reason = f"the log starts at offset {checkpoint.log_start}, and its first segment at {first.base_offset}"
            raise CorruptLog(first.path, None, f"{reason}: what was before it is missing")
        if last.base_offset < checkpoint.newest_segment:
            reason = f"the segment at {checkpoint.newest_segment} is missing: the last there is starts at"
            raise CorruptLog(last.path, None, f"{reason} {last.base_offset}")
        for segment, following in pairwise(self.segments):
            if following.base_offset <= checkpoint.recovery_point:
                self._check_reaches(segment, following)

    def _check_reaches(self, segment: Segment, following: Segment) -> None:
        """Raise CorruptLog unless `segment`, which was synced as a whole, ends where `following` starts.

        Usually the summary at the beginning of its index suffices; read the whole index only in doubt.
        """
        summary = read_summary(self.files, segment)
        expected = (segment.base_offset, following.base_offset, segment.size_bytes)
        if summary is not None and (summary.base_offset, summary.next_offset, summary.size_bytes) == expected:
            return
        file = self.files.open(segment.path)
        try:
            index, is_rebuilt = load_index(self.files, segment, file, self.interval_bytes)
        finally:
            file.close()
        end_offset = index.summary.next_offset
        if end_offset != following.base_offset:
            reason = f"the segment before ends at offset {end_offset}: what was between them is missing"
            raise CorruptLog(following.path, 0, reason)
        if is_rebuilt:
            write_index(self.files, segment, index.encode())

    def _drop_segments_below_start(self) -> None:
        """Remove files below the log start, which a crash between moving the start and removing them leaves behind."""
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.checkpoint.log_start:
            self._remove_segment(self.segments.pop(0))

    # -- the scan

    def _resume_point(self) -> _Resume:
        """Return the latest place at or below the recovery point for which both index and producer state are on
        disk."""
        last = len(self.segments) - 1
        recovery_point = self.checkpoint.recovery_point
        index = read_index(self.files, self.segments[last])
        if index is not None:
            summary = index.summary
            fits = summary.size_bytes <= self.segments[last].size_bytes and summary.next_offset <= recovery_point
            if fits and (producers := self._producers_at(summary.next_offset)) is not None:
                self.has_notes = summary.size_bytes == self.segments[last].size_bytes
                return _Resume(last, summary.size_bytes, index, producers)
        for place in range(last, -1, -1):
            base = self.segments[place].base_offset
            is_vouched_for = base <= recovery_point or place == 0  # no scan is needed before the first segment
            if is_vouched_for and (producers := self._producers_at(base)) is not None:
                return _Resume(place, 0, SegmentIndex(base), producers)
        return _Resume(0, 0, SegmentIndex(self.segments[0].base_offset), ProducerState())

    def _producers_at(self, offset: int) -> ProducerState | None:
        if offset not in self.snapshots:
            return None
        return read_producers(self.files, self.directory, offset, self.monotonic_ms)

    def _scan_from(self, resume: _Resume) -> tuple[ProducerState, int, File]:
        """Check every batch from the resume point on; truncate at the first unsound one."""
        index, position, producers = resume.index, resume.position, resume.producers
        place = resume.segment
        while True:
            file = self.files.open(self.segments[place].path)
            try:
                end_offset = self._scan_segment(place, file, position, index, producers)
            except BaseException:
                file.close()
                raise
            if place == len(self.segments) - 1:
                return producers, end_offset, file
            file.close()
            place += 1
            index, position = SegmentIndex(self.segments[place].base_offset), 0

    def _scan_segment(
        self, place: int, file: File, position: int, index: SegmentIndex, producers: ProducerState
    ) -> int:
        """Add a segment's batches to `index` and `producers`. Return its end; if the segment is not whole, the log ends
        there."""
        segment = self.segments[place]
        expected = read_index(self.files, segment)  # written when the segment was sealed, so it has the expected length
        segment.index = index
        try:
            for batch in scan_batches(file, position, segment.size_bytes):
                self._check_place(segment, batch.header, index)
                index.add(batch.header, self.wall_ms, self.interval_bytes)
                producers.update(batch.header, self.monotonic_ms)
                self.scanned_bytes += batch.header.total_bytes
            self._check_end(place, index, expected)
        except InvalidBatch as error:
            if index.summary.next_offset < self.durable_end:
                raise CorruptLog(segment.path, index.summary.size_bytes, str(error)) from error
            self._cut_after(place, file)
        else:
            if not self.has_notes:
                # A killed process may have written or cut this in memory only; sync before relying on it.
                file.sync()
        return index.summary.next_offset

    def _check_place(self, segment: Segment, header: BatchHeader, index: SegmentIndex) -> None:
        """Check what the CRC does not cover: the offset follows, and the epoch matches the offset.

        A crash tears or loses batches; it never creates sound ones out of place.
        """
        summary, offset = index.summary, header.base_offset
        if not summary.next_offset <= offset <= summary.base_offset + MAX_OFFSET_SPAN:
            reason = f"offset {offset} where {summary.next_offset} is next"
            raise CorruptLog(segment.path, summary.size_bytes, reason)
        if not self.epochs.allows(header.leader_epoch, offset):  # an epoch is durable before its batches
            epoch = self.epochs.epoch_at(offset)
            reason = f"leader epoch {header.leader_epoch} at offset {offset}, which is of epoch {epoch}"
            raise CorruptLog(segment.path, summary.size_bytes, reason)

    def _check_end(self, place: int, index: SegmentIndex, expected: SegmentIndex | None) -> None:
        """Check that a segment ends where the next one starts, and is not shorter than it was."""
        segment, end_offset = self.segments[place], index.summary.next_offset
        following = self.segments[place + 1] if place + 1 < len(self.segments) else None
        if following is not None and following.base_offset < end_offset:
            raise CorruptLog(following.path, 0, f"it overlaps the segment before, which ends at {end_offset}")
        if expected is not None and expected.summary.size_bytes > segment.size_bytes:
            raise InvalidBatch(f"it has {segment.size_bytes} bytes, and had {expected.summary.size_bytes}")
        if following is not None and following.base_offset > end_offset:
            reason = f"the segment before ends at offset {end_offset}: what was between them is missing"
            if expected is not None:  # the segment is as long as when it was sealed, so a later file is missing
                raise CorruptLog(following.path, 0, reason)
            raise InvalidBatch(reason)

    def _cut_after(self, place: int, file: File) -> None:
        """Truncate the log after the sound part of this segment. Remove later segments first, so that no crash leaves a
        hole."""
        self._lower_newest_segment(self.segments[place].base_offset)
        for segment in reversed(self.segments[place + 1 :]):
            self.cut_bytes += segment.size_bytes
            self._remove_segment(segment)
        del self.segments[place + 1 :]
        self.files.sync_directory(self.directory)
        segment = self.segments[place]
        assert segment.index is not None
        sound_bytes = segment.index.summary.size_bytes
        self.cut_bytes += segment.size_bytes - sound_bytes
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            # An index beyond the cut would be wrong once other batches are there.
            if self.files.exists(segment.path_of(suffix)):
                self.files.remove(segment.path_of(suffix))
        self.files.sync_directory(self.directory)
        file.truncate(sound_bytes)
        file.sync()
        segment.size_bytes = sound_bytes

    def _lower_newest_segment(self, base_offset: int) -> None:
        """Lower `newest_segment` before removing later segments, so that recovery does not miss them."""
        if self.checkpoint.newest_segment > base_offset:
            self.checkpoint = replace(self.checkpoint, newest_segment=base_offset)
            replace_file(self.files, f"{self.directory}/{CHECKPOINT_FILE}", self.checkpoint.encode())

    # -- the result

    def _settle_epochs(self, end_offset: int) -> None:
        before = list(self.epochs)
        self.epochs.clip_to(end_offset)
        self.epochs.forget_before(self.checkpoint.log_start)
        if list(self.epochs) != before:
            replace_file(self.files, f"{self.directory}/{EPOCHS_FILE}", encode_epochs(self.epochs))

    def _remove_stale_snapshots(self, end_offset: int) -> None:
        for offset in [offset for offset in self.snapshots if offset > end_offset]:
            self._remove(numbered(offset, PRODUCERS_SUFFIX))
            self.snapshots.remove(offset)

    def _result(self, end_offset: int, producers: ProducerState, active: File | None) -> RecoveredLog:
        if self.has_removed:
            # After a crash, removed files must not reappear beside files written later.
            self.files.sync_directory(self.directory)
        return RecoveredLog(
            self.segments,
            end_offset,
            self.checkpoint,
            self.epochs,
            producers,
            self.snapshots,
            active,
            self.has_notes and self.checkpoint.recovery_point == end_offset,
            self.scanned_bytes,
            self.cut_bytes,
        )

    def _empty(self) -> RecoveredLog:
        """Recover a partition without segments: its creation was interrupted, or it was reset."""
        create_partition(self.files, self.directory, self.checkpoint.log_start)  # writes what follows here
        start = self.checkpoint.log_start
        self.epochs, self.checkpoint = EpochCache(), Checkpoint(start, start, start)
        self._remove_stale_snapshots(-1)
        return self._result(self.checkpoint.log_start, ProducerState(), None)

    def _finish_reset(self) -> RecoveredLog:
        """Finish a reset that a crash interrupted."""
        for segment in reversed(self.segments):
            self._remove_segment(segment)
        self.segments.clear()
        self.files.sync_directory(self.directory)  # nothing reappears once the checkpoint ends the reset
        return self._empty()

    def _remove_segment(self, segment: Segment) -> None:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            if self.files.exists(segment.path_of(suffix)):
                self._remove(numbered(segment.base_offset, suffix))

    def _remove_all(self, names: Iterable[str]) -> None:
        for name in names:
            self._remove(name)

    def _remove(self, name: str) -> None:
        self.files.remove(f"{self.directory}/{name}")
        self.has_removed = True


def complete_swap(files: Files, directory: str, name: str, base: int, limit: int, names: list[str]) -> None:
    """Replace segments by the compacted one made from them (`name`, see `swap_name`). Blocking.

    Safe to repeat after a crash at any point: the swap file's own rename is the last step.
    """
    for offset, suffix in filter(None, map(parse_numbered, names)):
        is_index = suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and base <= offset < limit
        is_replaced = suffix == LOG_SUFFIX and base < offset < limit
        if is_index or is_replaced:
            files.remove(f"{directory}/{numbered(offset, suffix)}")
    files.sync_directory(directory)
    files.rename(f"{directory}/{name}", f"{directory}/{numbered(base, LOG_SUFFIX)}")
    files.sync_directory(directory)
