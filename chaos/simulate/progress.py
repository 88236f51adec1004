"""Progress of a sweep over many seeds: a line overwritten on a terminal, or an occasional new line elsewhere."""

from typing import TextIO

from lograft.runtime.process.status_line import StatusLine
from lograft.runtime.process.stopwatch import Stopwatch

_SHOW_EVERY_SECONDS = 0.5
_TELL_EVERY_SECONDS = 30.0
_BAR_CELLS = 20


def progress_line(done: int, seeds: int, failed: int, elapsed_seconds: float, *, has_bar: bool) -> str:
    """Return the progress as text. `elapsed_seconds` is the time that the `done` seeds took."""
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
        self._line = StatusLine(out)

    def tick(self, done: int, failed: int) -> None:
        seconds = self._watch.seconds
        if seconds - self._shown_seconds < self._every_seconds:
            return
        self._shown_seconds = seconds
        line = progress_line(done, self._seeds, failed, seconds, has_bar=self._is_terminal)
        if self._is_terminal:
            self._line.show(line)
        else:
            self._out.write(f"{line}\n")
            self._out.flush()

    def clear(self) -> None:
        """Clear the progress line, so that the next output takes its place."""
        self._line.clear()
