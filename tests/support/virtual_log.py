"""A log on a simulated disk that can be crashed, counted and stepped by hand; and one on the files of this machine."""

import asyncio
import functools
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from lograft.chaos.world.crash import CrashPoints, SimulatedCrash
from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.loop import VirtualClock, run_virtual
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.runtime.clock import LoopClock
from lograft.runtime.disk.disk_writer import DiskWriter
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import encode_batch, iterate_batches
from lograft.storage.batch.header import BatchHeader, check_crc, parse_header, stamp
from lograft.storage.files.segment import SegmentFiles
from lograft.storage.log.admission import Admitted
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_disk import Disk
from lograft.storage.log.partition_log import AppendedBatch, PartitionLog, open_log
from lograft.storage.log.replica_frame import ReplicaFrame
from lograft.storage.state.epoch_cache import EpochEntry

ROOT = "/data"
DIRECTORY = "/data/topic-0.00000000000000000000000000000001"
NOW_MS = 1_800_000_000_000


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A coroutine test that runs on a loop of its own, in virtual time."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        run_virtual(lambda: test(*arguments, **named), max_virtual_seconds=1e6)

    return run


# -- the simulated machine


class RecordingPoints(CrashPoints):
    """Remembers every call to the disk: `sync 00000000000000000000.log`."""

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.names: list[str] = []
        self.open_files: Counter[str] = Counter()

    def call(self, name: str, effect: Callable[[], Any], partial: Callable[[], object] | None = None) -> Any:
        self.names.append(name)
        result = super().call(name, effect, partial)
        kind, _, path = name.partition(" ")
        self.open_files[path] += {"open": 1, "create": 1, "close": -1}.get(kind, 0)
        return result


class Machine:
    """A node's disk, clock and threads; the disk outlives its crashes. Make it on a virtual loop."""

    def __init__(self, seed: int = 0, *, cold_reads: float = 0.0, max_open: int = 1024, slowdown: float = 1.0) -> None:
        self._rng = Rng(seed)
        self._max_open = max_open
        self._slowdown = slowdown
        self.files = VirtualFiles(self._rng.fork(), cold_read_probability=cold_reads)
        self.points = RecordingPoints(self._rng.fork())
        self.files.points = self.points
        self.files.make_directory(ROOT)
        self.files.sync_directory("/")
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.boot()

    def boot(self) -> None:
        """New threads, and nothing queued."""
        self.speed = DiskSpeed(self._rng.fork(), self._slowdown)
        self.blocking = VirtualBlocking(self.speed)
        self.workers = VirtualWorkers(self._rng.fork(), self.speed)
        self.writer = DiskWriter(self.files, self.workers, ROOT)
        self.segment_files = SegmentFiles(self.files, self.blocking, self._max_open)
        self.disk = Disk(self.files, self.blocking, self.clock, self.writer, self.segment_files)

    async def open(
        self, config: LogConfig | None = None, directory: str = DIRECTORY, noted_watermark: int | None = None
    ) -> PartitionLog:
        return await open_log(self.disk, directory, config or LogConfig(), noted_watermark)

    def crash(self, *, power_fails: bool) -> None:
        """End everything at once, and boot again."""
        self.workers.kill()
        self.blocking.kill()
        if power_fails:
            self.files.power_failure()
        else:
            self.files.process_crash()
        self.boot()

    async def reopen(self, log: PartitionLog, config: LogConfig | None = None) -> PartitionLog:
        """Close it in good order and open it again."""
        await log.close()
        await self.writer.close()
        self.boot()
        return await self.open(config or log.config)

    # -- the content of the disk

    def content(self, name: str) -> bytes:
        return bytes(self.files._tree.file(f"{DIRECTORY}/{name}").content)

    def contents(self) -> dict[str, bytes]:
        """Every file of the partition."""
        return {name: self.content(name) for name in self.names()}

    def names(self) -> list[str]:
        return sorted(self.files._tree.directory(DIRECTORY).entries)

    def overwrite(self, name: str, content: bytes) -> None:
        """Durably give a file another content, as whoever damages it would."""
        file = self.files.create(f"{DIRECTORY}/{name}")
        file.write(0, [content])
        file.sync()
        file.close()
        self.files.sync_directory(DIRECTORY)

    def remove(self, name: str) -> None:
        self.files.remove(f"{DIRECTORY}/{name}")
        self.files.sync_directory(DIRECTORY)

    def restore(self, contents: dict[str, bytes]) -> None:
        """Bring the partition back to what `contents` gave."""
        for name in self.names():
            if name not in contents:
                self.remove(name)
        for name, content in contents.items():
            self.overwrite(name, content)

    # -- calls

    def count(self, call: str, part: str = "") -> int:
        """How many calls of this kind there were, on names that contain `part`."""
        return sum(name.startswith(f"{call} ") and part in name for name in self.points.names)

    def open_files(self) -> Counter[str]:
        """How often each name was opened or created, and not closed."""
        return +self.points.open_files


async def crashes(machine: Machine, call: int, doing: Coroutine[Any, Any, object]) -> bool:
    """Run `doing` and crash in the call of this number from now on; False if there were not so many."""
    task = asyncio.ensure_future(doing)
    machine.files.on_crash(lambda name: task.cancel())  # type: ignore[arg-type]
    machine.files.crash_at(machine.files.calls + call)
    try:
        await task
    except (asyncio.CancelledError, SimulatedCrash):
        assert machine.files.crashed
        return True
    machine.points.restart()
    return False


# -- a worker that a test moves on itself


class HandWorker:
    """Does nothing until told to: `perform` is the disk's part of a round, `report` the loop's."""

    def __init__(self, perform: Callable[[list[Any]], Any], completed: Callable[[Any], None]) -> None:
        self._perform = perform
        self._completed = completed
        self.queue: list[Any] = []
        self._results: deque[Any] = deque()

    def submit(self, operation: Any) -> None:
        self.queue.append(operation)

    def perform(self, count: int | None = None) -> None:
        """One round of the first `count` operations, or of all."""
        taken = self.queue[:count]
        del self.queue[: len(taken)]
        self._results.append(self._perform(taken))

    def report(self) -> None:
        """The oldest round that was performed becomes known."""
        self._completed(self._results.popleft())

    def step(self) -> None:
        self.perform()
        self.report()

    async def close(self) -> None:
        if self.queue:
            self.perform()
        while self._results:
            self.report()


class HandWorkers:
    """A `WorkerFactory` whose one worker is `worker`."""

    worker: HandWorker

    def __call__(self, name: str, perform: Callable[[list[Any]], Any], completed: Callable[[Any], None]) -> HandWorker:
        self.worker = HandWorker(perform, completed)
        return self.worker


async def hand_driven(machine: Machine, config: LogConfig) -> tuple[PartitionLog, HandWorker]:
    """A log, opened, whose disk moves only when the test says so."""
    workers = HandWorkers()
    writer = DiskWriter(machine.files, workers, ROOT)
    machine.disk = Disk(machine.files, machine.blocking, machine.clock, writer, machine.segment_files)
    machine.writer = writer
    log = await machine.open(config)
    workers.worker.step()
    return log, workers.worker


# -- the machine this runs on


@asynccontextmanager
async def os_disk(directory: Any, max_open: int = 1024) -> AsyncIterator[Disk]:
    """The disk this process sees; its threads are gone afterwards."""
    panics: list[BaseException] = []
    files, blocking, workers = OsFiles(), ThreadBlocking(2), ThreadWorkers(panics.append)
    writer = DiskWriter(files, workers, str(directory))
    try:
        yield Disk(files, blocking, LoopClock(), writer, SegmentFiles(files, blocking, max_open))
    finally:
        await writer.close()
        await workers.close()
        await blocking.close()
        files.close()
    assert panics == []


# -- batches


def make_batch(
    count: int = 1, *, value: bytes = b"value", at_ms: int = NOW_MS, offset: int = 0, epoch: int = -1, **fields: Any
) -> bytes:
    """A batch of `count` records like `value`."""
    values = [value + b"-%d" % number for number in range(count)]
    keys = [b"key-%d" % number for number in range(count)]
    batch = encode_batch(values, keys=keys, timestamps=at_ms, **fields)
    return stamp(batch, offset, epoch)


def admitted(batch: bytes) -> Admitted:
    return Admitted(parse_header(batch), batch)


def append(log: PartitionLog, count: int = 1, **fields: Any) -> AppendedBatch:
    """Append a batch as the leader of the log's latest epoch, which is 1 at first."""
    if log.epochs.latest is None:
        log.assign_epoch(1)
    latest = log.epochs.latest
    assert latest is not None
    return log.append_as_leader(admitted(make_batch(count, **fields)), latest.epoch)


def produce(log: PartitionLog, sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> AppendedBatch:
    """Append a batch of an idempotent producer."""
    return append(log, count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def frame(start: int, *batches: bytes, epochs: tuple[EpochEntry, ...] = (), end: int | None = None) -> ReplicaFrame:
    """A frame of these batches; it ends with the last one unless told otherwise."""
    last = parse_header(batches[-1]).next_offset if batches else start
    return ReplicaFrame(start, last if end is None else end, b"".join(batches), epochs)


async def headers(log: PartitionLog, start: int | None = None, max_bytes: int = 1000) -> list[BatchHeader]:
    """The header of every batch, each checked against its CRC."""
    offset = log.start_offset if start is None else start
    found: list[BatchHeader] = []
    while offset < log.end_offset:
        batches = await log.read(offset, max_bytes)
        if not batches.buffers:
            break
        for buffer in batches.buffers:
            for position, header in iterate_batches(buffer):
                check_crc(buffer, position, header)
                found.append(header)
        assert batches.next_offset > offset
        offset = batches.next_offset
    return found


async def offsets(log: PartitionLog, start: int | None = None, max_bytes: int = 1000) -> list[int]:
    """The base offset of every batch."""
    return [header.base_offset for header in await headers(log, start, max_bytes)]


def facts(log: PartitionLog) -> dict[str, Any]:
    """All that a caller can see of a log's state: it is the same when nothing changed."""
    return {
        "start": log.start_offset,
        "end": log.end_offset,
        "epochs": list(log.epochs),
        "producers": log.producers.encode(),
        "checkpointed": log.checkpointed,
        "size_bytes": log.size_bytes,
        "segments": [segment.base_offset for segment in log.segments],
        "generation": log.generation,
    }
