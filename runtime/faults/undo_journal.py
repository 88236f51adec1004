"""A journal of a process's unsynced changes on disk, with enough data to undo them when the machine loses power.

The journal records each change, with the data that it replaces, before it is made. So a process killed at any moment
leaves a journal with the state before each change. Inode numbers identify files and directories. A file that loses its
last name stays in a graveyard beside the journal for as long as the journal refers to it.
"""

import base64
import json
import os
import shutil
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

JOURNAL_FILE = "journal"
GRAVEYARD = "graveyard"
STAGING = "staging"

_COMPACT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class OverwrittenBytes:
    """A write. `old`: the overwritten bytes, up to the end of the file at `old_size`."""

    number: int
    file: int
    position: int
    length: int
    old: bytes
    old_size: int


@dataclass(frozen=True, slots=True)
class Resized:
    """A change of a file's size. `old`: the bytes cut off."""

    number: int
    file: int
    size: int
    old: bytes
    old_size: int


@dataclass(frozen=True, slots=True)
class Synced:
    """Notes that all changes of the file up to the number `up_to` are durable."""

    number: int
    file: int
    up_to: int


@dataclass(frozen=True, slots=True)
class FailedSync:
    """Notes a failed sync. It is unknown which changes up to `up_to` are durable: `seed` decides. No later sync makes
    the others durable."""

    number: int
    file: int
    up_to: int
    seed: int


@dataclass(frozen=True, slots=True)
class NameStep:
    """A name in a directory that referred to `old`, and now refers to `new`. `path`: of the name at that time."""

    directory: int
    path: str
    old: int | None
    new: int | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Named:
    """One change of names, in one or two steps. `is_new`: the file or directory was just created."""

    number: int
    steps: tuple[NameStep, ...]
    is_new: bool = False

    @property
    def directories(self) -> list[int]:
        return list(dict.fromkeys(step.directory for step in self.steps))

    def mentions(self) -> Iterator[int]:
        for step in self.steps:
            yield from (each for each in (step.directory, step.old, step.new) if each is not None)


@dataclass(frozen=True, slots=True)
class DirectorySynced:
    number: int
    directory: int
    up_to: int


@dataclass(frozen=True, slots=True)
class Retracted:
    """Notes that an announced change could not be made."""

    number: int
    what: int


FileEvent: TypeAlias = OverwrittenBytes | Resized | Synced | FailedSync
Event: TypeAlias = FileEvent | Named | DirectorySynced | Retracted

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (OverwrittenBytes, Resized, Synced, FailedSync, Named, DirectorySynced, Retracted)
}


def encode(event: Event) -> bytes:
    """Return the event as a line."""
    fields = asdict(event)
    if "old" in fields:
        fields["old"] = base64.b64encode(fields["old"]).decode()
    return json.dumps({"kind": type(event).__name__, **fields}).encode() + b"\n"


def decode(line: bytes) -> Event:
    fields = json.loads(line)
    kind = _KINDS[fields.pop("kind")]
    if "old" in fields:
        fields["old"] = base64.b64decode(fields["old"])
    if "steps" in fields:
        fields["steps"] = tuple(NameStep(**step) for step in fields["steps"])
    event: Event = kind(**fields)
    return event


class UndoLedger:
    """The live events of a journal: all changes that a power failure may undo."""

    def __init__(self) -> None:
        self.live: dict[int, Event] = {}  # in order of number
        self.last_number = 0
        self._files: dict[int, dict[int, FileEvent]] = {}
        self._names: dict[int, deque[Named]] = {}

    def apply(self, event: Event) -> None:
        self.last_number = event.number
        match event:
            case OverwrittenBytes(file=file) | Resized(file=file) | FailedSync(file=file):
                self._keep(file, event)
            case Synced(file=file):
                self._sync(file, event)
            case Named():
                self._name(event)
            case DirectorySynced(directory=directory, up_to=up_to):
                pending = self._names.get(directory, deque())
                while pending and pending[0].number <= up_to:
                    self._commit_first(directory)
            case Retracted(what=what):
                self._retract(what)

    def events_of(self, file: int) -> list[FileEvent]:
        return list(self._files.get(file, {}).values())

    @property
    def files(self) -> list[int]:
        """The files that may lose changes."""
        return [file for file, events in self._files.items() if events]

    @property
    def names(self) -> list[Named]:
        return [event for event in self.live.values() if isinstance(event, Named)]

    def _keep(self, file: int, event: FileEvent) -> None:
        self.live[event.number] = event
        self._files.setdefault(file, {})[event.number] = event

    def _sync(self, file: int, event: Synced) -> None:
        """Drop durable changes. After a failed sync, keep all events, because the state of the disk depends on all
        events since before that sync."""
        events = self._files.get(file, {})
        if any(isinstance(one, FailedSync) for one in events.values()):
            self._keep(file, event)
            return
        for number in [number for number in events if number <= event.up_to]:
            del events[number], self.live[number]

    def _name(self, event: Named) -> None:
        if event.is_new:
            for step in event.steps:
                # The kernel may have reused the number of a file that no longer exists.
                for number in self._files.pop(step.new, {}) if step.new is not None else ():
                    del self.live[number]
        self.live[event.number] = event
        for directory in event.directories:
            self._names.setdefault(directory, deque()).append(event)

    def _commit_first(self, directory: int) -> None:
        """Commit the oldest change of a directory. If it concerns two directories, first commit the earlier changes of
        the other one."""
        event = self._names[directory][0]
        for each in event.directories:
            while self._names[each][0] is not event:
                self._commit_first(each)
        for each in event.directories:
            self._names[each].popleft()
        del self.live[event.number]

    def _retract(self, number: int) -> None:
        event = self.live.pop(number, None)
        match event:
            case Named():
                for directory in event.directories:
                    self._names[directory].remove(event)
            case OverwrittenBytes() | Resized():
                del self._files[event.file][number]


class UndoJournal:
    """A ledger stored in a file in `directory`. Only one thread at a time may use it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        for name in (GRAVEYARD, STAGING):
            os.makedirs(f"{directory}/{name}", exist_ok=True)
        self.ledger = read_journal(directory)
        self._descriptor = -1
        self._compact_at_bytes = 0
        self._size_bytes = 0
        self._write_anew()
        self._let_go()

    def next_number(self) -> int:
        return self.ledger.last_number + 1

    def add(self, event: Event) -> None:
        """Write the event to the file, and apply it to the ledger."""
        line = encode(event)
        os.write(self._descriptor, line)
        self._size_bytes += len(line)
        before = len(self.ledger.live)
        self.ledger.apply(event)
        if isinstance(event, DirectorySynced | Retracted) and len(self.ledger.live) < before:
            self._let_go()
        if self._size_bytes > self._compact_at_bytes:
            self._write_anew()

    def grave(self, inode: int) -> str:
        return f"{self.directory}/{GRAVEYARD}/{inode}"

    def staged(self) -> str:
        """Return a path for a new file or directory until it gets its name."""
        return f"{self.directory}/{STAGING}/{self.next_number()}"

    def _let_go(self) -> None:
        """Remove from the graveyard all that no live event refers to."""
        mentioned = {inode for event in self.ledger.names for inode in event.mentions()}
        for name in os.listdir(f"{self.directory}/{GRAVEYARD}"):
            if int(name) not in mentioned:
                remove_whole(f"{self.directory}/{GRAVEYARD}/{name}")

    def _write_anew(self) -> None:
        """Rewrite the file with only the live events."""
        lines = b"".join(encode(event) for event in self.ledger.live.values())
        path = f"{self.directory}/{JOURNAL_FILE}"
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        written = 0
        while written < len(lines):
            written += os.write(descriptor, lines[written:])
        os.replace(f"{path}.new", path)
        if self._descriptor != -1:
            os.close(self._descriptor)
        self._descriptor = descriptor
        self._size_bytes = len(lines)
        self._compact_at_bytes = max(_COMPACT_BYTES, 4 * len(lines))

    def close(self) -> None:
        os.close(self._descriptor)


def read_journal(directory: str) -> UndoLedger:
    """Return the ledger of a process that has ended. If the last change of names was announced but not completed, undo
    the part that was made."""
    ledger = UndoLedger()
    try:
        with open(f"{directory}/{JOURNAL_FILE}", "rb") as file:
            # An incomplete last line was being written, so its change was not made.
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return ledger
    last: Event | None = None
    for line in lines:
        last = decode(line)
        ledger.apply(last)
    if isinstance(last, Named) and not all(inode_at(step.path) == step.new for step in last.steps):
        undo_part(directory, last)
        ledger.apply(Retracted(last.number + 1, last.number))
    return ledger


def undo_part(directory: str, event: Named) -> None:
    """Restore directories that were buried for an incomplete change."""
    for step in event.steps:
        grave = f"{directory}/{GRAVEYARD}/{step.old}"
        if step.old is not None and inode_at(step.path) is None and os.path.isdir(grave):
            os.rename(grave, step.path)


def inode_at(path: str) -> int | None:
    """Return the inode number at the path, or None if there is nothing."""
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None


def remove_whole(path: str) -> None:
    """Remove a file, or a directory with all of its content."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
