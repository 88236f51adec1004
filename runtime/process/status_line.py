"""A line on a terminal that is written over again and again, and gone in the end."""

import os
from typing import TextIO

_DEFAULT_COLUMNS = 80
_CLEAR_RIGHT = "\x1b[K"


class StatusLine:
    """Its writer says whether `out` is a terminal at all."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._may_be_there = False

    def show(self, text: str) -> None:
        """In place of what was there; what is too wide is cut, as a line that wraps cannot be written over."""
        self._may_be_there = True  # before it is: Ctrl+C may come as soon as it is seen
        self._write(text[: self._columns() - 1])

    def clear(self) -> None:
        """What is written next stands in its place."""
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
