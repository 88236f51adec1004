"""Power failure of a machine: each change its node did not sync is kept or lost, as in simulation.

The node is already dead. Its files and its journal (`runtime.faults.undo_journal`) are turned into the disk model of
the simulations. After that model has lost what it may, it replaces the directory.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from lograft.chaos.world.power_loss import DirectoryNode, FileNode, Node, Truncate, Write, change_entries
from lograft.runtime.faults.undo_journal import (
    GRAVEYARD,
    JOURNAL_FILE,
    STAGING,
    FailedSync,
    FileEvent,
    OverwrittenBytes,
    Resized,
    Synced,
    UndoLedger,
    read_journal,
)
from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class Lost:
    """The size of a loss: numbers of files with unsynced changes, of unsynced name changes, and of changed files."""

    unsynced_files: int
    unsynced_names: int
    changed_files: int


def lose_power(root: Path, faults: Path, rng: Rng, durable: Path | None = None) -> Lost:
    """Apply a power failure to everything under `root`, whose own name is safe. The node kept its journal in `faults`.
    Files directly in `durable` keep their content: LMDB writes them in its own way, and they count as durable."""
    ledger = read_journal(str(faults))
    disk = _Disk(root, faults, ledger, durable)
    changed_files = disk.lose_power(rng)
    made = faults / "restored"
    _remove(made)
    disk.write(made)
    before = faults / "before"
    _remove(before)
    root.rename(before)
    made.rename(root)
    for path in (before, faults / GRAVEYARD, faults / STAGING, faults / JOURNAL_FILE):
        _remove(path)
    return Lost(len(ledger.files), len(ledger.names), changed_files)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class _Disk:
    """All files and directories by inode number: first in their last durable state, then with the later changes."""

    def __init__(self, root: Path, faults: Path, ledger: UndoLedger, durable: Path | None) -> None:
        self._durable = durable
        self._directories: dict[int, DirectoryNode] = {}
        self._files: dict[int, FileNode] = {}
        self._paths: dict[int, Path] = {}  # of the content
        self._names: dict[int, dict[str, int]] = {}
        self._numbers: dict[int, int] = {}  # inode of each node, by its `id()`
        self._root = self._read(root)
        graves = faults / GRAVEYARD
        for grave in sorted(graves.iterdir()) if graves.is_dir() else ():
            self._read(grave)
        self._name(ledger)
        self._change(ledger)

    def _read(self, path: Path) -> int:
        inode = path.stat().st_ino
        if inode in self._names or inode in self._files:
            return inode  # it has a name, and another one in the graveyard
        self._paths[inode] = path
        if path.is_dir():
            self._directories[inode] = DirectoryNode()
            self._names[inode] = {each.name: self._read(each) for each in sorted(path.iterdir())}
            self._numbers[id(self._directories[inode])] = inode
        else:
            self._files[inode] = FileNode()
            self._numbers[id(self._files[inode])] = inode
        return inode

    def _node(self, inode: int) -> Node:
        return self._directories[inode] if inode in self._directories else self._files[inode]

    # -- names

    def _name(self, ledger: UndoLedger) -> None:
        events = [event for event in ledger.names if all(one in self._names for one in event.directories)]
        for event in reversed(events):
            for step in event.steps:
                names = self._names[step.directory]
                if step.old is None:
                    names.pop(step.name, None)
                else:
                    names[step.name] = step.old
        for inode, names in self._names.items():
            directory = self._directories[inode]
            for name, child in names.items():
                change_entries((directory, name, self._node(child)))
            directory.sync()
        for event in events:
            change_entries(
                *(
                    (self._directories[step.directory], step.name, None if step.new is None else self._node(step.new))
                    for step in event.steps
                )
            )

    # -- content

    def _change(self, ledger: UndoLedger) -> None:
        for inode in ledger.files:
            if inode in self._files and self._paths[inode].parent != self._durable:
                _replay(self._files[inode], self._paths[inode].read_bytes(), ledger.events_of(inode))
                del self._paths[inode]  # the present content is not the final one

    # -- the power failure

    def lose_power(self, rng: Rng) -> int:
        """Apply the power failure. Return how many files changed."""
        before = [bytes(file.content) for file in self._files.values()]
        for directory in self._directories.values():
            directory.keep_some(rng)
        for directory in self._directories.values():
            directory.lose_the_rest()
        for file in self._files.values():
            file.power_failure(rng)
        return sum(file.content != content for file, content in zip(self._files.values(), before, strict=True))

    def write(self, path: Path, inode: int | None = None) -> None:
        """Write everything that can be reached by names."""
        inode = self._root if inode is None else inode
        path.mkdir()
        for name, node in self._directories[inode].entries.items():
            child = self._numbers[id(node)]
            if isinstance(node, DirectoryNode):
                self.write(path / name, child)
            elif child in self._paths:
                os.link(self._paths[child], path / name)
            else:
                (path / name).write_bytes(node.content)


def _replay(file: FileNode, content: bytes, events: list[FileEvent]) -> None:
    """Rewind a file to its state before all events, then apply them in order."""
    changes: list[tuple[tuple[int, int, int], Write | Truncate | int | None]] = []
    now = bytearray(content)
    for event in reversed(events):
        match event:
            case OverwrittenBytes(number, _, position, length, old, old_size):
                data = bytes(now[position : position + length])
                if data:
                    changes.append(((number, 0, 0), Write(position, data)))
                del now[old_size:]
                now[position : position + len(old)] = old
            case Resized(number, _, size, old, old_size):
                changes.append(((number, 0, 0), Truncate(size)))
                del now[min(size, old_size) :]
                now += old
            case Synced(number=number, up_to=up_to):
                changes.append(((up_to, 1, number), None))
            case FailedSync(number=number, up_to=up_to, seed=seed):
                changes.append(((up_to, 1, number), seed))
    if now:
        file.change(Write(0, bytes(now)))
    file.sync()
    for _, change in sorted(changes, key=lambda each: each[0]):
        match change:
            case None:
                file.sync()
            case int():
                file.fail_sync(Rng(change))
            case _:
                file.change(change)
