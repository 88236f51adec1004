"""A data directory: the lock on it, its identity, whose it is, how it was last left, and the partitions in it."""

from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from uuid import UUID

from lograft.runtime.blocking import run_to_end
from lograft.runtime.disk.disk_writer import DiskWriter
from lograft.runtime.files import FileLocked, Files, Lock, SyncFailed, parent_of, read_whole, replace_file
from lograft.runtime.world import Runtime
from lograft.storage.errors import DirectoryFailed, DirectoryRefused
from lograft.storage.files.file_names import PartitionName
from lograft.storage.files.sealed_file import BrokenSeal, seal, unseal
from lograft.storage.files.segment import SegmentFiles
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_disk import Disk
from lograft.storage.log.partition_log import PartitionLog, open_log
from lograft.storage.state.disk_space import default_reserve
from lograft.storage.state.used_epoch import RecordedUse, read_use, write_restored, write_used_epoch
from lograft.storage.state.watermarks_file import read_watermarks, write_watermarks

LOCK_FILE = "lock"
IDENTITY_FILE = "directory-id"
OWNER_FILE = "owner"
MARKER_FILE = "clean-shutdown"
FAILED_FILE = "failed"
MAX_SEGMENTS = 1024
IDENTITY_KIND = "lograft-directory-id-1"
OWNER_KIND = "lograft-owner-1"
MARKER_KIND = "lograft-clean-shutdown-1"


@dataclass(frozen=True, slots=True)
class DirectoryOwner:
    """The node that a directory belongs to, once and for all."""

    cluster_id: str
    node_id: int


class DataDirectory:
    """One disk's worth of partitions, held by one process. Made by `open_directory`, given back by `close`."""

    def __init__(self, runtime: Runtime, path: str, held: "_Held", max_segments: int) -> None:
        self.path = path
        self.identity = held.identity
        self.clean_epoch = held.clean_epoch  # the broker epoch of the last owner, if it left in good order
        self.use = held.use  # as the last owner left it
        self._runtime = runtime
        self._lock = held.lock
        self._is_marked = held.clean_epoch is not None
        self._writer = DiskWriter(runtime.files, runtime.make_worker, path, sync_failed=self._note_failure)
        segment_files = SegmentFiles(runtime.files, runtime.blocking, max_segments)
        self.disk = Disk(runtime.files, runtime.blocking, runtime.clock, self._writer, segment_files)
        self._open: dict[PartitionName, PartitionLog | None] = {}  # None while it is being opened
        self.space = self.disk.space
        self.space.path = path
        self._writer.on_refused = self.space.ran_out

    # -- its room

    async def reserve(self, reserve_bytes: int | None) -> None:
        """Take no more of users when only so much is left on the disk; None: a part of the disk."""
        files = self._runtime.files
        disk_bytes = await self._runtime.blocking.run_blocking(files.disk_bytes, self.path)
        self.space.disk_bytes = disk_bytes
        self.space.reserve_bytes = default_reserve(disk_bytes) if reserve_bytes is None else reserve_bytes
        await self.look_at_space()

    async def look_at_space(self) -> None:
        """See how much is left; what the disk has refused is tried again. To be called now and then."""
        free_bytes = await self._runtime.blocking.run_blocking(self._runtime.files.free_bytes, self.path)
        self.space.measured(free_bytes - self._writer.queued_bytes, is_stalled=self._writer.is_stalled)
        self._writer.retry()

    def stop_waiting(self) -> None:
        """What waits for room is given up: it is time to close."""
        self._writer.stop_waiting()

    # -- what is here

    async def entries(self) -> list[str]:
        """Return the names of all that is here."""
        return await self._runtime.blocking.run_blocking(self._runtime.files.list_directory, self.path)

    async def partitions(self) -> list[PartitionName]:
        """Return the partitions that are here, open or not."""
        return [partition for partition in map(PartitionName.parse, await self.entries()) if partition is not None]

    async def open_partition(
        self, name: PartitionName, config: LogConfig, noted_watermark: int | None = None
    ) -> PartitionLog:
        """Open a partition's log, making it if it is not there; see `open_log`. Once, until it is closed."""
        assert name not in self._open
        self._open[name] = None
        try:
            await self._unmark()
            log = self._open[name] = await open_log(self.disk, f"{self.path}/{name}", config, noted_watermark)
        except BaseException:
            del self._open[name]
            raise
        return log

    async def close_partition(self, name: PartitionName) -> None:
        """Close one partition's log; it may be opened again."""
        log = self._open[name]
        assert log is not None, "it is being opened"
        try:
            await log.close()
        finally:
            del self._open[name]

    async def note_used(self, broker_epoch: int) -> None:
        """Durably note the epoch that the directory is used in from now on, and that it has `high-watermarks`. Comes
        before anything in it is loaded, changed or opened."""
        assert not self._open, "used before it is noted"
        await self._writer.call(lambda: write_used_epoch(self._writer.files, self.path, broker_epoch))

    async def read_high_watermarks(self) -> dict[PartitionName, int]:
        """As last written. None if the file is missing or damaged: `note_used` makes it, and `use` tells that it was
        lost."""
        return await self._runtime.blocking.run_blocking(_watermarks_if_sound, self._runtime.files, self.path)

    async def write_high_watermarks(self, watermarks: Mapping[PartitionName, int]) -> None:
        await self._writer.call(lambda: write_watermarks(self._writer.files, self.path, watermarks))

    async def close(self, broker_epoch: int | None = None) -> None:
        """Close every partition and give the directory back; with `broker_epoch`, note that all was in order."""
        self.stop_waiting()
        try:
            async with AsyncExitStack() as logs:
                for name in self._open:
                    logs.push_async_callback(self.close_partition, name)  # each of them, though one may fail
            if broker_epoch is not None and self._writer.failure is None:
                await self._replace(MARKER_FILE, seal(MARKER_KIND, f"broker_epoch {broker_epoch}\n".encode()))
        finally:
            await self._writer.close()
            self._lock.release()

    async def _unmark(self) -> None:
        """Before anything is written here, the marker goes, durably."""
        if self._is_marked:
            await self._writer.call(self._remove_marker)
            self._is_marked = False

    def _remove_marker(self) -> None:
        marker = f"{self.path}/{MARKER_FILE}"
        if self._writer.files.exists(marker):  # who opens another partition at the same time may have been first
            self._writer.files.remove(marker)
        self._writer.files.sync_directory(self.path)

    def _note_failure(self, error: SyncFailed) -> None:
        """So that no later process believes what it reads here. Not synced: the note is there for as long as the kernel
        has what it pretends to be on the disk, and that is how long it is needed."""
        with suppress(OSError):  # a disk that takes no file at all does not take a lock either
            file = self._runtime.files.create(f"{self.path}/{FAILED_FILE}")
            try:
                file.write(0, [f"{error}\n".encode()])
            finally:
                file.close()

    async def _replace(self, name: str, content: bytes) -> None:
        await self._writer.call(lambda: replace_file(self._writer.files, f"{self.path}/{name}", content))


async def open_directory(
    runtime: Runtime, path: str, owner: DirectoryOwner | None = None, max_segments: int | None = None
) -> DataDirectory:
    """Take hold of the data directory at `path`, making it if it is not there; `DirectoryRefused` says why not.

    With `owner`, it must be theirs, and is from now on if it is new. `max_segments`: how many of its older segments
    are kept open.
    """
    held = await run_to_end(
        runtime.blocking, _take_hold, runtime.files, path, owner, runtime.rng.uuid(),
        dispose=lambda held: held.lock.release(),
    )  # fmt: skip
    return DataDirectory(runtime, path, held, max_segments or MAX_SEGMENTS)


def mark_restored(files: Files, path: str) -> UUID:
    """Mark the directory at `path`, which no process uses, as put back from a copy, and return its identity. What it
    has then counts for nothing until it has caught up. Raise `DirectoryRefused` if it cannot be marked."""
    if not files.exists(f"{path}/{IDENTITY_FILE}"):
        raise DirectoryRefused(
            f"{path} is not a data directory, for it has no {IDENTITY_FILE}: name one of the node's data_dirs"
        )
    try:
        lock = files.lock(f"{path}/{LOCK_FILE}")
    except FileLocked:
        raise DirectoryRefused(f"{path} is in use: stop its node first") from None
    except OSError as error:
        raise DirectoryRefused(f"{path} cannot be locked: {error.strerror}") from None
    try:
        identity = _identity(files, path, None)
        write_restored(files, path)
        return identity
    except OSError as error:
        raise DirectoryRefused(f"{path} cannot be marked: {error.strerror}; check the disk") from None
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class _Held:
    """A directory that is ours, as its last owner left it."""

    lock: Lock
    identity: UUID
    clean_epoch: int | None
    use: RecordedUse


def _take_hold(files: Files, path: str, owner: DirectoryOwner | None, fresh_identity: UUID) -> _Held:
    try:
        files.make_directory(path)
        files.sync_directory(parent_of(path))
        lock = files.lock(f"{path}/{LOCK_FILE}")
    except FileLocked:
        raise DirectoryRefused(f"{path} is in use by another process: stop it, or choose another directory") from None
    except FileExistsError:
        raise DirectoryRefused(
            f"{path} cannot be used: it is a file; move it away, or choose another directory"
        ) from None
    except OSError as error:
        raise DirectoryRefused(
            f"{path} cannot be used: {error.strerror}; check that it exists and is writable"
        ) from None
    try:
        # A stranger's directory is left as it is, so that comes first.
        is_owned = owner is not None and _belongs_to(files, path, owner)
        _refuse_failed(files, path)
        identity = _identity(files, path, fresh_identity)
        if owner is not None and not is_owned:
            replace_file(files, f"{path}/{OWNER_FILE}", _sealed_owner(owner))
        return _Held(lock, identity, _clean_epoch(files, path), read_use(files, path))
    except OSError as error:
        lock.release()
        raise DirectoryRefused(f"{path} cannot be used: {error.strerror}; check the disk") from None
    except BaseException:
        lock.release()
        raise


def _refuse_failed(files: Files, path: str) -> None:
    file = f"{path}/{FAILED_FILE}"
    if files.exists(file):
        reason = read_whole(files, file).decode(errors="replace").strip()
        raise DirectoryFailed(
            f"{path} could not be synced ({reason}), and what is read there may not be on the disk: replace the disk, "
            f"or check it, restart the machine, and remove {file}"
        )


def _belongs_to(files: Files, path: str, owner: DirectoryOwner) -> bool:
    """False if it belongs to nobody yet; `DirectoryRefused` if to another."""
    file = f"{path}/{OWNER_FILE}"
    if not files.exists(file):
        _refuse_partitions_without(files, path, OWNER_FILE)
        return False
    try:
        lines = unseal(OWNER_KIND, read_whole(files, file)).decode().splitlines()
    except ValueError as error:
        raise DirectoryRefused(f"{file} is damaged ({error}): restore it, or start with an empty directory") from None
    fields = dict(line.split(" ", 1) for line in lines)
    cluster_id, node_id = fields["cluster_id"], int(fields["node_id"])
    if cluster_id != owner.cluster_id:
        raise DirectoryRefused(
            f"{path} belongs to cluster {cluster_id!r}, not {owner.cluster_id!r}: set the cluster_id it was made with, "
            "or give the node a directory of its own"
        )
    if node_id != owner.node_id:
        raise DirectoryRefused(
            f"{path} belongs to node {node_id}, not node {owner.node_id}: start it as node {node_id}, "
            "or give this node a directory of its own"
        )
    return True


def _sealed_owner(owner: DirectoryOwner) -> bytes:
    return seal(OWNER_KIND, f"cluster_id {owner.cluster_id}\nnode_id {owner.node_id}\n".encode())


def _refuse_partitions_without(files: Files, path: str, name: str) -> None:
    """What says whose data it is cannot be made up where there is data."""
    if any(PartitionName.parse(entry) for entry in files.list_directory(path)):
        raise DirectoryRefused(f"{path} has partitions but no {name}: restore it, or start with an empty directory")


def _identity(files: Files, path: str, fresh: UUID | None) -> UUID:
    """`fresh`: of a directory that has none yet; None: it has one."""
    file = f"{path}/{IDENTITY_FILE}"
    if files.exists(file):
        try:
            return UUID(unseal(IDENTITY_KIND, read_whole(files, file)).decode().strip())
        except ValueError as error:
            raise DirectoryRefused(
                f"{file} is damaged ({error}): restore it, or start with an empty directory"
            ) from None
    assert fresh is not None, f"{path} has no identity"
    _refuse_partitions_without(files, path, IDENTITY_FILE)
    replace_file(files, file, seal(IDENTITY_KIND, f"{fresh}\n".encode()))
    return fresh


def _clean_epoch(files: Files, path: str) -> int | None:
    """Read the marker; a damaged one counts as none."""
    try:
        content = unseal(MARKER_KIND, read_whole(files, f"{path}/{MARKER_FILE}"))
        return int(content.split()[1])
    except (FileNotFoundError, ValueError):
        return None


def _watermarks_if_sound(files: Files, path: str) -> dict[PartitionName, int]:
    try:
        return read_watermarks(files, path)
    except (FileNotFoundError, BrokenSeal):
        return {}
