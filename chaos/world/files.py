"""An in-memory file system with the worst behaviour of real ones, driven by one seed.

It loses, tears or keeps unsynced data (`power_loss`), crashes in any call (`crash`), fills up, fails writes and syncs,
and flips bits. One object is the disk both before and after a crash of its node.
"""

import errno
import os
from collections.abc import Callable, Sequence

from lograft.chaos.world.crash import CrashPoints, SimulatedCrash
from lograft.chaos.world.file_tree import VirtualTree, os_error
from lograft.chaos.world.power_loss import DirectoryNode, FileNode, Truncate, Write
from lograft.runtime.files import Buffer, File, FileLocked, Lock, SyncFailed
from lograft.runtime.rng import Rng

_UNLIMITED_BYTES = 1 << 40


class VirtualFile:
    """An open file. After a crash it is unusable: calls raise `SimulatedCrash`, and `close` does nothing."""

    __slots__ = ("_closed", "_files", "_incarnation", "_path", "node")

    def __init__(self, files: "VirtualFiles", path: str, node: FileNode) -> None:
        self._files = files
        self._path = path
        self._incarnation = files.incarnation
        self._closed = False
        self.node = node

    @property
    def path(self) -> str:
        return self._path

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._check("write")
        data = b"".join(buffers)
        self._files.points.call(
            f"write {_name(self._path)}",
            lambda: self._files.write_node(self._path, self.node, position, data),
            lambda: self._files.write_node(self._path, self.node, position, self._files.some_of(data)),
        )

    def read(self, position: int, size: int) -> bytes:
        self._check("read")
        return self._files.points.call(f"read {_name(self._path)}", lambda: self._slice(position, size))

    def read_cached(self, position: int, size: int) -> bytes | None:
        self._check("read_cached")
        return self._files.points.call(
            f"read_cached {_name(self._path)}",
            lambda: None if self._files.is_cold() else self._slice(position, size),
        )

    def _slice(self, position: int, size: int) -> bytes:
        with memoryview(self.node.content) as content:
            return content[position : position + size].tobytes()

    def sync(self) -> None:
        self._check("sync")
        self._files.points.call(f"sync {_name(self._path)}", lambda: self._files.sync_node(self._path, self.node))

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._files.points.call(f"truncate {_name(self._path)}", lambda: self.node.change(Truncate(size)))

    def size(self) -> int:
        self._check("size")
        return self._files.points.call(f"size {_name(self._path)}", lambda: len(self.node.content))

    def close(self) -> None:
        # Calls made while a dead node's code unwinds must not look like a second crash.
        if not self._closed and self._incarnation == self._files.incarnation and not self._files.points.crashed:
            self._files.points.call(f"close {_name(self._path)}", lambda: None)
        self._closed = True

    def _check(self, call: str) -> None:
        if self._incarnation != self._files.incarnation:
            raise SimulatedCrash(f"{call} on {self._path}, opened before the crash")
        self._files.points.check_alive()
        if self._closed:
            raise os_error(errno.EBADF, self._path)


class VirtualLock:
    """A lock, held until it is released or the node crashes."""

    __slots__ = ("_files", "_incarnation", "_node")

    def __init__(self, files: "VirtualFiles", node: FileNode) -> None:
        self._files = files
        self._incarnation = files.incarnation
        self._node: FileNode | None = node

    def release(self) -> None:
        if self._node is not None and self._incarnation == self._files.incarnation:
            self._node.locked = False
        self._node = None


class VirtualFiles:
    """The disk of one simulated node. `points` numbers its calls and arms crashes; its own methods inject faults."""

    def __init__(self, rng: Rng, *, cold_read_probability: float = 0.1) -> None:
        self._rng = rng
        self._tree = VirtualTree()
        self._capacity: int | None = None
        self.size_bytes = _UNLIMITED_BYTES  # as reported by the disk
        self._failing_syncs: list[str] = []
        self._failing_writes: str | None = None
        self._failing_code = errno.EIO
        self.shortages = 0  # still to be raised
        self.points = CrashPoints(rng)
        self.incarnation = 0
        self.cold_read_probability = cold_read_probability

    # -- crashes

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return self.points.calls

    @property
    def crashed(self) -> bool:
        """Whether an armed crash has happened, with no `power_failure` or `process_crash` since."""
        return self.points.crashed

    def crash_at(self, call: int) -> None:
        """Crash in call number `call`, counted from 1: before, during or after its effect."""
        self.points.crash_at(call)

    def crash_with(self, probability: float) -> None:
        """Crash in each call with this probability."""
        self.points.crash_with(probability)

    def on_crash(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the name of the call when an armed crash happens."""
        self.points.on_crash = callback

    def process_crash(self) -> None:
        """Simulate kill -9: all written data remains, still unsynced; handles and locks are gone."""
        self._restart()

    def power_failure(self) -> None:
        """Keep or lose each unsynced change of content and names, then restart."""
        self._tree.power_failure(self._rng)
        self._restart()

    def _restart(self) -> None:
        self.incarnation += 1
        self.points.restart()
        for _, file in self._tree.files():
            file.locked = False

    # -- faults

    def set_capacity(self, capacity: int | None) -> None:
        """Limit the disk to this many bytes of content. A write beyond them is cut short and raises ENOSPC."""
        self._capacity = capacity

    def fail_next_sync(self, path_part: str = "") -> None:
        """Make the next sync of a file or directory whose path contains `path_part` raise EIO.

        The file's unsynced data still reads back, but no later sync makes it durable: a power failure reveals that.
        """
        self._failing_syncs.append(path_part)

    def fail_no_sync(self) -> None:
        """Cancel all pending sync failures."""
        self._failing_syncs.clear()

    @property
    def syncs_to_fail(self) -> int:
        """The number of failures requested with `fail_next_sync` that have not happened yet."""
        return len(self._failing_syncs)

    def run_short(self, times: int) -> None:
        """Make the next `times` calls that need a file descriptor fail with EMFILE."""
        self.shortages = times

    def _take_descriptor(self, path: str) -> None:
        if self.shortages:
            self.shortages -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    def fail_writes(self, path_part: str | None = "", code: int = errno.EIO) -> None:
        """Make writes to files whose path contains `path_part` raise `code` after writing a part. None ends this."""
        self._failing_writes = path_part
        self._failing_code = code

    def flip_bit(self, path: str, byte: int, bit: int) -> None:
        """Corrupt one bit of a file, on disk and in memory."""
        self._tree.file(path).flip_bit(byte, bit)

    def flip_random_bit(self, path_part: str = "") -> tuple[str, int, int] | None:
        """Corrupt a bit of a file whose path contains `path_part`. Return (path, byte, bit), or None if all are
        empty."""
        candidates = [(path, file) for path, file in self._tree.files() if path_part in path and file.content]
        if not candidates:
            return None
        path, file = self._rng.choice(candidates)
        byte, bit = self._rng.randrange(len(file.content)), self._rng.randrange(8)
        file.flip_bit(byte, bit)
        return path, byte, bit

    def copy_directory(self, path: str) -> DirectoryNode:
        """Return a copy of the directory as programs see it, for `put_back`."""
        return self._tree.directory(path).copy()

    def put_back(self, path: str, copy: DirectoryNode) -> None:
        """Durably place a copy of `copy` at `path`, replacing what it names. `copy` itself can be used again."""
        self._tree.put_directory(path, copy.copy())

    # -- inspection, without counted calls

    def used_bytes(self) -> int:
        return self._tree.used_bytes()

    def contents(self, path_part: str) -> list[tuple[str, bytes]]:
        """Return path and content, as programs see them, of all files whose path contains `path_part`."""
        return [(path, bytes(file.content)) for path, file in self._tree.files() if path_part in path]

    def byte_at(self, path: str, byte: int) -> int | None:
        """Return one byte of a file, or None if it does not exist."""
        try:
            content = self._tree.file(path).content
        except OSError:
            return None
        return content[byte] if byte < len(content) else None

    # -- used by handles

    def write_node(self, path: str, node: FileNode, position: int, data: bytes) -> None:
        if self._failing_writes is not None and self._failing_writes in path:
            self._change_node(node, position, self.some_of(data))
            raise os_error(self._failing_code, path)
        fitting = data
        if self._capacity is not None:
            room = max(0, self._capacity - self._tree.used_bytes())
            fitting = data[: max(0, len(node.content) + room - position)]
        self._change_node(node, position, fitting)
        if len(fitting) < len(data):
            raise os_error(errno.ENOSPC, path)

    def _change_node(self, node: FileNode, position: int, data: bytes) -> None:
        if data:
            node.change(Write(position, data))

    def sync_node(self, path: str, node: FileNode) -> None:
        if self._fails_sync(path):
            node.fail_sync(self._rng)
            raise _sync_failed(path)
        node.sync()

    def some_of(self, data: bytes) -> bytes:
        """Return the part of a write that happened before it was cut short."""
        return data[: self._rng.randint(0, len(data))]

    def is_cold(self) -> bool:
        return self._rng.random() < self.cold_read_probability

    def _fails_sync(self, path: str) -> bool:
        for part in self._failing_syncs:
            if part in path:
                self._failing_syncs.remove(part)
                return True
        return False

    # -- Files

    def open(self, path: str) -> File:
        self._take_descriptor(path)
        return self.points.call(f"open {_name(path)}", lambda: VirtualFile(self, path, self._tree.file(path)))

    def create(self, path: str) -> File:
        self._take_descriptor(path)

        def effect() -> VirtualFile:
            node = self._tree.file_or_new(path)
            if node.content:
                node.change(Truncate(0))
            return VirtualFile(self, path, node)

        return self.points.call(f"create {_name(path)}", effect)

    def exists(self, path: str) -> bool:
        def effect() -> bool:
            try:
                self._tree.node(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

        return self.points.call(f"exists {_name(path)}", effect)

    def size(self, path: str) -> int:
        return self.points.call(f"size {_name(path)}", lambda: len(self._tree.file(path).content))

    def list_directory(self, path: str) -> list[str]:
        self._take_descriptor(path)
        return self.points.call(f"list {_name(path)}", lambda: sorted(self._tree.directory(path).entries))

    def make_directory(self, path: str) -> None:
        self.points.call(f"make_directory {_name(path)}", lambda: self._tree.make_directory(path))

    def rename(self, old: str, new: str) -> None:
        self.points.call(f"rename {_name(old)} {_name(new)}", lambda: self._tree.rename(old, new))

    def remove(self, path: str) -> None:
        self.points.call(f"remove {_name(path)}", lambda: self._tree.remove_file(path))

    def remove_directory(self, path: str) -> None:
        self.points.call(f"remove_directory {_name(path)}", lambda: self._tree.remove_directory(path))

    def sync_directory(self, path: str) -> None:
        self._take_descriptor(path)

        def effect() -> None:
            directory = self._tree.directory(path)
            if self._fails_sync(path):
                raise _sync_failed(path)
            directory.sync()

        self.points.call(f"sync_directory {_name(path)}", effect)

    def sync_all(self, files: Sequence[File]) -> None:
        failure: OSError | None = None
        # In random order, as with threads.
        for file in self._rng.sample(files, len(files)):
            try:
                file.sync()
            except OSError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def lock(self, path: str) -> Lock:
        self._take_descriptor(path)

        def effect() -> VirtualLock:
            node = self._tree.file_or_new(path)
            if node.locked:
                raise FileLocked(path)
            node.locked = True
            return VirtualLock(self, node)

        return self.points.call(f"lock {_name(path)}", effect)

    def free_bytes(self, path: str) -> int:
        def effect() -> int:
            self._tree.node(path)
            capacity = _UNLIMITED_BYTES if self._capacity is None else self._capacity
            return max(0, capacity - self._tree.used_bytes())

        return self.points.call(f"free_bytes {_name(path)}", effect)

    def disk_bytes(self, path: str) -> int:
        def effect() -> int:
            self._tree.node(path)
            return self.size_bytes

        return self.points.call(f"disk_bytes {_name(path)}", effect)


def _sync_failed(path: str) -> SyncFailed:
    return SyncFailed(errno.EIO, os.strerror(errno.EIO), path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
