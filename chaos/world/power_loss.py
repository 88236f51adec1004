"""Effects of a power failure on files and directories: durable data remains, unsynced data may or may not.

The model is as harsh as POSIX allows: a synced file is lost with its name if the name was not synced, and each file's
fate is independent of the others'. Only the order of changes within one directory is kept, and renames are atomic.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from lograft.runtime.rng import Rng

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Write:
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    size: int


Change: TypeAlias = Write | Truncate


class Fate(Enum):
    """The fate of one file's unsynced changes."""

    LOST = "none of them is on disk"
    KEPT = "all of them are"
    TORN = "the first ones are, the last of those in part"
    PAGES = "the size is as they left it, but of the pages they wrote only some are on disk"


class FileNode:
    """A file, independent of its names: its content as readers see it, its durable content, and the changes between."""

    __slots__ = ("_durable", "_pending", "content", "locked")

    def __init__(self) -> None:
        self.content = bytearray()
        self.locked = False
        self._durable = bytearray()
        self._pending: list[Change] = []

    def copy(self) -> "FileNode":
        """Return a file with the same content, all of it durable."""
        other = FileNode()
        other.content, other._durable = bytearray(self.content), bytearray(self.content)
        return other

    def change(self, change: Change) -> None:
        _apply(self.content, change)
        self._pending.append(change)

    def sync(self) -> None:
        for change in self._pending:
            _apply(self._durable, change)
        self._pending.clear()

    def fail_sync(self, rng: Rng) -> None:
        """Fail as on Linux: the pages count as clean from now on, so no later sync writes what this one did not."""
        self._durable = survivors(self._durable, self._pending, rng)
        self._pending.clear()

    def power_failure(self, rng: Rng) -> None:
        self._durable = survivors(self._durable, self._pending, rng)
        self._pending.clear()
        self.content = bytearray(self._durable)

    def flip_bit(self, byte: int, bit: int) -> None:
        """Flip one bit of a byte everywhere it is kept, as bad memory on the way to the disk would."""
        mask = 1 << bit
        for place in (self.content, self._durable):
            if byte < len(place):
                place[byte] ^= mask
        for index, change in enumerate(self._pending):
            if isinstance(change, Write) and 0 <= (at := byte - change.position) < len(change.data):
                data = bytearray(change.data)
                data[at] ^= mask
                self._pending[index] = Write(change.position, bytes(data))


def survivors(durable: bytearray, pending: list[Change], rng: Rng) -> bytearray:
    """Return a content that a power failure may leave of `durable` and the unsynced changes after it."""
    if not pending:
        return durable
    match rng.choice(list(Fate)):
        case Fate.LOST:
            return durable
        case Fate.KEPT:
            return _changed(durable, pending)
        case Fate.TORN:
            return _torn(durable, pending, rng)
        case Fate.PAGES:
            return _scattered(durable, pending, rng)


def _torn(durable: bytearray, pending: list[Change], rng: Rng) -> bytearray:
    whole = rng.randrange(len(pending))
    content = _changed(durable, pending[:whole])
    last = pending[whole]
    if isinstance(last, Write):
        _apply(content, Write(last.position, last.data[: rng.randrange(len(last.data))]))
    return content


def _scattered(durable: bytearray, pending: list[Change], rng: Rng) -> bytearray:
    content = _changed(durable, pending)
    old = durable[: min([change.size for change in pending if isinstance(change, Truncate)], default=len(durable))]
    touched = {
        page
        for change in pending
        if isinstance(change, Write)
        for page in range(change.position // PAGE_BYTES, (change.position + len(change.data) - 1) // PAGE_BYTES + 1)
    }
    kept_fraction = rng.random()
    for page in sorted(touched):
        start, end = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, len(content))
        if start < end and rng.random() >= kept_fraction:
            content[start:end] = old[start:end].ljust(end - start, b"\0")
    return content


def _changed(content: bytearray, changes: list[Change]) -> bytearray:
    changed = bytearray(content)
    for change in changes:
        _apply(changed, change)
    return changed


def _apply(content: bytearray, change: Change) -> None:
    match change:
        case Write(position, data):
            if not data:
                return  # an empty write beyond the end does not extend the file
            if position > len(content):
                content.extend(bytes(position - len(content)))
            content[position : position + len(data)] = data
        case Truncate(size):
            if size <= len(content):
                del content[size:]
            else:
                content.extend(bytes(size - len(content)))


@dataclass(frozen=True, slots=True, eq=False)
class EntryChange:
    """One atomic change of names. Each step maps a directory's name to a node, or removes the name if the node is None.

    A rename is one change with two steps, so it happens completely or not at all, even across two directories.
    """

    steps: tuple[tuple["DirectoryNode", str, "Node | None"], ...]

    def directories(self) -> list["DirectoryNode"]:
        return list({id(directory): directory for directory, _, _ in self.steps}.values())


@dataclass(slots=True, eq=False)
class DirectoryNode:
    """A directory: the names programs see, the durable ones, and the changes in between."""

    entries: dict[str, "Node"] = field(default_factory=dict)
    _durable: dict[str, "Node"] = field(default_factory=dict)
    _pending: deque[EntryChange] = field(default_factory=deque)

    def copy(self) -> "DirectoryNode":
        """Return a directory with copies of all nodes, all of it durable."""
        entries = {name: node.copy() for name, node in self.entries.items()}
        return DirectoryNode(entries, dict(entries))

    def sync(self) -> None:
        while self._pending:
            self._commit_first()

    def keep_some(self, rng: Rng) -> None:
        """Apply the first half of a power failure: a random number of the oldest changes had reached the disk."""
        pending = len(self._pending)
        for _ in range(rng.choice([0, pending, rng.randint(0, pending)])):
            if self._pending:
                self._commit_first()

    def lose_the_rest(self) -> None:
        """Apply the second half of a power failure, after the first half was applied to every directory."""
        self._pending.clear()
        self.entries = dict(self._durable)

    def _commit_first(self) -> None:
        """Make the oldest change durable. If it spans two directories, first commit the other one's earlier changes."""
        change = self._pending[0]
        for directory in change.directories():
            while directory._pending[0] is not change:
                directory._commit_first()
        for directory, name, node in change.steps:
            if node is None:
                del directory._durable[name]
            else:
                directory._durable[name] = node
        for directory in change.directories():
            directory._pending.popleft()


Node: TypeAlias = FileNode | DirectoryNode


def change_entries(*steps: tuple[DirectoryNode, str, Node | None]) -> None:
    """Apply one change of names. It is durable once its directories are synced."""
    change = EntryChange(steps)
    for directory, name, node in steps:
        if node is None:
            del directory.entries[name]
        else:
            directory.entries[name] = node
    for directory in change.directories():
        directory._pending.append(change)
