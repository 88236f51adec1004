"""A line on a terminal that is overwritten repeatedly, and cleared at the end."""

import os
from typing import TextIO

_DEFAULT_COLUMNS = 80
_CLEAR_RIGHT = "\x1b[K"


class StatusLine:
    """Use it only if `out` is a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._may_be_there = False

    def show(self, text: str) -> None:
        """Replace the line. Cut it to the width, because a wrapped line cannot be overwritten."""
        self._may_be_there = True  # set before writing: Ctrl+C may arrive as soon as it is visible
        self._write(text[: self._columns() - 1])

    def clear(self) -> None:
        """Clear the line, so that the next output takes its place."""
        if self._may_be_there:
            self._write("")
            self._may_be_there = False

    def _write(self, text: str) -> None:
        self._out.write(f"\r{text}{_CLEAR_RIGHT}")
        self._out.flush()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or _DEFAULT_COLUMNS
        except OSError:
            return _DEFAULT_COLUMNS
