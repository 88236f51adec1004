"""The data directories of a broker: the placement of logs, and their removal."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import UUID

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, TopicId
from lograft.runtime.blocking import run_to_end
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.files import Files, is_shortage
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.retry import ExponentialWait, retrying
from lograft.runtime.world import Runtime
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.data_directory import DataDirectory
from lograft.storage.log.remains import Remains, keep, survey

log = get_logger(__name__)

T = TypeVar("T")

_SHORTAGE_PAUSE_MS = 200
QUARANTINE_MS = 7 * 24 * 3600 * 1000

_REMOVED = "-removed."
_STRAY = "-stray."


@dataclass(slots=True, eq=False)
class LogDirectory:
    """One data directory.

    `names`: the partitions with a log there. `watermarks`: the contents of the watermark file after pending writes.
    `gone`: partitions that the file may still name, although this broker has removed their logs."""

    data: DataDirectory
    names: dict[PartitionName, None] = field(default_factory=dict)
    watermarks: dict[PartitionName, int] = field(default_factory=dict)
    gone: dict[PartitionName, None] = field(default_factory=dict)
    has_failed: bool = False
    _forgetting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _unnoted: dict[PartitionName, int] = field(default_factory=dict)
    _noting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def identity(self) -> UUID:
        return self.data.identity

    def path_of(self, name: PartitionName) -> str:
        return f"{self.data.path}/{name}"

    def noted_watermark(self, name: PartitionName) -> int | None:
        """Return the noted watermark of a log, or None if there is none or the log has been put away."""
        return None if name in self.gone else self.watermarks.get(name)

    async def note_opened(self, name: PartitionName, end_offset: int) -> None:
        """Note the log in the watermark file, so that it is not mistaken for a new log if its files go missing.

        Also lower a noted watermark above the log's end. Logs that are opened together share one write.
        """
        self.gone.pop(name, None)
        noted = self.watermarks.get(name)
        if noted is not None and noted <= end_offset:
            return
        self._unnoted[name] = min(noted or 0, end_offset)
        async with self._noting:
            if name in self._unnoted:
                unnoted, self._unnoted = self._unnoted, {}
                await self._write({**self.watermarks, **unnoted})

    async def note_watermarks(self, watermarks: Mapping[PartitionName, int]) -> None:
        """Write watermarks for use after a crash; keep those of other logs in the directory.

        Omit logs that have been put away, although their replicas may still exist while files are removed. If they were
        noted again, the log would count as missing when the partition returns.
        """
        noted = {**self.watermarks, **watermarks}
        await self._write({name: watermark for name, watermark in noted.items() if name in self.names})

    async def lower_watermark(self, name: PartitionName, high_watermark: int) -> None:
        """Lower the noted watermark durably, before any later write: a higher one would declare records written there
        later as committed."""
        if self.watermarks.get(name, 0) > high_watermark:
            await self._write({**self.watermarks, name: high_watermark})

    async def forget_gone(self) -> None:
        """Remove gone logs from the watermark file. Call it before removing their files, or the logs would count as
        missing. Logs that are removed together share one write."""
        async with self._forgetting:
            gone, self.gone = self.gone, {}
            lost = [name for name in gone if name not in self.names]  # the others were created again
            await self._write({name: value for name, value in self.watermarks.items() if name not in lost})

    async def _write(self, watermarks: dict[PartitionName, int]) -> None:
        if watermarks != self.watermarks:
            self.watermarks = watermarks
            await self.data.write_high_watermarks(watermarks)


class LogDirectories:
    """All data directories of a broker. Call `load` first."""

    def __init__(self, runtime: Runtime, directories: Sequence[DataDirectory]) -> None:
        self._runtime = runtime
        self._directories = [LogDirectory(data) for data in directories]
        self.all_failed = asyncio.Event()

    async def note_used(self, epoch: BrokerEpoch) -> dict[LogDirectory, DiskFailed]:
        """Write this epoch into each directory, before any other write. Return the directories where that failed, with
        the errors: they must not count as used in this epoch."""
        failures: dict[LogDirectory, DiskFailed] = {}
        for directory in self.healthy:
            try:
                await directory.data.note_used(epoch)
            except DiskFailed as error:
                failures[directory] = error
        return failures

    async def load(self) -> None:
        """List the logs in all directories."""
        for directory in self._directories:
            directory.names = dict.fromkeys(await directory.data.partitions())
            directory.watermarks = await directory.data.read_high_watermarks()

    def forget_missing(self) -> None:
        """Mark noted logs without files as gone. Call it once all assigned logs have been checked."""
        for directory in self._directories:
            missing = [name for name in directory.watermarks if name not in directory.names]
            directory.gone.update(dict.fromkeys(missing))

    @property
    def healthy(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.has_failed]

    def fail(self, directory: LogDirectory) -> None:
        """Mark the directory as failed: the broker no longer uses it."""
        directory.has_failed = True
        if not self.healthy:
            self.all_failed.set()

    def copies(self, name: PartitionName) -> list[LogDirectory]:
        """Return the healthy directories with a log of the partition."""
        return [directory for directory in self.healthy if name in directory.names]

    def names(self) -> list[PartitionName]:
        """Return all partitions that have a log in a healthy directory."""
        return list(dict.fromkeys(name for directory in self.healthy for name in directory.names))

    def choose(self, name: PartitionName, wanted: UUID | None) -> LogDirectory | None:
        """Return the directory for the partition's log: the one in the metadata; otherwise one that has a log;
        otherwise the one with the fewest logs, preferring those with free space. Return None if all have failed."""
        healthy = self.healthy
        for directory in (*(one for one in healthy if one.identity == wanted), *self.copies(name)):
            return directory
        return min(healthy, key=lambda directory: (directory.data.space.is_full, len(directory.names)), default=None)

    # -- removal

    async def remove(self, directory: LogDirectory, name: PartitionName) -> None:
        """Remove a partition's log, which must not be open. Rename it first, then delete its files; readers that have
        them open may finish."""
        path = await self._put_away(directory, name, _REMOVED)
        if path is not None:
            await run_to_end(self._runtime.blocking, _remove_all, self._runtime.files, [path])

    async def quarantine(self, directory: LogDirectory, name: PartitionName, reason: str) -> None:
        """Put a whole log aside for seven days."""
        path = await self._put_away(directory, name, _STRAY)
        if path is not None:
            log.warning("log_put_aside", path=path, reason=reason)

    async def survey(self, directory: LogDirectory, name: PartitionName) -> Remains | None:
        """Return the readable remains of a damaged log, which must not be open. Return None if there are none."""
        return await self._beside(directory, name, partial(survey, self._runtime.files, directory.path_of(name)))

    async def keep_remains(self, directory: LogDirectory, name: PartitionName, *, is_compacted: bool) -> bool:
        """Replace a damaged log with its readable remains, and put the rest aside. If nothing remains, do nothing and
        return False."""
        remains = await self.survey(directory, name)
        if remains is None:
            return False
        await directory.lower_watermark(name, remains.end_offset)
        aside = f"{directory.path_of(name)}{_STRAY}{self._runtime.clock.wall_ms()}"
        files, path = self._runtime.files, directory.path_of(name)
        keep_it = partial(keep, files, path, remains, aside, is_compacted=is_compacted)
        await self._beside(directory, name, keep_it)
        log.warning(
            "damaged_log_kept", partition=str(name), start=remains.start_offset, end=remains.end_offset, aside=aside
        )
        return True

    async def _beside(self, directory: LogDirectory, name: PartitionName, action: Callable[[], T]) -> T:
        """Run `action` to its end, and retry while descriptors are short. Treat any other error as a disk failure."""

        async def run() -> T:
            try:
                return await run_to_end(self._runtime.blocking, action)
            except OSError as error:
                if not is_shortage(error):
                    await directory.data.disk.writer.fail(directory.path_of(name), error)
                raise

        wait = ExponentialWait(None, _SHORTAGE_PAUSE_MS, _SHORTAGE_PAUSE_MS)
        return await retrying(self._runtime.clock, wait, on=OSError)(run)

    async def purge(self) -> None:
        """Delete logs whose removal was interrupted, and quarantined logs that have expired."""
        oldest_ms = self._runtime.clock.wall_ms() - QUARANTINE_MS
        for directory in self.healthy:
            path = directory.data.path
            with suppress(DiskFailed):  # the disk reports the failure to the directory's logs
                await directory.forget_gone()
                await run_to_end(self._runtime.blocking, _purge, self._runtime.files, path, oldest_ms)

    async def _put_away(self, directory: LogDirectory, name: PartitionName, suffix: str) -> str | None:
        """Forget the log, then rename it. In this order, a new log in its place counts as missing if it is lost later.
        After a crash in between, the caller repeats the request."""
        files, parent = directory.data.disk.writer.files, directory.data.path
        directory.names.pop(name, None)
        directory.gone[name] = None
        await directory.forget_gone()
        rename = partial(_rename_aside, files, parent, str(name), suffix, self._runtime.clock.wall_ms())
        return await directory.data.disk.writer.call(rename)


def _rename_aside(files: Files, parent: str, name: str, suffix: str, now_ms: int) -> str | None:
    if not files.exists(f"{parent}/{name}"):
        return None
    while files.exists(path := f"{parent}/{name}{suffix}{now_ms}"):
        now_ms += 1
    files.rename(f"{parent}/{name}", path)
    files.sync_directory(parent)
    return path


def _purge(files: Files, parent: str, oldest_ms: int) -> None:
    try:
        names = files.list_directory(parent)
    except OSError as error:
        log.warning("directory_not_read", path=parent, reason=str(error))
        return
    _remove_all(
        files,
        [f"{parent}/{name}" for name in names if _is_removed(name) or _was_put_aside_before(name, oldest_ms)],
    )


def _is_removed(name: str) -> bool:
    return _renamed_ms(name, _REMOVED) is not None


def _was_put_aside_before(name: str, oldest_ms: int) -> bool:
    at_ms = _renamed_ms(name, _STRAY)
    return at_ms is not None and at_ms < oldest_ms


def _renamed_ms(name: str, suffix: str) -> int | None:
    """Return the time at which a log was renamed with this suffix, or None if it was not. A topic's name may contain
    the suffix, but the names of its logs end in an id."""
    original, _, at_ms = name.rpartition(suffix)
    return int(at_ms) if PartitionName.parse(original) is not None and at_ms.isdecimal() else None


def _remove_all(files: Files, paths: Sequence[str]) -> None:
    """Delete directories without subdirectories. The next purge retries those that cannot be deleted now."""
    for path in paths:
        try:
            for name in files.list_directory(path):
                files.remove(f"{path}/{name}")
            files.remove_directory(path)
        except OSError as error:
            log.warning("log_not_removed", path=path, reason=str(error))


async def settle_strays(directories: LogDirectories, image: ClusterImage, broker_id: BrokerId) -> None:
    """Remove or quarantine logs that the metadata do not place here. Call it once, before any log is opened, with an
    image that has the broker's own registration."""
    for name in directories.names():
        topic_id = TopicId(name.topic_id)
        partition = image.partition(topic_id, name.partition)
        wanted = partition.directory_of(broker_id) if partition is not None else None
        chosen = directories.choose(name, wanted) if wanted is not None else None
        is_gone = partition is not None or topic_id in image.deleted_topics
        for directory in directories.copies(name):
            if directory is chosen:
                continue
            with suppress(DiskFailed):  # opening a log there reports the failure
                if wanted is not None:
                    await directories.quarantine(directory, name, "the replica is in another directory")
                elif is_gone:
                    await directories.remove(directory, name)
                else:
                    await directories.quarantine(directory, name, "the metadata has no such partition")
