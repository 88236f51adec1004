"""A history of all client operations on a live cluster, written line by line as they happen. Pure.

An operation has two lines, at its call and at its end, so that a process that dies leaves the operations it began. A
reader of an incomplete history finds these with an unknown outcome.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import (
    EVENTS,
    NEVER_RETURNED,
    OPERATIONS,
    Completion,
    Entry,
    Event,
    Operation,
    began,
    outcome_of,
)
from lograft.chaos.history.entry_codec import COMPLETIONS_OF, from_json, to_json

Kind = TypeVar("Kind")


class TextSink(Protocol):
    def write(self, text: str, /) -> object: ...


class HistoryDamaged(ValueError):
    """A line that no writer wrote, or that contradicts an earlier line."""

    def __init__(self, line_number: int, cause: str) -> None:
        super().__init__(f"line {line_number} of the history: {cause}")
        self.line_number = line_number


class HistoryWriter:
    """Writes one whole line per call. The sink is responsible for durability."""

    def __init__(self, sink: TextSink) -> None:
        self._sink = sink

    def invoked(self, operation: Operation) -> None:
        assert operation.completion == NEVER_RETURNED, "an operation is told before it has ended"
        self._write({"invoked": to_json(operation)})

    def completed(self, process: str, number: int, completion: Completion) -> None:
        self._write({"completed": [process, number], "as": to_json(completion)})

    def happened(self, event: Event) -> None:
        self._write({"happened": to_json(event)})

    def _write(self, line: Any) -> None:
        self._sink.write(json.dumps(line, separators=(",", ":")) + "\n")


class History:
    """Entries of all processes, in the order in which they began."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: tuple[Entry, ...] = tuple(sorted(entries, key=began))
        self._of: dict[type, list[Any]] = {}

    def of(self, kind: type[Kind]) -> list[Kind]:
        if kind not in self._of:
            self._of[kind] = [entry for entry in self.entries if isinstance(entry, kind)]
        return self._of[kind]

    @cached_property
    def counts(self) -> dict[str, dict[Outcome, int]]:
        """The number of operations by kind and outcome."""
        operations = [entry for entry in self.entries if isinstance(entry, OPERATIONS)]
        counted = Counter((type(one).__name__, outcome_of(one)) for one in operations)
        names = sorted({type(one).__name__ for one in operations})
        return {name: {outcome: counted[name, outcome] for outcome in Outcome} for name in names}


def read_history(lines: Iterable[str]) -> History:
    """Read the lines of one file, or of several concatenated ones. Skip a line without a line end: its writer died."""
    reader = _Reader()
    for line_number, line in enumerate(lines, start=1):
        if line.endswith("\n"):
            reader.take(line_number, line)
    return History(reader.entries)


def write_history(history: History, sink: TextSink) -> None:
    """Write the whole history in the format of `HistoryWriter`."""
    writer = HistoryWriter(sink)
    for entry in history.entries:
        if not isinstance(entry, OPERATIONS):
            writer.happened(entry)
            continue
        writer.invoked(replace(entry, completion=NEVER_RETURNED))
        if entry.completion != NEVER_RETURNED:
            writer.completed(entry.process, entry.number, entry.completion)


class _Reader:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._places: dict[tuple[str, int], int] = {}  # of operations
        self._ended: dict[tuple[str, int], None] = {}

    def take(self, line_number: int, line: str) -> None:
        try:
            match json.loads(line):
                case {"invoked": found}:
                    self._begin(from_json(found))
                case {"completed": [str(process), int(number)], "as": found}:
                    self._end((process, number), from_json(found))
                case {"happened": found}:
                    self._happen(from_json(found))
                case _:
                    raise ValueError("neither the beginning of an operation, nor its end, nor an event")
        except ValueError as error:
            raise HistoryDamaged(line_number, str(error)) from error

    def _begin(self, operation: Any) -> None:
        if not isinstance(operation, OPERATIONS):
            raise ValueError(f"{type(operation).__name__} is no operation")
        name = (operation.process, operation.number)
        if name in self._places:
            raise ValueError(f"{name[0]} began its operation {name[1]} twice")
        self._places[name] = len(self.entries)
        self.entries.append(operation)

    def _end(self, name: tuple[str, int], completion: Any) -> None:
        if name not in self._places:
            raise ValueError(f"{name[0]} never began its operation {name[1]}")
        if name in self._ended:
            raise ValueError(f"{name[0]} ended its operation {name[1]} twice")
        operation: Any = self.entries[self._places[name]]
        kind = type(operation).__name__
        if not isinstance(completion, COMPLETIONS_OF[kind]):
            raise ValueError(f"{type(completion).__name__} is no end of {kind}")
        self._ended[name] = None
        self.entries[self._places[name]] = replace(operation, completion=completion)

    def _happen(self, event: Any) -> None:
        if not isinstance(event, EVENTS):
            raise ValueError(f"{type(event).__name__} is no event")
        self.entries.append(event)
