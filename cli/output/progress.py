"""A progress line on a terminal."""

from typing import Self, TextIO

from lograft.clients.cluster.rates import Rate
from lograft.runtime.process.status_line import StatusLine
from lograft.runtime.process.stopwatch import now_seconds

_SHOW_EVERY_SECONDS = 0.5
_BAR_CELLS = 20


def progress_line(count: int, per_second: float, share: float | None, elapsed_seconds: float) -> str:
    """Format progress. `share`: the completed fraction from 0 to 1, or None if the total is unknown."""
    figures = f"{count:,} records, {per_second:,.0f} a second"
    if share is None:
        return figures
    share = min(max(share, 0.0), 1.0)
    filled = int(_BAR_CELLS * share)
    bar = "#" * filled + "." * (_BAR_CELLS - filled)
    left = f", {elapsed_seconds * (1 - share) / share:,.0f} s left" if share else ""
    return f"[{bar}] {share:4.0%}  {figures}{left}"


class ProgressLine:
    """A line redrawn at most twice a second, and never shown for shorter operations."""

    def __init__(self, out: TextIO, *, is_shown: bool) -> None:
        self._line = StatusLine(out)
        self._is_shown = is_shown
        self._began_seconds = self._shown_seconds = now_seconds()
        self._counted = 0
        self._rate = Rate(0)

    def tick(self, count: int, share: float | None = None) -> None:
        """Update the number of processed records and the completed fraction."""
        if not self._is_shown:
            return
        now = now_seconds()
        if now - self._shown_seconds < _SHOW_EVERY_SECONDS:
            return
        elapsed = now - self._began_seconds
        self._rate.add(count - self._counted, 1000 * elapsed)
        self._counted, self._shown_seconds = count, now
        self._line.show(progress_line(count, self._rate.per_second(1000 * elapsed), share, elapsed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line, so that other output takes its place."""
        self._line.clear()
