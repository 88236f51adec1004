"""A partition's log: appends, reads, truncation, and its offsets. Belongs to one loop.

An append assigns offsets at once, without waiting; the disk follows in order (`lograft.runtime.disk.disk_writer`), and
`stable_end` bounds acknowledgements. The owner must not append during `truncate`, `reset` or `close`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from lograft.runtime.blocking import run_to_end
from lograft.runtime.clock import Clock
from lograft.runtime.disk.disk_writer import AppendFile, DiskFailed
from lograft.runtime.files import Files, is_shortage, is_without_room
from lograft.storage.batch.codec import rewrite_batch
from lograft.storage.batch.header import BatchHeader, parse_header, stamp
from lograft.storage.errors import CorruptLog, LogClosed, OffsetOutOfRange, ResourceShortage
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.log import time_search
from lograft.storage.log.admission import Admitted
from lograft.storage.log.append_progress import AppendProgress
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.log_reader import Batches, LogReader
from lograft.storage.log.memory_tail import Chunk, MemoryTail
from lograft.storage.log.os_flush import OsFlush
from lograft.storage.log.partition_disk import Disk, PartitionDisk
from lograft.storage.log.recovery import LogFacts, RecoveredLog, create_partition, recover
from lograft.storage.log.replica_frame import ReplicaFrame, check_frame
from lograft.storage.log.segment_list import SegmentList
from lograft.storage.log.truncation import CutSegment, find_cut
from lograft.storage.state.epoch_cache import EpochEntry
from lograft.storage.state.producer_state import ProducerState

MAX_RELATIVE_OFFSET = 2**31 - 1
_SHORTAGE_PAUSE_MS = 100


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """The offsets of a batch: [base_offset, next_offset). `append_time` is set for a new batch (not a duplicate) of a
    topic with append times."""

    base_offset: int
    next_offset: int
    is_duplicate: bool = False
    append_time: int | None = None


async def open_log(disk: Disk, directory: str, config: LogConfig, noted_watermark: int | None = None) -> "PartitionLog":
    """Open the partition in `directory`, or create it. Repair what a crash left.

    `noted_watermark`: the high watermark noted for this log; None if the log was never noted, so it may be new. Raise
    CorruptLog if durable data is damaged or missing, ResourceShortage if a retry may succeed.
    """
    now = (disk.clock.wall_ms(), disk.clock.monotonic_ms())
    known = LogFacts(noted_watermark, is_synced=config.flush_mode is FlushMode.FSYNC)
    open_it = partial(_open_or_create, disk.files, directory, config.index_interval_bytes, *now, known)
    try:
        # Do not abandon recovery: its writes would truncate what the next process to open the log appended.
        recovered = await run_to_end(disk.blocking, open_it, dispose=_dispose)
    except OSError as error:
        if is_shortage(error) or is_without_room(error):
            raise ResourceShortage(f"{directory} cannot be opened now: {error.strerror}") from error
        await disk.writer.fail(directory, error)  # another sync does not repair the failed one
    try:
        log = PartitionLog(disk, directory, config, recovered)
        await _in_time_of_plenty(disk.clock, log.remember_append_time)
        return log
    except DiskFailed:
        _dispose(recovered)
        raise


async def _in_time_of_plenty(clock: Clock, action: Callable[[], Awaitable[None]]) -> None:
    """Retry while the process is short of descriptors."""
    while True:
        try:
            return await action()
        except OSError as error:
            if not is_shortage(error):
                raise
            await clock.sleep_ms(_SHORTAGE_PAUSE_MS)


def _dispose(recovered: RecoveredLog) -> None:
    if recovered.active is not None:
        recovered.active.close()


def _open_or_create(
    files: Files, directory: str, interval_bytes: int, wall_ms: int, monotonic_ms: int, known: LogFacts
) -> RecoveredLog:
    if not files.exists(directory):
        if known.noted_watermark is not None:
            raise CorruptLog(directory, None, "it is missing, and was there before")
        create_partition(files, directory)
    return recover(files, directory, interval_bytes, wall_ms, monotonic_ms, known)


class PartitionLog:
    """One replica's copy of a partition. Invariant: start_offset <= end_offset, stable_end <= end_offset.

    It does nothing on its own; docs/storage.md lists what its owner must call, and when.
    """

    def __init__(self, disk: Disk, directory: str, config: LogConfig, recovered: RecoveredLog) -> None:
        self.config = config
        self.directory = directory
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.checkpointed = recovered.checkpoint  # as on disk, or queued for it
        self.end_offset = recovered.end_offset
        self.stable_end = recovered.end_offset  # acknowledgements may cover it: it survives what `flush.mode` promises
        self.generation = 0  # incremented whenever offsets are taken back
        self.tail = MemoryTail(config.tail_bytes)
        self.failure: DiskFailed | None = None
        self.on_stable: Callable[[], None] = lambda: None  # called when `stable_end` advances
        self.on_failed: Callable[[DiskFailed], None] = lambda error: None
        self.disk = disk
        self._operations = PartitionDisk(disk, directory)
        self.segments = SegmentList(disk, self._operations, recovered.segments, recovered.snapshots)
        self._reader = LogReader(self, disk.segment_files, disk.blocking)
        self._durability = AppendProgress(recovered.end_offset)
        self._flushing = OsFlush(self, disk, self._operations, self._durability)
        self._has_notes = recovered.has_notes  # no change since the last checkpoint
        self._last_append_ms = 0
        self.is_exclusive = False  # during truncate, reset or close: no other change is allowed
        self._is_closed = False
        if recovered.active is None:
            self.segments.start(self.end_offset, self)
        else:
            active = self.segments.active
            active.append_file = disk.writer.adopt(recovered.active, active.size_bytes, self)

    # -- offsets

    @property
    def start_offset(self) -> int:
        return self.checkpointed.log_start

    @property
    def deleted_below(self) -> int:
        """The log start that followers must delete up to; 0 if the start only results from damage."""
        return self.start_offset if self.start_offset > self.checkpointed.lost_below else 0

    async def first_base(self) -> int:
        """Return the base of the batch that holds the log start; the log start itself if no batch does.

        A log start may lie inside a batch. Batches are kept whole, so a copy of this log begins at that base.
        """
        while True:
            start = self.start_offset
            if start == self.end_offset or self.segments[self.segments.place_of(start)].base_offset == start:
                return start
            found = await self.read(start, 1)
            if self.start_offset != start:
                continue  # the log start moved meanwhile
            return min(start, parse_header(found.buffers[0]).base_offset) if found.buffers else start

    @property
    def synced_end(self) -> int:
        """Everything below survives a power failure."""
        return self._durability.synced_end

    @property
    def recovery_point(self) -> int:
        """Everything below is known after a crash to have been synced."""
        return self.checkpointed.recovery_point

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # -- appending

    def assign_epoch(self, epoch: int) -> None:
        """Start a new leader epoch at the log's end. It is durable before any batch of that epoch."""
        self._check_writable()
        if self.epochs.assign(epoch, self.end_offset):
            self._operations.replace_epochs(self.epochs)

    def append_as_leader(self, admitted: Admitted, leader_epoch: int) -> AppendedBatch:
        """Assign offsets to a batch, stamp it and queue it. Raise a ProducerError if it is out of its producer's
        order."""
        self._check_writable()
        latest = self.epochs.latest
        assert latest is not None, "assign_epoch comes first"
        assert latest.epoch == leader_epoch
        known = self.producers.check(admitted.header)
        if known is not None:
            return AppendedBatch(known.base_offset, known.last_offset + 1, is_duplicate=True)
        if self.config.append_time:
            admitted = self._with_rising_append_time(admitted)
        base_offset = self.end_offset
        header = admitted.header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
        self._append(stamp(admitted.batch, base_offset, leader_epoch), (header,), header.next_offset)
        append_time = header.max_timestamp if self.config.append_time else None
        return AppendedBatch(base_offset, header.next_offset, append_time=append_time)

    def append_as_follower(self, frame: ReplicaFrame) -> None:
        """Append a leader's batches. Raise FrameMismatch or InvalidBatch, changing nothing, if they do not follow."""
        self._check_writable()
        headers = check_frame(frame, self.end_offset, self.epochs.latest)
        changed = [entry for entry in frame.epochs if self.epochs.assign(*entry)]
        if changed:
            self._operations.replace_epochs(self.epochs)
        if self.config.append_time:
            self._last_append_ms = max(self._last_append_ms, *(header.max_timestamp for header in headers))
        self._append(frame.batches, headers, frame.end)

    async def remember_append_time(self) -> None:
        """Continue append times from the latest one; the active segment may be empty."""
        if self.config.append_time:
            for segment in list(self.segments)[-2:]:
                index = await self.index_of(segment)
                self._last_append_ms = max(self._last_append_ms, index.summary.max_timestamp)

    def _with_rising_append_time(self, admitted: Admitted) -> Admitted:
        """Return the batch with an append time that never falls, whatever the wall clock does."""
        if admitted.header.max_timestamp < self._last_append_ms:
            batch = rewrite_batch(admitted.batch, append_time=self._last_append_ms)
            admitted = Admitted(parse_header(batch), batch)
        self._last_append_ms = admitted.header.max_timestamp
        return admitted

    def _append(self, batches: bytes | memoryview, headers: Sequence[BatchHeader], end: int) -> None:
        now_ms = self.disk.clock.wall_ms()
        if self._roll_is_due(len(batches), end, now_ms):
            self.roll()
        segment, start = self.segments.active, self.end_offset
        index, file = segment.index, segment.append_file
        assert index is not None
        assert file is not None
        sync = self.config.flush_mode is FlushMode.FSYNC
        position = self.disk.writer.append(file, (batches,), sync=sync)
        self.disk.space.took(len(batches))
        monotonic_ms = self.disk.clock.monotonic_ms()
        for header in headers:
            index.add(header, now_ms, self.config.index_interval_bytes)
            self.producers.update(header, monotonic_ms)
        segment.size_bytes += len(batches)
        self.end_offset = end
        self._has_notes = False
        self._flushing.appended(end - start)
        self._durability.appended(file, position + len(batches), end, sync=sync)
        self.tail.append(Chunk(start, end, batches))

    # -- rolling

    def _roll_is_due(self, incoming_bytes: int, end: int, now_ms: int) -> bool:
        active = self.segments.active
        return active.size_bytes > 0 and (
            active.size_bytes + incoming_bytes > self.config.segment_bytes
            or end - active.base_offset > MAX_RELATIVE_OFFSET
            or self._is_old(now_ms)
        )

    def _is_old(self, now_ms: int) -> bool:
        index = self.segments.active.index
        assert index is not None
        return now_ms - index.summary.first_append_ms >= self.config.segment_ms

    def roll_if_old(self) -> None:
        """Seal the active segment once it is older than `segment.ms`, even without appends."""
        is_due = self.segments.active.size_bytes > 0 and self._is_old(self.disk.clock.wall_ms())
        if is_due and not self.is_exclusive:
            self.roll()

    def roll(self) -> None:
        """Seal the active segment, which must not be empty, and start the next."""
        self._check_writable()
        self._has_notes = False
        sealed = self.segments.seal_active()
        self.segments.snapshot_producers(self.end_offset, self.producers)
        if self.config.flush_mode is FlushMode.OS:
            self._flushing.sealed(sealed)
        self.segments.start(self.end_offset, self)
        self._move_checkpoint(newest_segment=self.end_offset)

    # -- reading

    async def read(self, start: int, max_bytes: int, bound: int | None = None, *, from_disk: bool = False) -> Batches:
        """Read whole batches from the one that holds `start`, below `bound` (default: the end). With `from_disk`,
        bypass memory and read only stable batches.

        At most `max_bytes`, but at least one batch whatever its size; none if there is none below `bound`. Raise
        OffsetOutOfRange with the valid range.
        """
        while True:
            self.check_open()
            end = self.stable_end if from_disk else self.end_offset
            limit = end if bound is None else min(bound, end)
            if not self.start_offset <= start <= self.end_offset:
                raise OffsetOutOfRange(start, self.start_offset, self.end_offset)
            if start >= limit:
                return Batches([], start)
            found = None if from_disk else self._reader.read_tail(start, max_bytes, limit)
            if found is None:
                found = await self._reader.read_segments(start, max_bytes, limit)
            if found is None:
                continue  # the log changed meanwhile
            # A segment always ends at the start of the next one: compaction keeps the last batch.
            following = None if found.buffers else self.segments.start_after(start)
            if following is not None and following < limit:
                raise CorruptLog(self.directory, None, f"there is nothing between the offsets {start} and {following}")
            return found

    async def offset_for_time(self, timestamp: int, bound: int | None = None) -> time_search.FoundTime | None:
        """Return the first record below `bound` whose timestamp is at least `timestamp`, if there is one."""
        return await time_search.first_at_or_after(self, timestamp, self.end_offset if bound is None else bound)

    async def greatest_timestamp(self, bound: int | None = None) -> time_search.FoundTime | None:
        """Return the first record below `bound` that has the greatest timestamp, if there are any."""
        return await time_search.with_greatest_time(self, self.end_offset if bound is None else bound)

    async def index_of(self, segment: Segment) -> SegmentIndex:
        """Return a segment's index, loaded or rebuilt when it is first needed."""
        interval_bytes = self.config.index_interval_bytes
        return await self.disk.segment_files.index_of(segment, interval_bytes, self._operations.write_index)

    # -- truncating and deleting

    async def truncate(self, offset: int) -> int:
        """Cut the log at `offset`, or at the start of the batch it lies within. Return the new end, which is durable.

        `offset` must be in the log: to go below its start, use `reset`.
        """
        assert self.start_offset <= offset
        with self._exclusively():
            if offset < self.end_offset:
                await self._cut(offset)
                offset = (
                    self.end_offset
                )  # lower if a batch or a hole spans it: an epoch that begins in between is removed too
            if self.epochs.truncate_from(offset):
                self._operations.replace_epochs(self.epochs)
            await self._operations.barrier()
        return self.end_offset

    async def _cut(self, offset: int) -> None:
        await self._operations.barrier()  # the reads below need the data in the files
        place = self.segments.place_of(offset)
        last = self.segments[place]
        index = await self.index_of(last)
        file = await self.disk.segment_files.lease(last)
        try:
            cut: CutSegment = await self.disk.blocking.run_blocking(
                find_cut,
                self.disk.files,
                self.segments.up_to(place),
                file,
                index,
                offset,
                tuple(self.segments.snapshots),
                self.config.index_interval_bytes,
                self.disk.clock.monotonic_ms(),
            )
            # No await from here on: the log changes atomically.
            self._end_at(cut.end_offset, cut.producers)
            # Lower the recovery point before cutting: it must not vouch for data appended there next.
            self._move_checkpoint(
                log_start=min(self.start_offset, self.end_offset),  # lower, if it lies within the first batch
                recovery_point=min(self.recovery_point, self.end_offset),
                first_dirty=min(self.checkpointed.first_dirty, self.end_offset),
                newest_segment=min(self.checkpointed.newest_segment, last.base_offset),
            )
            self.segments.retire_after(place)
            # After the segments: a segment that survives a crash needs the producer snapshot of its start.
            self.segments.drop_snapshots(lambda snapshot: snapshot > self.end_offset)
            self.segments.shorten(last, cut.index, self)
        finally:
            self.disk.segment_files.release(last)

    def _end_at(self, end_offset: int, producers: ProducerState) -> None:
        self.generation += 1
        self._has_notes = False
        self.end_offset = end_offset
        self.producers = producers
        self.stable_end = min(self.stable_end, end_offset)
        self._durability.truncated(end_offset)
        self._flushing.truncated(end_offset)
        self.tail.truncate(end_offset)

    async def reset(self, start: int, epochs: Sequence[EpochEntry] = (), producers: bytes = b"") -> None:
        """Drop everything and continue, empty, at `start`, with the leader's epochs and producers as of that offset."""
        with self._exclusively():
            await self._operations.barrier()
            self._end_at(0, ProducerState.decode(producers, self.disk.clock.monotonic_ms()))
            # If a crash interrupts the reset from here on, opening the log completes it. `cleaned_below` and the
            # tombstone bound still hold for the old log until its last segment is gone.
            self._move_checkpoint(log_start=start, recovery_point=start, first_dirty=start, resetting=1)
            self.segments.retire_after(-1)
            self.segments.drop_snapshots(lambda snapshot: True)
            self.epochs.replace_all(epochs)
            self._operations.replace_epochs(self.epochs)
            self.end_offset = self.stable_end = start
            self._durability.restarted(start)
            self.segments.snapshot_producers(start, self.producers)
            self.segments.start(start, self)
            self._move_checkpoint(
                resetting=0,
                tombstones_removed_below=0,
                cleaned_below=0,
                cleaned_in_epoch=-1,
                newest_segment=start,
                lost_below=0,
            )
            await self._operations.barrier()

    def delete_prefix(self, offset: int) -> None:
        """Move the log start to `offset` and delete segments wholly below it. The owner checks the bound."""
        self._check_writable()
        assert offset <= self.end_offset
        if offset <= self.start_offset:
            return
        self._move_checkpoint(log_start=offset, first_dirty=max(self.checkpointed.first_dirty, offset))
        self.segments.retire_before(offset)
        if self.epochs.forget_before(offset):
            self._operations.replace_epochs(self.epochs)

    def replace_segments(
        self, old: Sequence[Segment], new: Segment, cleaned: str, cleaned_below: int, tombstones_removed_below: int
    ) -> "asyncio.Future[None]":
        """Replace `old` by compaction's `new`, in the file `cleaned`: at once in memory, on disk when the result
        resolves. Records it lacks were superseded by records below `cleaned_below`."""
        latest = self.epochs.latest
        self.note_cleaned(cleaned_below, latest.epoch if latest is not None else -1)
        self.note_tombstones_removed(tombstones_removed_below)
        return self.segments.replace(old, new, cleaned)

    def note_tombstones_removed(self, below: int) -> None:
        """Note that appends from now on come from a log without the tombstones below `below`."""
        self._check_writable()
        if below > self.checkpointed.tombstones_removed_below:
            self._move_checkpoint(tombstones_removed_below=below)

    def note_cleaned(self, below: int, epoch: int) -> None:
        """Note that records may be missing because of later ones below `below` in the history of `epoch`: a replica
        that loses those in an unclean election has lost what they superseded, too."""
        self._check_writable()
        known = self.checkpointed
        if below > known.cleaned_below or (below == known.cleaned_below > 0 and epoch > known.cleaned_in_epoch):
            epoch = max(epoch, known.cleaned_in_epoch)
            self._move_checkpoint(cleaned_below=below, cleaned_in_epoch=epoch)

    def note_clean(self, end: int) -> None:
        """Note that compaction has cleaned everything below `end`."""
        self._check_writable()
        self._move_checkpoint(first_dirty=max(self.checkpointed.first_dirty, end))

    # -- durability

    async def wait_stable(self, offset: int) -> None:
        """Wait until `stable_end` reaches `offset`. Raise DiskFailed or LogTruncated if it never will."""
        if self.failure is not None:
            raise self.failure
        await self._durability.wait(offset, self.stable_end)

    def flush_is_due(self) -> bool:
        """Return True if, under flush.mode=os, `flush.messages` or `flush.ms` requires an fsync."""
        return self._flushing.is_due()

    async def flush(self) -> None:
        """Wait until everything now in the log would survive a power failure."""
        await self._flushing.flush()

    async def checkpoint(self) -> None:
        """Record durably how far the log is synced, so that recovery need not read below that.

        Does nothing during truncate, reset or close.
        """
        self.check_open()
        if not self.is_exclusive:
            await self._checkpoint()

    async def _checkpoint(self, *, is_closing: bool = False) -> None:
        if self._has_notes:
            await self._operations.barrier()  # they may still be queued
            return
        await self._flushing.flush_sealed()
        # The directory may have failed meanwhile, which closes the log.
        if self._is_closed or (self.is_exclusive and not is_closing):
            return
        # No await from here to the end: the checkpoint describes the log as it is now.
        active = self.segments.active
        assert active.index is not None
        assert active.append_file is not None
        self.disk.writer.sync(active.append_file)
        self._operations.write_index(active, active.index.encode())
        self.segments.snapshot_producers(self.end_offset, self.producers)
        self._move_checkpoint(recovery_point=self.end_offset)
        self._has_notes = True
        await self._operations.barrier()

    async def close(self) -> None:
        """Make everything durable, write the notes for a quick start, and close the files. The log must not be used
        afterwards."""
        try:
            if self.failure is None:
                self.is_exclusive = True
                await self._checkpoint(is_closing=True)
        finally:
            self._is_closed = True
            append_file = self.segments.active.append_file
            if append_file is not None:
                self.disk.writer.release(append_file)
            self.segments.close()

    async def reconfigure(self, config: LogConfig) -> None:
        """Apply `config` from now on. Switching back to fsync first syncs all unsynced data."""
        if config.flush_mode is FlushMode.FSYNC and self.config.flush_mode is FlushMode.OS:
            await self._flushing.flush_sealed()
            file = self.segments.active.append_file
            assert file is not None
            self._durability.appended(file, file.appended, self.end_offset, sync=True)
            self.disk.writer.sync(file)
        self.config = config
        self.tail.limit_bytes = config.tail_bytes

    def keep_in_memory(self, tail_bytes: int) -> None:
        """Keep this many bytes of the newest batches in memory, whatever the configuration says."""
        if tail_bytes != self.tail.limit_bytes:
            self.tail.limit_bytes = tail_bytes
            self.tail.evict(self._durability.written_end)

    # -- callbacks of the writer

    def on_progress(self, file: AppendFile) -> None:
        self._durability.progress()
        self.tail.evict(self._durability.written_end)
        is_safe = self.config.flush_mode is FlushMode.FSYNC
        reached = self._durability.synced_end if is_safe else self._durability.written_end
        if reached > self.stable_end:
            self.stable_end = reached
            self._durability.release(reached)
            self.on_stable()

    def on_disk_failed(self, error: DiskFailed) -> None:
        self.failure = error
        self._durability.failed(error)
        self.on_failed(error)

    # -- helpers

    def _move_checkpoint(self, **changes: int) -> None:
        self.checkpointed = replace(self.checkpointed, **changes)
        self._operations.replace_checkpoint(self.checkpointed)

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Mark the log as exclusive; an append meanwhile is a bug of the owner."""
        self._check_writable()
        self.is_exclusive = True
        try:
            yield
        finally:
            self.is_exclusive = False

    def check_open(self) -> None:
        if self._is_closed:
            raise LogClosed(self.directory)

    def _check_writable(self) -> None:
        assert not self.is_exclusive, "the log is being cut, reset or closed"
        if self.failure is not None:
            raise self.failure
