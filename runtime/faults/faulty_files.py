"""The operating system's files with faults on demand: slow, full, or failing to sync.

It also keeps a journal of unsynced changes. After the process is killed, the journal can undo them, as if the machine
had lost power. For tests of whole clusters: see `settings`.
"""

import errno
import os
from collections.abc import Callable, Sequence
from random import SystemRandom
from threading import RLock
from time import sleep

from lograft.runtime.disk.os_files import OsFile, OsFiles
from lograft.runtime.faults.settings import FaultSwitch
from lograft.runtime.faults.undo_journal import (
    DirectorySynced,
    FailedSync,
    Named,
    NameStep,
    OverwrittenBytes,
    Resized,
    Retracted,
    Synced,
    UndoJournal,
    inode_at,
    undo_part,
)
from lograft.runtime.files import Buffer, File, Lock, SyncFailed, parent_of

_SEEDS = 2**32


class FaultyFile:
    """An open file. The journal has each change before it is made."""

    __slots__ = ("_file", "_files", "_inode")

    def __init__(self, files: "FaultyFiles", file: File, inode: int) -> None:
        self._files = files
        self._file = file
        self._inode = inode

    @property
    def path(self) -> str:
        return self._file.path

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._files.write(self._file, self._inode, position, buffers)

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        return self._file.read_cached(position, size)

    def sync(self) -> None:
        self._files.sync(self._file, self._inode)

    def truncate(self, size: int) -> None:
        self._files.resize(self._file, self._inode, size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class FaultyFiles(OsFiles):
    """`switch`: the current faults. Its directory holds the journal of changes that are not durable, and must be on the
    same file system as all changed files."""

    def __init__(self, switch: FaultSwitch) -> None:
        super().__init__()
        self._switch = switch
        self._dice = SystemRandom()
        self._changing = RLock()  # held while a change is announced and made
        self._journal = UndoJournal(switch.directory)

    # -- operations of files

    def write(self, file: File, inode: int, position: int, buffers: Sequence[Buffer]) -> None:
        self._delay(self._switch.settings.write_delay_ms)
        data = b"".join(buffers)
        with self._changing:
            if self._switch.settings.is_full:
                # A part of it fits, as on a disk that is filled to the last block.
                data, is_cut = data[: self._dice.randint(0, len(data))], True
            else:
                is_cut = False
            size = file.size()
            old = file.read(position, min(len(data), max(size - position, 0)))
            number = self._journal.next_number()
            self._journal.add(OverwrittenBytes(number, inode, position, len(data), old, size))
            file.write(position, [data])
        if is_cut:
            raise _os_error(errno.ENOSPC, file.path)

    def resize(self, file: File, inode: int, size: int) -> None:
        with self._changing:
            old_size = file.size()
            old = file.read(size, max(old_size - size, 0))
            self._journal.add(Resized(self._journal.next_number(), inode, size, old, old_size))
            file.truncate(size)

    def sync(self, file: File, inode: int) -> None:
        with self._changing:
            up_to = self._journal.ledger.last_number
        self._delay(self._switch.settings.sync_delay_ms)
        if self._switch.settings.fails_syncs:
            with self._changing:
                seed = self._dice.randrange(_SEEDS)
                self._journal.add(FailedSync(self._journal.next_number(), inode, up_to, seed))
            raise SyncFailed(errno.EIO, os.strerror(errno.EIO), file.path)
        file.sync()
        if self._switch.settings.lies_about_syncs:
            return
        with self._changing:
            self._journal.add(Synced(self._journal.next_number(), inode, up_to))

    # -- Files

    def open(self, path: str) -> File:
        with self._changing:
            return self._faulty(super().open(path))

    def create(self, path: str) -> File:
        with self._changing:
            if os.path.exists(path):
                file = self._faulty(super().open(path))
                file.truncate(0)
                return file
            self._check_room(path)
            return self._faulty(self._make(path))

    def _faulty(self, file: File) -> FaultyFile:
        assert isinstance(file, OsFile)
        return FaultyFile(self, file, file.inode())

    def _make(self, path: str) -> File:
        """Create a file in the staging directory, so that its inode number is known before it gets its name."""
        _inode_of_directory(path)
        staged = self._journal.staged()
        super().create(staged).close()
        self._give_name(staged, path)
        return super().open(path)

    def _give_name(self, staged: str, path: str) -> None:
        step = NameStep(_inode_of_directory(path), path, None, inode_at(staged))
        self._rename(Named(self._journal.next_number(), (step,), is_new=True), lambda: os.rename(staged, path))

    def _rename(self, event: Named, change: Callable[[], None]) -> None:
        """Announce a change of names, make it, and retract it if it fails."""
        self._journal.add(event)
        try:
            change()
        except OSError:
            undo_part(self._journal.directory, event)
            self._journal.add(Retracted(self._journal.next_number(), event.number))
            raise

    def make_directory(self, path: str) -> None:
        with self._changing:
            if os.path.isdir(path):
                return
            if os.path.exists(path):
                raise _os_error(errno.EEXIST, path)
            _inode_of_directory(path)
            self._check_room(path)
            staged = self._journal.staged()
            os.mkdir(staged)
            self._give_name(staged, path)

    def rename(self, old: str, new: str) -> None:
        with self._changing:
            moved, replaced = inode_at(old), inode_at(new)
            if moved is None or moved == replaced or _will_fail(old, new):
                os.rename(old, new)  # the kernel raises the error, if any
                return
            steps = (
                NameStep(_inode_of_directory(old), old, moved, None),
                NameStep(_inode_of_directory(new), new, replaced, moved),
            )

            def change() -> None:
                if replaced is not None:
                    self._bury(new, replaced)
                os.rename(old, new)

            self._rename(Named(self._journal.next_number(), steps), change)

    def remove(self, path: str) -> None:
        with self._changing:
            inode = inode_at(path)
            if inode is None or os.path.isdir(path):
                os.unlink(path)  # the kernel raises the error
                return

            def change() -> None:
                self._bury(path, inode)
                os.unlink(path)

            step = NameStep(_inode_of_directory(path), path, inode, None)
            self._rename(Named(self._journal.next_number(), (step,)), change)

    def remove_directory(self, path: str) -> None:
        with self._changing:
            inode = inode_at(path)
            if inode is None or not os.path.isdir(path) or os.listdir(path):
                os.rmdir(path)  # the kernel raises the error
                return
            step = NameStep(_inode_of_directory(path), path, inode, None)
            self._rename(Named(self._journal.next_number(), (step,)), lambda: self._bury(path, inode))

    def _bury(self, path: str, inode: int) -> None:
        """Keep a file or directory in the graveyard, because its name returns if the machine loses power before the
        change is durable. Moving a directory removes its name; a file has two names for a while."""
        grave = self._journal.grave(inode)
        if os.path.isdir(path):
            os.rename(path, grave)
        elif not os.path.exists(grave):
            os.link(path, grave)

    def sync_directory(self, path: str) -> None:
        with self._changing:
            up_to = self._journal.ledger.last_number
            inode = _inode_of_directory(f"{path}/.")
        self._delay(self._switch.settings.sync_delay_ms)
        if self._switch.settings.fails_syncs:
            raise SyncFailed(errno.EIO, os.strerror(errno.EIO), path)
        super().sync_directory(path)
        if self._switch.settings.lies_about_syncs:
            return
        with self._changing:
            self._journal.add(DirectorySynced(self._journal.next_number(), inode, up_to))

    def lock(self, path: str) -> Lock:
        with self._changing:
            if not os.path.exists(path):
                self._make(path).close()
            return super().lock(path)

    def free_bytes(self, path: str) -> int:
        free_bytes = super().free_bytes(path)
        return 0 if self._switch.settings.is_full else free_bytes

    def close(self) -> None:
        super().close()
        self._journal.close()

    # -- faults

    def _delay(self, most_ms: float) -> None:
        if most_ms:
            sleep(self._dice.uniform(0, most_ms) / 1000)

    def _check_room(self, path: str) -> None:
        if self._switch.settings.is_full:
            raise _os_error(errno.ENOSPC, path)


def _will_fail(old: str, new: str) -> bool:
    """Return whether the kernel will refuse the rename, so that nothing is announced or buried before."""
    if os.path.isdir(old):
        is_within = os.path.realpath(new).startswith(os.path.realpath(old) + "/")
        return is_within or (os.path.exists(new) and (not os.path.isdir(new) or bool(os.listdir(new))))
    return os.path.isdir(new) or not os.path.isdir(parent_of(new))


def _inode_of_directory(path: str) -> int:
    """Return the inode number of the path's parent directory. Raise the error that the kernel would raise."""
    status = os.stat(parent_of(path))
    if not os.path.isdir(parent_of(path)):
        raise _os_error(errno.ENOTDIR, path)
    return status.st_ino


def _os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
