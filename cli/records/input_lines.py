"""Read available lines of files in batches, with their positions."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from lograft.cli.common.command_error import CommandError
from lograft.clients.records.validation import MAX_RECORD_BYTES

STANDARD_INPUT = "-"

LONGEST_LINE_BYTES = 2 * MAX_RECORD_BYTES
"""The limit of a line. No record that can be stored is longer, even as JSON with base64."""

_AT_ONCE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """An input file. `name` is None for standard input."""

    file: BinaryIO
    name: str | None = None

    def place(self, number: int) -> str:
        """Describe the position of a line. Number 0 is the whole file."""
        if number == 0:
            return self.name or "standard input"
        return f"line {number}" if self.name is None else f"line {number} of {self.name}"


@dataclass(frozen=True, slots=True)
class Lines:
    """Consecutive lines without line ends. `first`: the number of the first one, counted from 1."""

    source: Source
    first: int
    content: list[bytes]


class Sources:
    """Files read one after the other, each opened when it is reached."""

    def __init__(self, paths: Sequence[str], standard_input: BinaryIO | None) -> None:
        self._paths = paths
        self._standard_input = standard_input
        self._sizes = [self._size_bytes(path) for path in paths]
        self._read_bytes = 0
        self._current: BinaryIO | None = None

    def lines(self, *, are_whole: bool) -> Iterator[Lines]:
        """`are_whole`: each file is a single line."""
        read = read_whole if are_whole else read_lines
        for path, size_bytes in zip(self._paths, self._sizes, strict=True):
            if path == STANDARD_INPUT:
                assert self._standard_input is not None
                self._current = self._standard_input
                yield from read(Source(self._standard_input))
            else:
                with open(path, "rb") as self._current:
                    yield from read(Source(self._current, path))
            self._current = None
            self._read_bytes += size_bytes or 0

    @property
    def share(self) -> float | None:
        """Return the fraction read, from 0 to 1, or None if a source has no known size."""
        total_bytes = sum(size_bytes or 0 for size_bytes in self._sizes)
        if total_bytes == 0 or None in self._sizes:
            return None
        current = self._current
        return (self._read_bytes + (0 if current is None or current.closed else current.tell())) / total_bytes

    def _size_bytes(self, path: str) -> int | None:
        standard_input = self._standard_input
        try:
            status = os.stat(path if path != STANDARD_INPUT or standard_input is None else standard_input.fileno())
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None


def read_lines(source: Source) -> Iterator[Lines]:
    """Yield available lines as soon as there are any: typed input line by line, a long file in large batches. The last
    line needs no line end."""
    number = 1
    begun: list[bytes] = []  # of an incomplete line
    begun_bytes = 0
    while piece := source.file.read1(_AT_ONCE_BYTES):  # type: ignore[attr-defined]
        content = piece.split(b"\n")
        begun.append(content[0])
        begun_bytes += len(content[0])
        if begun_bytes > LONGEST_LINE_BYTES:
            raise _too_long(source.place(number), LONGEST_LINE_BYTES)
        if len(content) == 1:
            continue
        content[0] = b"".join(begun)
        begun = [content.pop()]
        begun_bytes = len(begun[0])
        if b"\r" in piece or content[0].endswith(b"\r"):
            content = [line.removesuffix(b"\r") for line in content]
        yield Lines(source, number, content)
        number += len(content)
    if last := b"".join(begun):
        yield Lines(source, number, [last])


def read_whole(source: Source) -> Iterator[Lines]:
    content = source.file.read(MAX_RECORD_BYTES + 1)
    if len(content) > MAX_RECORD_BYTES:
        raise _too_long(source.place(0), MAX_RECORD_BYTES)
    yield Lines(source, 0, [content])


def _too_long(place: str, limit_bytes: int) -> CommandError:
    return CommandError(f"{place} is longer than {limit_bytes} bytes, the limit of a record", "split it")
