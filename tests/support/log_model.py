"""A plain-list model of a partition log, and a story that drives a real one beside it through operations and crashes.

The log runs on a simulated disk and loop. What the model knows after a crash: everything that was stable (by the flush
mode and the kind of crash) is there, nothing that was never appended is, and offsets rise.
"""

import asyncio
from dataclasses import dataclass, field

import pytest

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.loop import VirtualClock
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.runtime.disk.disk_writer import DiskFailed, DiskWriter
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches
from lograft.storage.batch.header import MAGIC_COLUMNS, MAGIC_ROWS, stamp
from lograft.storage.batch.record import Record
from lograft.storage.cleaning.compaction import compact
from lograft.storage.cleaning.retention import apply_retention
from lograft.storage.errors import OffsetOutOfRange
from lograft.storage.files.segment import SegmentFiles
from lograft.storage.log.admission import admit
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_disk import Disk
from lograft.storage.log.partition_log import PartitionLog, ReplicaFrame, open_log  # type: ignore[attr-defined]
from lograft.storage.state.epoch_cache import EpochEntry

DIRECTORY = "/data/topic-0.00000000000000000000000000000001"
WALL_START_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class ModelBatch:
    """A batch as it was appended."""

    base: int
    next: int
    epoch: int
    records: tuple[Record, ...]
    producer_id: int = -1
    last_sequence: int = -1


@dataclass(slots=True)
class Model:
    """All that was appended and not taken back; `removed` are offsets that compaction was seen to have taken."""

    batches: list[ModelBatch] = field(default_factory=list)
    start: int = 0
    empty_at: int = 0  # where the log stood before its first batch
    removed: dict[int, None] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.batches[-1].next if self.batches else self.empty_at

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records]

    def restart(self, offset: int) -> None:
        """The log is empty, and goes on at `offset`."""
        self.batches, self.removed, self.empty_at = [], {}, offset

    def cut(self, end: int) -> None:
        """The log was found to end at `end`, which must be where a batch ended."""
        ends = [self.empty_at, *(batch.next for batch in self.batches)]
        assert end in ends, f"the log ends at {end}, where no batch ended"
        self.batches = [batch for batch in self.batches if batch.next <= end]
        self.removed = {offset: None for offset in self.removed if offset < end}


class Story:
    """One log's life. Each operation is a coroutine method; the crash may come in any of them."""

    def __init__(self, seed: int, config: LogConfig) -> None:
        self.rng = Rng(seed)
        self.config = config
        self.files = VirtualFiles(self.rng.fork(), cold_read_probability=0.3)
        self.model = Model()
        self.high_watermark = 0
        self.compacted_below = 0
        self.failing_syncs = 0
        self.epoch = 0
        self.values = 0
        self.producers: dict[int, int] = {1: 0, 2: 0}  # next sequence
        self.crashes: list[str] = []
        self.power_fails = False
        self.loop = asyncio.get_running_loop()
        self.clock = VirtualClock(self.loop, wall_offset_ms=WALL_START_MS)
        self.log: PartitionLog
        self.task: asyncio.Task[None] | None = None
        self.files.on_crash(self._on_crash)

    # -- the node's life

    async def start(self) -> None:
        self.files.make_directory("/data")
        self.files.sync_directory("/")
        await self.boot()

    async def boot(self) -> None:
        speed = DiskSpeed(self.rng.fork())
        self.blocking = VirtualBlocking(speed)
        self.workers = VirtualWorkers(self.rng.fork(), speed)
        self.writer = DiskWriter(self.files, self.workers, "/data")
        segment_files = SegmentFiles(self.files, self.blocking, max_open=2)
        disk = Disk(self.files, self.blocking, self.clock, self.writer, segment_files)
        self.log = await open_log(disk, DIRECTORY, self.config)

    def _on_crash(self, call: str) -> None:
        self.crashes.append(call)
        if self.task is not None:
            self.task.cancel()

    async def run(self, operation, *arguments) -> None:  # type: ignore[no-untyped-def]
        """One operation, and if the node dies in it, its restart and the check of what it kept."""
        self.task = self.loop.create_task(operation(self, *arguments))
        try:
            await self.task
        except (asyncio.CancelledError, SimulatedCrash):
            assert self.files.crashed
        except DiskFailed:
            await self.recover()
        finally:
            self.task = None
        if self.files.crashed:
            await self.recover()

    async def recover(self) -> None:
        if self.files.syncs_to_fail < self.failing_syncs:
            # What a failed sync left in memory would look durable to the next process: the machine must go, too.
            self.power_fails = True
            self.failing_syncs = self.files.syncs_to_fail
        log = getattr(self, "log", None)
        kept_end = self._must_keep(log)
        start_bounds = (self.model.start, log.start_offset if log is not None else self.model.start)
        while True:
            self.workers.kill()
            self.blocking.kill()
            if self.power_fails:
                self.files.power_failure()
            else:
                self.files.process_crash()
            if self.rng.random() < 0.3:  # die again while recovering
                self.files.crash_at(self.files.calls + self.rng.randint(1, 30))
            self.task = self.loop.create_task(self.boot())
            try:
                await self.task
            except (asyncio.CancelledError, SimulatedCrash):
                assert self.files.crashed
                continue
            except DiskFailed:
                self.power_fails = True  # as above
                kept_end = self._must_keep(log)
                continue
            finally:
                self.task = None
            break
        self.files.points.restart()
        await self.check_after_crash(kept_end, start_bounds)

    def _must_keep(self, log: PartitionLog | None) -> int:
        if log is None:
            return 0
        return log.synced_end if self.power_fails else min(log.stable_end, log.end_offset)

    async def check_after_crash(self, kept_end: int, start_bounds: tuple[int, int]) -> None:
        log, model = self.log, self.model
        assert log.end_offset >= kept_end, f"ends at {log.end_offset}, and was durable up to {kept_end}"
        assert start_bounds[0] <= log.start_offset <= max(start_bounds), f"starts at {log.start_offset}: {start_bounds}"
        model.start = log.start_offset
        if self.config.flush_mode is FlushMode.OS and log.end_offset == log.start_offset:
            model.restart(log.end_offset)  # all that the start had not passed was never synced
        elif log.end_offset != model.end:
            model.cut(log.end_offset)
        self.high_watermark = min(self.high_watermark, log.end_offset)
        self._forget_sequences()
        await self.check()

    def _forget_sequences(self) -> None:
        for producer in self.producers:
            last = [batch.last_sequence for batch in self.model.batches if batch.producer_id == producer]
            known = dict(self.log.producers.entries()).get(producer)
            if last:
                assert known is not None, f"producer {producer} is forgotten"
                assert known.batches[-1].last_sequence == last[-1]
            self.producers[producer] = known.batches[-1].last_sequence + 1 if known is not None else 0

    # -- checks

    async def read_all(self, start: int, bound: int | None = None) -> list[Record]:
        records, offset = [], start
        end = self.log.end_offset if bound is None else bound
        while offset < end:
            found = await self.log.read(offset, self.rng.choice([1, 100, 300, 5000]), bound)
            if not found.buffers:
                break
            assert found.next_offset > offset
            for buffer in found.buffers:
                for position, header in iterate_batches(buffer):
                    batch = buffer[position : position + header.total_bytes]
                    records += [record for record in decode_records(batch) if record.offset >= start]
                    if header.record_count:
                        assert self.log.epochs.epoch_at(header.last_offset) == header.leader_epoch
            offset = found.next_offset
        return records

    async def check(self) -> None:
        """All of the log is what the model says, but for what compaction may take."""
        log, model = self.log, self.model
        assert log.end_offset == model.end
        found = await self.read_all(log.start_offset)
        assert [record.offset for record in found] == sorted({record.offset for record in found})
        expected = {record.offset: record for record in model.records() if record.offset >= log.start_offset}
        for record in found:
            assert expected.get(record.offset) == record
        self.note_removed(found)

    def note_removed(self, found: list[Record]) -> None:
        """What is missing was compacted away: it had a later record of its key below the bound, or was a tombstone.

        It may be missed late: the newest records are read from memory, where nothing is compacted.
        """
        there = {record.offset for record in found}
        latest: dict[bytes | None, int] = {}
        for record in self.model.records():
            if record.offset < self.compacted_below:
                latest[record.key] = record.offset
        for record in self.model.records():
            if record.offset in there or record.offset < self.log.start_offset or record.offset in self.model.removed:
                continue
            superseded = latest.get(record.key, -1) > record.offset
            expired = record.value is None and record.offset < self.log.checkpointed.tombstones_removed_below
            assert superseded or expired, f"compaction lost {record}"
            self.model.removed[record.offset] = None

    # -- operations

    def _records(self, count: int, base: int, keys: int, spread_ms: int) -> list[Record]:
        now = self.clock.wall_ms()
        made = []
        for index in range(count):
            self.values += 1
            key = b"key-%d" % self.rng.randrange(keys)
            value = None if self.rng.random() < 0.1 else b"value-%d" % self.values + b"." * self.rng.randrange(60)
            timestamp = max(0, now - self.rng.randrange(spread_ms + 1))
            made.append(Record("", 0, base + index, timestamp, key, value, ()))
        return made  # type: ignore[return-value]

    def _encode(self, records: list[Record], **fields: int) -> bytes:
        return encode_batch(
            [record.value for record in records],
            keys=[record.key for record in records],
            timestamps=[record.timestamp for record in records],
            magic=self.rng.choice([MAGIC_COLUMNS, MAGIC_ROWS]),
            **fields,  # type: ignore[arg-type]
        )

    async def append(self, count: int, producer: int) -> None:
        if self.log.epochs.latest is None or self.log.epochs.latest.epoch != self.epoch:
            self.next_epoch_now()
        records = self._records(count, self.log.end_offset, keys=5, spread_ms=100)
        fields, sequence = {}, -1
        if producer:
            sequence = self.producers[producer]
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        admitted = admit(self._encode(records, **fields), self.config, self.clock.wall_ms())
        base = self.log.end_offset
        appended = self.log.append_as_leader(admitted, self.epoch)
        assert (appended.base_offset, appended.next_offset, appended.is_duplicate) == (base, base + count, False)
        last_sequence = sequence + count - 1 if producer else -1
        self._appended(ModelBatch(base, base + count, self.epoch, tuple(records), producer or -1, last_sequence))
        if producer:
            self.producers[producer] += count
            again = self.log.append_as_leader(admitted, self.epoch)
            assert (again.base_offset, again.next_offset, again.is_duplicate) == (base, base + count, True)

    def _appended(self, batch: ModelBatch) -> None:
        self.model.batches.append(batch)

    async def follow(self, batches: int, hole: int) -> None:
        """Replicate a frame of several batches, perhaps with holes and a new epoch at its start."""
        start = offset = self.log.end_offset
        parts, added, epochs = [], [], []
        if self.log.epochs.latest is None or self.rng.random() < 0.3:
            self.epoch = max(self.epoch, self.log.epochs.latest.epoch if self.log.epochs.latest else 0) + 1
            epochs = [EpochEntry(self.epoch, start)]
        epoch = epochs[0].epoch if epochs else self.log.epochs.latest.epoch
        for _ in range(batches):
            offset += self.rng.randrange(hole + 1)
            records = self._records(self.rng.randint(1, 3), offset, keys=5, spread_ms=100)
            parts.append(stamp(self._encode(records), offset, epoch))
            added.append(ModelBatch(offset, offset + len(records), epoch, tuple(records)))
            offset += len(records)
        self.log.append_as_follower(ReplicaFrame(start, offset, b"".join(parts), epochs))
        for batch in added:
            self._appended(batch)

    def next_epoch_now(self) -> None:
        latest = self.log.epochs.latest
        self.epoch = max(self.epoch, latest.epoch if latest is not None else 0) + 1
        self.log.assign_epoch(self.epoch)

    async def next_epoch(self) -> None:
        self.next_epoch_now()

    async def wait_stable(self) -> None:
        await self.log.wait_stable(self.log.end_offset)
        assert self.log.stable_end == self.log.end_offset

    async def pause(self, milliseconds: int) -> None:
        await self.clock.sleep_ms(milliseconds)

    async def advance_watermark(self) -> None:
        self.high_watermark = max(self.high_watermark, self.log.stable_end)

    async def roll(self) -> None:
        if self.log.segments.active.size_bytes:
            self.log.roll()

    async def read(self, at: float, max_bytes: int, below: float) -> None:
        log = self.log
        start = log.start_offset + int(at * (log.end_offset - log.start_offset))
        bound = start + int(below * (log.end_offset - start))
        found = await log.read(start, max_bytes, bound)
        records = [
            record
            for buffer in found.buffers
            for position, header in iterate_batches(buffer)
            for record in decode_records(buffer[position : position + header.total_bytes])
        ]
        expected = {record.offset: record for record in self.model.records()}
        for record in records:
            assert expected[record.offset] == record
            assert record.offset < bound
        whole = [batch for batch in self.model.batches if batch.next > start and batch.next <= bound]
        if whole and not self.compacted_below:
            assert records[0].offset == whole[0].base
            assert [record.offset for record in records] == [
                record.offset for batch in whole for record in batch.records if batch.next <= found.next_offset
            ]
        sizes = sum(len(buffer) for buffer in found.buffers)
        batches = [header for buffer in found.buffers for _, header in iterate_batches(buffer)]
        assert sizes <= max_bytes or len(batches) == 1

    async def read_out_of_range(self) -> None:
        for offset in (self.log.start_offset - 1, self.log.end_offset + 1):
            with pytest.raises(OffsetOutOfRange) as refused:
                await self.log.read(offset, 100)
            valid_range = (refused.value.start_offset, refused.value.end_offset)
            assert valid_range == (self.log.start_offset, self.log.end_offset)

    async def find_time(self, at: float) -> None:
        records = [r for r in self.model.records() if r.offset >= self.log.start_offset]
        records = [r for r in records if r.offset not in self.model.removed]
        if not records or self.compacted_below:
            return
        timestamp = records[int(at * (len(records) - 1))].timestamp
        expected = next((r for r in records if r.timestamp >= timestamp), None)
        found = await self.log.offset_for_time(timestamp)
        assert found is not None
        assert expected is not None
        assert (found.offset, found.timestamp) == (expected.offset, expected.timestamp)
        greatest = max(records, key=lambda record: record.timestamp)
        assert (await self.log.greatest_timestamp()).offset == greatest.offset

    async def truncate(self, at: float) -> None:
        log = self.log
        lowest = max(self.high_watermark, log.start_offset)
        offset = lowest + int(at * (log.end_offset - lowest))
        end = await log.truncate(offset)
        ends = [batch.next for batch in self.model.batches if batch.next <= offset]
        assert end <= offset or end == log.end_offset
        self.model.cut(log.end_offset)
        assert end == (ends[-1] if ends else end)
        self._forget_sequences()
        await self.check()

    async def delete_prefix(self, at: float) -> None:
        log = self.log
        offset = log.start_offset + int(at * (max(self.high_watermark, log.start_offset) - log.start_offset))
        log.delete_prefix(offset)
        assert log.start_offset == offset
        if self.rng.random() < 0.5:
            await self.log.flush()
            self.model.start = offset
            await self.check()

    async def retention(self, wait_ms: int) -> None:
        await self.clock.sleep_ms(wait_ms)
        before = self.log.start_offset
        await apply_retention(self.log, self.clock.wall_ms(), self.high_watermark)
        assert before <= self.log.start_offset <= max(self.high_watermark, before)

    async def compact(self) -> None:
        now_ms = self.clock.wall_ms()
        self.compacted_below = max(self.compacted_below, self.high_watermark)
        unsettled = self.log.checkpointed.first_dirty
        try:
            await compact(self.log, self.high_watermark, now_ms, max_keys=4)
        finally:
            if not self.files.crashed:
                assert self.log.checkpointed.first_dirty >= unsettled
        assert self.log.checkpointed.first_dirty <= max(self.high_watermark, unsettled)
        await self.check()

    async def checkpoint(self) -> None:
        await self.log.checkpoint()
        assert self.log.recovery_point <= self.log.synced_end

    async def flush(self) -> None:
        end = self.log.end_offset
        await self.log.flush()
        assert self.log.synced_end >= end

    async def reopen(self) -> None:
        end, start = self.log.end_offset, self.log.start_offset
        await self.log.close()
        if self.log.failure is not None:
            raise self.log.failure
        await self.writer.close()
        await self.boot()
        assert (self.log.start_offset, self.log.end_offset) == (start, end)
        self.model.start = start
        await self.check()

    async def fail_sync(self) -> None:
        """The next sync of a file or a directory fails, whoever asks for it."""
        self.failing_syncs += 1
        self.files.fail_next_sync()

    async def cancel(self, milliseconds: float) -> None:
        """Whoever flushes gives up after a while; the log bears it."""
        flushing = self.loop.create_task(self.log.flush())
        await self.clock.sleep_ms(milliseconds)
        flushing.cancel()
        outcome = (await asyncio.gather(flushing, return_exceptions=True))[0]
        if isinstance(outcome, DiskFailed):
            raise outcome

    async def crash_soon(self, calls: int, power: bool) -> None:
        self.power_fails = power
        self.files.crash_at(self.files.calls + calls)

    async def check_all(self) -> None:
        await self.check()
