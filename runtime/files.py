"""The disk as small interfaces: blocking calls, each of which may fail and is a place to crash.

They block, so a node calls them from a disk writer (`writer.py`) or through `run_blocking`, never from its loop;
`File.read_cached` is the exception made for reads that memory can answer.
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
    """A sync failed. What was to be synced reads back as it was written, but may not be on the disk; and the kernel may
    call the next sync a success without writing it. Only a restart of the machine shows what is there."""


_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_shortage(error: OSError) -> bool:
    """Return True if the process or the machine has no descriptor or memory to spare: that says nothing of the disk,
    and may pass."""
    return error.errno in _SHORTAGES


_WITHOUT_ROOM = (errno.ENOSPC, errno.EDQUOT)


def is_without_room(error: OSError) -> bool:
    """Return True if the disk is full. A write that failed so may have been done in part, and may be done again at the
    same place. A sync that failed is another matter, whatever it failed with."""
    return error.errno in _WITHOUT_ROOM and not isinstance(error, SyncFailed)


class File(Protocol):
    """An open file. Positions are bytes from its start; there is no cursor."""

    @property
    def path(self) -> str:
        """Where it was opened; a later rename does not change this."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all of `buffers`, one after the other, from `position` on. Durable only after `sync`."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes from `position` on; fewer only where the file ends."""
        ...

    def read_cached(self, position: int, size: int) -> bytes | None:
        """As `read`, but never waits for the disk: None when some of it is not in memory, or that cannot be told."""
        ...

    def sync(self) -> None:
        """Return when all that was written, and the size, will survive a power failure. `SyncFailed` if it may not."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. Durable only after `sync`."""
        ...

    def size(self) -> int:
        """Bytes in the file now."""
        ...

    def close(self) -> None:
        """Give the descriptor back. Closing twice is harmless."""
        ...


class Lock(Protocol):
    """A lock held on a path until released or the process dies."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Failures are `OSError`, with the errno that Linux would give."""

    def open(self, path: str) -> File:
        """Open an existing file for reading and writing; `FileNotFoundError` if there is none."""
        ...

    def create(self, path: str) -> File:
        """Make a new empty file, or empty an existing one. Its name is durable only after `sync_directory`."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Bytes in the file at `path`; `FileNotFoundError` if there is none."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory; no error if it is there. Its parent must exist."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomically give `old` the name `new`, replacing a file of that name. Durable after `sync_directory`."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name. Who has it open reads on undisturbed."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when all creations, renames and removals in `path` will survive a power failure. `SyncFailed` if they
        may not."""
        ...

    def sync_all(self, files: Sequence[File]) -> None:
        """`sync` each of `files`, several at a time where that pays; raises if any failed."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock on `path` (made if missing), or raise `FileLocked` at once."""
        ...

    def free_bytes(self, path: str) -> int:
        """Bytes still free on the disk that holds `path`."""
        ...

    def disk_bytes(self, path: str) -> int:
        """Return how large the disk is that holds `path`."""
        ...


def read_whole(files: Files, path: str) -> bytes:
    """Return all of a small file."""
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def replace_file(files: Files, path: str, content: Buffer) -> None:
    """Durably give `path` the content `content`: after a crash it has the old content or the new, whole."""
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
    """Return the directory that has `path`'s name."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
