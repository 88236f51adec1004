"""Compaction: keep only the latest record of each key, at its offset.

It first maps the keys of the dirty section to their latest offsets, as many as fit in memory. It then rewrites all
segments up to the end of the map without superseded records, oldest first, in groups that become one segment each. The
order matters: a tombstone may be removed only after the values it deleted.

It rewrites a group into a new file, from immutable segments. The new segment replaces them atomically on the loop, if
the log still has them: the list of segments changes, and the change on disk is queued before any later operation of the
log. Readers that lease the old segments keep them open.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from lograft.runtime.blocking import run_to_end
from lograft.runtime.files import Buffer
from lograft.storage.batch.codec import decode_columns
from lograft.storage.batch.header import BatchHeader
from lograft.storage.cleaning.batch_cleaner import BatchCleaner
from lograft.storage.cleaning.cleaned_file import CleanedFile, SegmentSource
from lograft.storage.cleaning.compaction_plan import clean_bytes, count_cleanable, group_segments, is_worthwhile
from lograft.storage.cleaning.key_map import DEFAULT_MAX_KEYS, KeyMap
from lograft.storage.errors import CorruptLog, InvalidBatch, SegmentRetired, StorageError
from lograft.storage.files.batch_scan import scan_batches
from lograft.storage.files.segment import Segment
from lograft.storage.files.segment_index import SegmentIndex
from lograft.storage.inspect.batch_check import PlaceCheck
from lograft.storage.log.partition_log import MAX_RELATIVE_OFFSET, PartitionLog
from lograft.storage.state.epoch_cache import EpochCache
from lograft.storage.state.producer_state import NO_PRODUCER

SLICE_BYTES = 16 * 1024 * 1024  # read off the loop in one go

T = TypeVar("T")

Pace: TypeAlias = Callable[[int], Awaitable[bool]]
"""Called after each slice with the bytes read. Returns when the next slice may start, or False to stop."""


class CompactionFailed(StorageError):
    """A read or write of a compaction failed. The log is unchanged."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction. Interrupted: the log changed meanwhile, so it stopped; the next one starts over."""

    first_dirty: int
    bytes_before: int  # of the segments examined
    bytes_after: int
    records_removed: int
    is_interrupted: bool


async def at_once(_: int) -> bool:
    """Return at once: the default pace is as fast as the disk."""
    return True


async def compact(
    log: PartitionLog,
    bound: int,
    now_ms: int,
    max_keys: int = DEFAULT_MAX_KEYS,
    slice_bytes: int = SLICE_BYTES,
    pace: Pace = at_once,
) -> CompactionResult | None:
    """Compact sealed segments below `bound`, the high watermark. Return None if there is too little to do.

    Run one at a time per log, and do not reopen the log's directory before it returns. Appends, reads and everything
    else may continue meanwhile. Hold at most `max_keys` distinct keys, and one batch more, in memory: with more keys,
    clean only a part of the dirty section, up to `first_dirty`.
    """
    if not log.config.cleanup_compact or log.is_exclusive:
        return None
    generation = log.generation
    segments = await _plan(log, bound, now_ms)
    if not segments:
        return None
    end = _index(segments[-1]).summary.next_offset
    if log.synced_end < end and not log.is_exclusive:
        # A superseding record must be as durable as the removal of the superseded one.
        await log.flush()
    if log.synced_end < end or log.generation != generation:
        return None
    return await _Compaction(log, segments, generation, now_ms, slice_bytes, pace).run(max_keys)


async def _plan(log: PartitionLog, bound: int, now_ms: int) -> list[Segment]:
    """Return the segments to clean, all with their indexes; none if it is not worthwhile."""
    if log.segments.active.base_offset <= log.checkpointed.first_dirty:
        return []
    segments, indexes = list(log.segments)[:-1], []
    for segment in segments:
        try:
            indexes.append(await log.index_of(segment))
        except SegmentRetired:
            return []
    summaries = [index.summary for index in indexes]
    count = count_cleanable(summaries, bound, now_ms, log.config.min_compaction_lag_ms)
    ratio = log.config.min_cleanable_dirty_ratio
    is_due = is_worthwhile(indexes[:count], log.checkpointed.first_dirty, ratio)
    return segments[:count] if is_due else []


class _Compaction:
    """One run over `segments`, the oldest of the log, as they were in `generation`."""

    def __init__(
        self, log: PartitionLog, segments: list[Segment], generation: int, now_ms: int, slice_bytes: int, pace: Pace
    ) -> None:
        self._log = log
        self._segments = segments
        self._generation = generation
        self._now_ms = now_ms
        self._slice_bytes = slice_bytes
        self._pace = pace
        self._bytes_before = 0
        self._bytes_after = 0
        self._records_removed = 0

    async def run(self, max_keys: int) -> CompactionResult:
        try:
            is_done = await self._run(max_keys)
        except CorruptLog:
            if not self._is_changed(()):
                raise
            is_done = False  # a segment that was truncated while it was read
        except OSError as error:
            raise CompactionFailed(f"compacting {self._log.directory} failed: {error}") from error
        return CompactionResult(
            self._log.checkpointed.first_dirty,
            self._bytes_before,
            self._bytes_after,
            self._records_removed,
            is_interrupted=not is_done,
        )

    async def _run(self, max_keys: int) -> bool:
        """Run all steps. Return False if the log changed meanwhile; finished groups stay compacted."""
        keys = await self._map_keys(KeyMap(self._log.checkpointed.first_dirty, max_keys))
        if keys is None:
            return False
        # Retention may have removed the first ones; the others are still the oldest of the log.
        mapped = [segment for segment in self._segments if segment.base_offset < keys.end and not segment.retired]
        summaries = [_index(segment).summary for segment in mapped]
        producers = [producer_id for producer_id, _ in self._log.producers.entries()]
        for group in group_segments(summaries, self._log.config.segment_bytes, MAX_RELATIVE_OFFSET):
            cleaner = BatchCleaner(keys, producers, self._now_ms, self._log.config.delete_retention_ms)
            if not await self._clean_group(mapped[group], cleaner):
                return False
        if self._is_changed(()):
            return False
        self._log.note_clean(keys.end)
        return True

    def _is_changed(self, segments: Sequence[Segment]) -> bool:
        """Return True if the log was or is being truncated or reset since the start, or one of `segments` left it."""
        log = self._log
        return log.generation != self._generation or log.is_exclusive or any(segment.retired for segment in segments)

    # -- the keys

    async def _map_keys(self, keys: KeyMap) -> KeyMap | None:
        first_dirty = keys.end
        for segment in self._segments:
            index = _index(segment)
            if index.summary.next_offset <= first_dirty:
                continue
            async with self._leased([segment]) as sources:
                if sources is None:
                    return None
                position = clean_bytes(index, first_dirty)
                while position < sources[0].size_bytes:
                    before = position
                    position, is_full = await self._beside_loop(
                        _map_slice, keys, sources[0], position, self._slice_bytes
                    )
                    if not await self._pace(position - before) or self._is_changed([segment]):
                        return None
                    if is_full:
                        return keys
        return keys

    # -- a group of segments

    async def _clean_group(self, group: list[Segment], cleaner: BatchCleaner) -> bool:
        """Replace `group` by one cleaned segment. Return False if the log changed meanwhile."""
        log = self._log
        first_append_ms = _index(group[0]).summary.first_append_ms
        cleaned = CleanedFile(log.disk.files, group[0], first_append_ms, log.config.index_interval_bytes)
        try:
            async with self._leased(group) as sources:
                if sources is None or not await self._copy(group, sources, cleaned, cleaner):
                    return False
                is_wanted = len(group) > 1 or cleaned.is_changed
                if is_wanted and not await self._swap(group, cleaned, cleaner):
                    return False
        finally:
            if cleaned.is_open:
                await self._beside_loop(cleaned.discard)
        self._bytes_before += sum(segment.size_bytes for segment in group)
        self._bytes_after += cleaned.index.summary.size_bytes
        self._records_removed += cleaner.records_removed
        return True

    async def _copy(
        self, group: list[Segment], sources: list[SegmentSource], cleaned: CleanedFile, cleaner: BatchCleaner
    ) -> bool:
        """Write the remaining records of `group` to `cleaned`, durably."""
        await self._beside_loop(cleaned.create)
        for source in sources:
            position, is_last = 0, source is sources[-1]
            while position < source.size_bytes:
                if self._is_changed(group):
                    return False
                before = position
                position = await self._beside_loop(cleaned.copy, source, is_last, position, self._slice_bytes, cleaner)
                if not await self._pace(position - before):
                    return False
        await self._beside_loop(cleaned.write)
        try:
            await self._beside_loop(cleaned.file.sync)
        except OSError as error:
            await self._log.disk.writer.fail(cleaned.path, error)
        return True

    async def _swap(self, group: list[Segment], cleaned: CleanedFile, cleaner: BatchCleaner) -> bool:
        log = self._log
        segment_files = log.disk.segment_files
        new = Segment(log.directory, group[0].base_offset, cleaned.index.summary.size_bytes, cleaned.index)
        # No await that suspends until the swap is queued: the checks still hold.
        if self._is_changed(group):
            return False
        if log.failure is not None:
            raise log.failure
        new.attach(cleaned.hand_over())
        await segment_files.lease(new)
        swapped = log.replace_segments(
            group, new, cleaned.path, cleaner.cleaned_below, cleaner.tombstones_removed_below
        )

        def release(answer: "asyncio.Future[None]") -> None:
            # If the swap failed, another file may have the name: keep the right one open for readers, permanently.
            if not answer.cancelled() and answer.exception() is None:
                segment_files.release(new)

        swapped.add_done_callback(release)
        await asyncio.shield(swapped)
        return True

    # -- files and threads

    @asynccontextmanager
    async def _leased(self, segments: Sequence[Segment]) -> AsyncIterator[list[SegmentSource] | None]:
        """Lease the files of `segments`; None if one was removed."""
        segment_files = self._log.disk.segment_files
        sources: list[SegmentSource] = []
        try:
            for segment in segments:
                try:
                    file = await segment_files.lease(segment)
                    sources.append(SegmentSource(file, segment.path, segment.size_bytes, self._places(segment)))
                except SegmentRetired:
                    yield None
                    return
            yield sources
        finally:
            for segment in segments[: len(sources)]:
                segment_files.release(segment)

    def _places(self, segment: Segment) -> PlaceCheck:
        """Return a check of batch positions with its own copy of the epochs, for use off the loop."""
        return PlaceCheck(segment.base_offset, _index(segment).summary.next_offset, EpochCache(list(self._log.epochs)))

    async def _beside_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run off the loop, to the end even if cancelled, because the caller closes the files next."""
        return await run_to_end(self._log.disk.blocking, function, *arguments)


def _map_slice(keys: KeyMap, source: SegmentSource, start: int, limit_bytes: int) -> tuple[int, bool]:
    """Feed `keys` with about `limit_bytes` of batches from `start` on. Return where to continue, and whether the map is
    full."""
    position = start
    try:
        for found in scan_batches(source.file, start, source.size_bytes):
            header = found.header
            source.places.check(header)
            if header.next_offset > keys.end:
                if not _add_batch(keys, header, found.content):
                    return position, True
                if header.producer_id != NO_PRODUCER:
                    keys.last_offsets[header.producer_id] = header.last_offset
            position = found.end_position
            if position - start >= limit_bytes:
                break
    except InvalidBatch as error:
        raise CorruptLog(source.path, position, str(error)) from error
    return position, False


def _add_batch(keys: KeyMap, header: BatchHeader, batch: Buffer) -> bool:
    """Feed `keys` with one batch. Return False if it does not fit. Batches the cleaner does not decode have no keys."""
    if header.is_control:
        keys.skip(header.next_offset)
        return True
    try:
        columns = decode_columns(batch)
    except InvalidBatch:
        keys.skip(header.next_offset)
        return True
    return keys.add(columns.keys, columns.offsets, header.next_offset)


def _index(segment: Segment) -> SegmentIndex:
    assert segment.index is not None, "the plan loaded it"
    return segment.index
