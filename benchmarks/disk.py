"""A data directory to measure in: the production runtime on OS files, which count what they do where that is wanted."""

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lograft.runtime.disk.disk_writer import DiskWriter
from lograft.runtime.disk.os_files import raise_descriptor_limit
from lograft.runtime.files import Buffer, File, Files, Lock
from lograft.runtime.production.node_runtime import close_production_runtime, production_runtime
from lograft.storage.files.file_names import LOG_SUFFIX
from lograft.storage.files.segment import SegmentFiles
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_disk import Disk
from lograft.storage.log.partition_log import PartitionLog, open_log

EPOCH = 1


@dataclass(slots=True)
class Counts:
    """What was done to the files that hold batches, and what was read of the others."""

    data_bytes_read: int = 0
    other_bytes_read: int = 0
    data_syncs: int = 0


class CountingFile:
    """A file that counts what it is asked for."""

    __slots__ = ("_counts", "_file", "_is_data")

    def __init__(self, file: File, counts: Counts) -> None:
        self._file = file
        self._counts = counts
        self._is_data = file.path.endswith(LOG_SUFFIX)

    @property
    def path(self) -> str:
        return self._file.path

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._file.write(position, buffers)

    def read(self, position: int, size: int) -> bytes:
        data = self._file.read(position, size)
        self._count_read(len(data))
        return data

    def read_cached(self, position: int, size: int) -> bytes | None:
        data = self._file.read_cached(position, size)
        self._count_read(0 if data is None else len(data))
        return data

    def _count_read(self, size: int) -> None:
        if self._is_data:
            self._counts.data_bytes_read += size
        else:
            self._counts.other_bytes_read += size

    def sync(self) -> None:
        self._counts.data_syncs += self._is_data
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class CountingFiles:
    """A file system whose open files count into `counts`."""

    def __init__(self, files: Files, counts: Counts) -> None:
        self._files = files
        self._counts = counts

    def open(self, path: str) -> File:
        return CountingFile(self._files.open(path), self._counts)

    def create(self, path: str) -> File:
        return CountingFile(self._files.create(path), self._counts)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def list_directory(self, path: str) -> list[str]:
        return self._files.list_directory(path)

    def make_directory(self, path: str) -> None:
        self._files.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._files.rename(old, new)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def remove_directory(self, path: str) -> None:
        self._files.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self._files.sync_directory(path)

    def sync_all(self, files: Sequence[File]) -> None:
        self._files.sync_all(files)

    def lock(self, path: str) -> Lock:
        return self._files.lock(path)

    def free_bytes(self, path: str) -> int:
        return self._files.free_bytes(path)

    def disk_bytes(self, path: str) -> int:
        return self._files.disk_bytes(path)


@dataclass(slots=True)
class Bench:
    """Where logs are made for measuring. `counts` has what was done to files so far, if they count."""

    directory: str
    disk: Disk
    counts: Counts
    _made: int = 0

    def fresh_path(self, kind: str) -> str:
        self._made += 1
        return f"{self.directory}/{kind}-{self._made}"

    async def make_log(self, config: LogConfig) -> PartitionLog:
        """A new, empty log, ready to be appended to, with nothing of its making still under way."""
        log = await open_log(self.disk, self.fresh_path("log"), config)
        log.assign_epoch(EPOCH)
        await self.disk.writer.call(lambda: None)
        return log

    async def abandon(self, log: PartitionLog) -> None:
        """Let go of a log's files as a killed process would: what was written is there, and no notes were left."""
        append_file = log.segments.active.append_file
        if append_file is not None:
            self.disk.writer.release(append_file)
            await self.disk.writer.call(lambda: None)
        log.segments.close()

    async def discard(self, log: PartitionLog) -> None:
        await self.abandon(log)
        # What is removed before it is written back never reaches the disk: the next contender has it to itself.
        shutil.rmtree(log.directory)

    def segment_path(self, log: PartitionLog) -> str:
        """The file of a log that has one segment."""
        assert len(log.segments) == 1
        return log.segments.active.path


@asynccontextmanager
async def open_bench(directory: str, *, is_counting: bool) -> AsyncIterator[Bench]:
    """A bench on the production runtime in an existing directory. Counting costs about a microsecond a file call."""
    raise_descriptor_limit()

    def panic(error: BaseException) -> None:
        print(f"a broken invariant: {error!r}", flush=True)
        os.abort()

    runtime = production_runtime(panic)
    counts = Counts()
    files: Files = CountingFiles(runtime.files, counts) if is_counting else runtime.files
    writer = DiskWriter(files, runtime.make_worker, directory)
    segment_files = SegmentFiles(files, runtime.blocking)
    try:
        yield Bench(directory, Disk(files, runtime.blocking, runtime.clock, writer, segment_files), counts)
    finally:
        await writer.close()
        await close_production_runtime(runtime)
