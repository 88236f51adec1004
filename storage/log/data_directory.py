"""A data directory: its lock, identity, owner, last shutdown, and partitions."""

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
    """The node that owns a directory. Never changes."""

    cluster_id: str
    node_id: int


class DataDirectory:
    """The partitions of one data directory, locked by one process from `open_directory` to `close`."""

    def __init__(self, runtime: Runtime, path: str, held: "_Held", max_segments: int) -> None:
        self.path = path
        self.identity = held.identity
        self.clean_epoch = held.clean_epoch  # the broker epoch of the last process, if it shut down cleanly
        self.use = held.use  # as the last process left it
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

    # -- space

    async def reserve(self, reserve_bytes: int | None) -> None:
        """Set the reserve below which user records are refused; None: a fixed part of the disk."""
        files = self._runtime.files
        disk_bytes = await self._runtime.blocking.run_blocking(files.disk_bytes, self.path)
        self.space.disk_bytes = disk_bytes
        self.space.reserve_bytes = default_reserve(disk_bytes) if reserve_bytes is None else reserve_bytes
        await self.look_at_space()

    async def look_at_space(self) -> None:
        """Measure the free space, and retry refused writes. Call periodically."""
        free_bytes = await self._runtime.blocking.run_blocking(self._runtime.files.free_bytes, self.path)
        self.space.measured(free_bytes - self._writer.queued_bytes, is_stalled=self._writer.is_stalled)
        self._writer.retry()

    def stop_waiting(self) -> None:
        """Give up writes that wait for space, before closing."""
        self._writer.stop_waiting()

    # -- content

    async def entries(self) -> list[str]:
        """Return the names of all entries of the directory."""
        return await self._runtime.blocking.run_blocking(self._runtime.files.list_directory, self.path)

    async def partitions(self) -> list[PartitionName]:
        """Return the directory's partitions, open or not."""
        return [partition for partition in map(PartitionName.parse, await self.entries()) if partition is not None]

    async def open_partition(
        self, name: PartitionName, config: LogConfig, noted_watermark: int | None = None
    ) -> PartitionLog:
        """Open a partition's log, or create it; see `open_log`. It must not be open already."""
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
        """Close one partition's log. It can be opened again."""
        log = self._open[name]
        assert log is not None, "it is being opened"
        try:
            await log.close()
        finally:
            del self._open[name]

    async def note_used(self, broker_epoch: int) -> None:
        """Durably note the broker epoch of this use, and that the directory has `high-watermarks`. Call before loading,
        changing or opening anything in it."""
        assert not self._open, "used before it is noted"
        await self._writer.call(lambda: write_used_epoch(self._writer.files, self.path, broker_epoch))

    async def read_high_watermarks(self) -> dict[PartitionName, int]:
        """Return the watermarks as last written. None if the file is missing or damaged: `note_used` creates it, and
        `use` records the loss."""
        return await self._runtime.blocking.run_blocking(_watermarks_if_sound, self._runtime.files, self.path)

    async def write_high_watermarks(self, watermarks: Mapping[PartitionName, int]) -> None:
        await self._writer.call(lambda: write_watermarks(self._writer.files, self.path, watermarks))

    async def close(self, broker_epoch: int | None = None) -> None:
        """Close every partition and release the directory. With `broker_epoch`, write the clean-shutdown marker."""
        self.stop_waiting()
        try:
            async with AsyncExitStack() as logs:
                for name in self._open:
                    logs.push_async_callback(self.close_partition, name)  # close each even if another fails
            if broker_epoch is not None and self._writer.failure is None:
                await self._replace(MARKER_FILE, seal(MARKER_KIND, f"broker_epoch {broker_epoch}\n".encode()))
        finally:
            await self._writer.close()
            self._lock.release()

    async def _unmark(self) -> None:
        """Durably remove the marker before the first write."""
        if self._is_marked:
            await self._writer.call(self._remove_marker)
            self._is_marked = False

    def _remove_marker(self) -> None:
        marker = f"{self.path}/{MARKER_FILE}"
        if self._writer.files.exists(marker):  # a concurrent open of another partition may have been first
            self._writer.files.remove(marker)
        self._writer.files.sync_directory(self.path)

    def _note_failure(self, error: SyncFailed) -> None:
        """Note a failed sync, so that no later process trusts this directory's data. The note is not synced: it lives
        as long as the kernel's cache of the unsynced data, which is as long as it is needed."""
        with suppress(OSError):  # a disk that accepts no file accepts no lock either
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
    """Open and lock the data directory at `path`, or create it. Raise DirectoryRefused if it cannot be used.

    With `owner`, the directory must belong to that node; a new one does from now on. `max_segments` bounds its open
    sealed segments.
    """
    held = await run_to_end(
        runtime.blocking, _take_hold, runtime.files, path, owner, runtime.rng.uuid(),
        dispose=lambda held: held.lock.release(),
    )  # fmt: skip
    return DataDirectory(runtime, path, held, max_segments or MAX_SEGMENTS)


def mark_restored(files: Files, path: str) -> UUID:
    """Mark the unused directory at `path` as restored from a copy, and return its identity. Its replicas then count for
    nothing until they have caught up. Raise `DirectoryRefused` if it cannot be marked."""
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
    """A locked directory, as its last process left it."""

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
        # Check the owner first: another node's directory must stay as it is.
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
    """Return False if the directory has no owner yet. Raise DirectoryRefused if another node owns it."""
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
    """Refuse a directory that has partitions but lacks the file that identifies it."""
    if any(PartitionName.parse(entry) for entry in files.list_directory(path)):
        raise DirectoryRefused(f"{path} has partitions but no {name}: restore it, or start with an empty directory")


def _identity(files: Files, path: str, fresh: UUID | None) -> UUID:
    """Return the directory's identity. `fresh` is the identity of a new directory; None if it must have one."""
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
