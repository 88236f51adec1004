"""The disk as small interfaces of blocking calls. Each call may fail, and is a crash point in simulation.

Because they block, a node makes these calls in a disk writer (`disk/disk_writer.py`) or with `run_blocking`, never on
its event loop. The exception is `File.read_cached`, for reads from memory.
"""

import errno
from collections.abc import Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class FileLocked(Exception):
    """Another living process holds the lock on `path`."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is locked by another process")
        self.path = path


class SyncFailed(OSError):
    """A sync failed. The data reads back as written, but may not be on the disk, and the kernel may report success for
    the next sync without writing it. Only a restart of the machine shows what the disk holds."""


_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_shortage(error: OSError) -> bool:
    """Return True if the process or the machine is short of descriptors or memory: a transient error that says nothing
    about the disk."""
    return error.errno in _SHORTAGES


_WITHOUT_ROOM = (errno.ENOSPC, errno.EDQUOT)


def is_without_room(error: OSError) -> bool:
    """Return True if the disk is full. A write that failed this way may be partly done, and can be repeated at the same
    position. A failed sync cannot, whatever its error."""
    return error.errno in _WITHOUT_ROOM and not isinstance(error, SyncFailed)


class File(Protocol):
    """An open file. Positions are bytes from its start; there is no cursor."""

    @property
    def path(self) -> str:
        """The path it was opened at; a later rename does not change it."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all of `buffers` in order, from `position`. Durable only after `sync`."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, or fewer if the file ends before."""
        ...

    def read_cached(self, position: int, size: int) -> bytes | None:
        """Read like `read`, but never wait for the disk. Return None if a part is not in memory, or if that is
        unknown."""
        ...

    def sync(self) -> None:
        """Make all writes and the size survive a power failure. Raise SyncFailed if they may not."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. Durable only after `sync`."""
        ...

    def size(self) -> int:
        """Return the current size in bytes."""
        ...

    def close(self) -> None:
        """Close the descriptor. Closing twice is harmless."""
        ...


class Lock(Protocol):
    """A lock on a path, held until it is released or the process dies."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Calls raise `OSError`, with the errno that Linux would report."""

    def open(self, path: str) -> File:
        """Open an existing file for reading and writing. Raise FileNotFoundError if there is none."""
        ...

    def create(self, path: str) -> File:
        """Create an empty file, or empty an existing one. Its name is durable only after `sync_directory`."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Return the size in bytes of the file at `path`. Raise FileNotFoundError if there is none."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory unless it exists. Its parent must exist."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomically give `old` the name `new`, replacing a file of that name. Durable after `sync_directory`."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name. Open descriptors stay readable."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make all creations, renames and removals in `path` survive a power failure. Raise SyncFailed if they may
        not."""
        ...

    def sync_all(self, files: Sequence[File]) -> None:
        """Sync all `files`, in parallel where that is faster. Raise if any sync failed."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock on `path`, which is created if missing, or raise `FileLocked` at once."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the free bytes of the disk that holds `path`."""
        ...

    def disk_bytes(self, path: str) -> int:
        """Return the size in bytes of the disk that holds `path`."""
        ...


def read_whole(files: Files, path: str) -> bytes:
    """Return the whole content of a small file."""
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def replace_file(files: Files, path: str, content: Buffer) -> None:
    """Durably replace the content of `path`. After a crash it has either the whole old or the whole new content."""
    temporary = path + ".tmp"
    file = files.create(temporary)
    try:
        file.write(0, [content])
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(parent_of(path))


def parent_of(path: str) -> str:
    """Return the directory that contains `path`."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
