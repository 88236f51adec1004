"""How far a sweep over many seeds is: a line that is written over on a terminal, now and then a new one elsewhere."""

import os
from typing import TextIO

from lograft.runtime.stopwatch import Stopwatch

_SHOW_EVERY_SECONDS = 0.5
_TELL_EVERY_SECONDS = 30.0
_BAR_CELLS = 20
_DEFAULT_COLUMNS = 80


def progress_line(done: int, seeds: int, failed: int, elapsed_seconds: float, *, has_bar: bool) -> str:
    """`elapsed_seconds`: that those which are done took."""
    left = f", {elapsed_seconds * (seeds - done) / done:,.0f} s left" if done else ""
    words = f"{done:,} of {seeds:,} seeds, {failed:,} failed{left}"
    if not has_bar:
        return words
    filled = _BAR_CELLS * done // max(seeds, 1)
    return f"[{'#' * filled}{'.' * (_BAR_CELLS - filled)}] {words}"


class SweepProgress:
    def __init__(self, out: TextIO, seeds: int) -> None:
        self._out = out
        self._seeds = seeds
        self._is_terminal = out.isatty()
        self._every_seconds = _SHOW_EVERY_SECONDS if self._is_terminal else _TELL_EVERY_SECONDS
        self._watch = Stopwatch()
        self._shown_seconds = 0.0
        self._has_line = False

    def tick(self, done: int, failed: int) -> None:
        seconds = self._watch.seconds
        if seconds - self._shown_seconds < self._every_seconds:
            return
        self._shown_seconds = seconds
        line = progress_line(done, self._seeds, failed, seconds, has_bar=self._is_terminal)
        self._out.write(f"\r{line[: self._columns() - 1]}\033[K" if self._is_terminal else f"{line}\n")
        self._out.flush()
        self._has_line = self._is_terminal

    def clear(self) -> None:
        """What is written next stands in its place."""
        if self._has_line:
            self._out.write("\r\033[K")
            self._out.flush()
            self._has_line = False

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or _DEFAULT_COLUMNS
        except OSError:
            return _DEFAULT_COLUMNS
