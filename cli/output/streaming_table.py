"""Aligned columns for rows that arrive one by one and may not fit in memory."""

from collections.abc import Collection, Sequence
from typing import TextIO

_LOOKAHEAD = 200


class StreamingTable:
    """Writes rows, and lines between them. Column widths follow the first rows and only grow."""

    def __init__(self, out: TextIO, titles: Sequence[str], right_aligned: Collection[int]) -> None:
        self._out = out
        self._titles = tuple(titles)
        self._widths = list(map(len, titles))
        self._right_aligned = right_aligned
        self._waiting: list[tuple[str, ...] | str] | None = []  # None once the headers are written

    def row(self, cells: tuple[str, ...]) -> None:
        assert len(cells) == len(self._titles)
        self._widths = list(map(max, self._widths, map(len, cells)))
        self._add(cells)

    def line(self, text: str) -> None:
        """Write a line outside the columns, below the last row."""
        self._add(text)

    def finish(self) -> None:
        if self._waiting is None:
            return
        waiting, self._waiting = self._waiting, None
        if any(isinstance(item, tuple) for item in waiting):
            self._write(self._titles)
        for item in waiting:
            self._write(item)

    def _add(self, item: tuple[str, ...] | str) -> None:
        if self._waiting is None:
            self._write(item)
            return
        self._waiting.append(item)
        if len(self._waiting) >= _LOOKAHEAD:
            self.finish()

    def _write(self, item: tuple[str, ...] | str) -> None:
        if isinstance(item, str):
            self._out.write(item + "\n")
            return
        cells = [
            cell.rjust(width) if i in self._right_aligned else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(item, self._widths, strict=True))
        ]
        self._out.write("  ".join(cells).rstrip() + "\n")
