"""The operating system's files, as `files.Files`."""

import ctypes
import errno
import fcntl
import os
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock as Mutex

from lograft.runtime.files import Buffer, File, FileLocked, Lock, SyncFailed

_BUFFERS_PER_WRITE = os.sysconf("SC_IOV_MAX")
_CLOSED = (
    2**31 - 1
)  # no kernel assigns this number, and every call with it fails with EBADF (some calls raise ValueError for -1)
_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS}

# `sync_all`: jbd2 commits the metadata of files that are synced together at once. Measured on ext4, one by one against
# four at a time: 10 files 2.9 and 1.8 ms, 50 files 12.6 and 6.1 ms. Up to four files, waking threads costs as much as
# it saves.
_SYNC_THREADS = 4
_SYNC_INLINE_FILES = 4

# `read_cached` needs `preadv`, the only call with RWF_NOWAIT, which fills a given buffer. A `bytearray` copied to
# `bytes` costs 100 us per MiB (zeroing, then the copy) where `pread` costs 55. Filling a new, still private `bytes`
# object through the C API, which permits that, costs 60. Its three foreign calls add 1.5 us, worthwhile from this size.
_FILL_IN_PLACE_BYTES = 32 * 1024
_WRITABLE = 0x200  # PyBUF_WRITE

_new_bytes: Callable[[None, int], bytes] = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_address_of: Callable[[bytes], int] = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
    ("PyBytes_AsString", ctypes.pythonapi)
)
_view_of: Callable[[int, int, int], memoryview] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
)(("PyMemoryView_FromMemory", ctypes.pythonapi))


class OsFile:
    """An open descriptor. Any thread may call it; only the owner may call `close`, when no other call is running."""

    __slots__ = ("_can_read_cached", "_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._can_read_cached = True

    @property
    def path(self) -> str:
        return self._path

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        # Make one call even without buffers, to detect a closed file.
        for start in range(0, len(buffers) or 1, _BUFFERS_PER_WRITE):
            position += self._write_some(position, buffers[start : start + _BUFFERS_PER_WRITE])

    def _write_some(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write `buffers`, at most as many as one call accepts. Return the number of bytes."""
        size = sum(map(_byte_size, buffers))
        written = os.pwritev(self._descriptor, buffers, position)
        if written < size:
            # The kernel writes at most 2 GiB a call, and less if a signal or a full disk cuts it short.
            rest = memoryview(b"".join(buffers))
            while written < size:
                written += os.pwrite(self._descriptor, rest[written:], position + written)
        return size

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing and (data := os.pread(self._descriptor, missing, position + size - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def read_cached(self, position: int, size: int) -> bytes | None:
        if not self._can_read_cached:
            return None
        try:
            if size < _FILL_IN_PLACE_BYTES:
                buffer = bytearray(size)
                count = os.preadv(self._descriptor, [buffer], position, os.RWF_NOWAIT)
                data = bytes(buffer)
            else:
                data = _new_bytes(None, size)
                count = os.preadv(
                    self._descriptor, [_view_of(_address_of(data), size, _WRITABLE)], position, os.RWF_NOWAIT
                )
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            # The file system does not support it; retrying would cost a call and an exception for each read.
            self._can_read_cached = False
            return None
        if count == size:
            return data
        # The read is short because the file ends there, or because the rest is not in memory.
        return data[:count] if position + count >= self.size() else None

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, self._path) from error

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def inode(self) -> int:
        """Return the inode number, which identifies the file regardless of its names."""
        return os.fstat(self._descriptor).st_ino

    def close(self) -> None:
        # Forget the number first: the kernel assigns it to the next file that is opened.
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)


class OsLock:
    """A `flock`, which the kernel releases with the descriptor, and so also when the process is killed."""

    __slots__ = ("_file",)

    def __init__(self, file: OsFile) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()


class OsFiles:
    """The file system of this process."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._sync_pool: ThreadPoolExecutor | None = None

    def open(self, path: str) -> File:
        return OsFile(path, os.open(path, os.O_RDWR))

    def create(self, path: str) -> File:
        return OsFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, path) from error
        finally:
            os.close(descriptor)

    def sync_all(self, files: Sequence[File]) -> None:
        if len(files) <= _SYNC_INLINE_FILES:
            _raise_first([_sync_each(files)])
            return
        shares = [files[first::_SYNC_THREADS] for first in range(min(_SYNC_THREADS, len(files)))]
        _raise_first(list(self._sync_threads().map(_sync_each, shares)))

    def _sync_threads(self) -> ThreadPoolExecutor:
        with self._mutex:
            if self._sync_pool is None:
                self._sync_pool = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="lograft-sync")
            return self._sync_pool

    def lock(self, path: str) -> Lock:
        file = OsFile(path, descriptor := os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise FileLocked(path) from None
        except OSError:
            file.close()
            raise
        return OsLock(file)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def disk_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def close(self) -> None:
        """End the threads of `sync_all`. Owners close their open files themselves."""
        with self._mutex:
            pool, self._sync_pool = self._sync_pool, None
        if pool is not None:
            pool.shutdown(wait=True)


def _byte_size(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


def _sync_each(files: Sequence[File]) -> OSError | None:
    """Sync all `files`, even after failures. Return the first failure, if any."""
    failure: OSError | None = None
    for file in files:
        try:
            file.sync()
        except OSError as error:
            failure = failure or error
    return failure


def _raise_first(failures: Sequence[OSError | None]) -> None:
    for failure in failures:
        if failure is not None:
            raise failure


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
