"""Parse lines of text or bytes into keys and values of records. Pure.

Lines are turned into columns in batches, which a producer accepts several times as fast as single records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lograft.cli.common.command_error import CommandError
from lograft.cli.records.input_lines import Lines

Pairs: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Headers."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """Columns of records for one partition, or to be partitioned by key. `numbers`: the line number of each record."""

    numbers: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    timestamps: Sequence[int] | None = None
    headers: Sequence[Pairs] | None = None
    partition: int | None = None


class RecordForm(Protocol):
    """Turns lines into records."""

    def columns(self, lines: Lines, now_ms: int) -> Iterator[InputColumns]:
        """Yield the records of lines, in order within a partition. Raise `CommandError` at an invalid line, after the
        records of the lines before it."""
        ...


class BadLine(Exception):
    """An invalid line: the problem, to be printed after the position, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy

    def at(self, lines: Lines, number: int) -> CommandError:
        return CommandError(f"{lines.source.place(number)} {self}", self.remedy)


@dataclass(frozen=True, slots=True)
class LineForm:
    """The line is a value; or a key, a separator and a value; or, for tombstones, a key."""

    key: bytes | None = None
    key_separator: bytes | None = None
    null_value: bytes | None = None
    is_tombstone: bool = False
    headers: Pairs = ()
    partition: int | None = None

    def columns(self, lines: Lines, now_ms: int) -> Iterator[InputColumns]:
        bad: CommandError | None = None
        values: Sequence[bytes | None] = lines.content
        keys: Sequence[bytes | None] | None = None
        if self.is_tombstone:
            keys, values = values, [None] * len(values)
        elif self.key_separator is not None:
            keys, values, bad = _split(lines, self.key_separator)
        elif self.key is not None:
            keys = [self.key] * len(values)
        if self.null_value is not None:
            values = [None if value == self.null_value else value for value in values]
        if values:
            numbers = range(lines.first, lines.first + len(values))
            headers = [self.headers] * len(values) if self.headers else None
            yield InputColumns(numbers, values, keys, headers=headers, partition=self.partition)
        if bad is not None:
            raise bad


def _split(lines: Lines, separator: bytes) -> tuple[list[bytes], list[bytes], CommandError | None]:
    """Return keys and values up to the first line without a separator, and the error for that line."""
    parts = [line.partition(separator) for line in lines.content]
    end = next((index for index, part in enumerate(parts) if not part[1]), len(parts))
    bad = None
    if end < len(parts):
        shown = separator.decode(errors="backslashreplace")
        without = BadLine(f"has no {shown!r} between a key and a value", "correct it, or pass another --key-separator")
        bad = without.at(lines, lines.first + end)
    return [part[0] for part in parts[:end]], [part[2] for part in parts[:end]], bad
