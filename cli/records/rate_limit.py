"""Limit the rate of records."""

import re
from collections.abc import Callable, Iterator

import click

from lograft.cli.records.input_lines import Lines

_UNITS_SECONDS = {"s": 1, "m": 60, "h": 3600}
_BURST_SECONDS = 0.05


def read_rate(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse a rate into records per second."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(?:/(s|m|h))?", value.strip(), flags=re.ASCII)
    if match is None or not float(match[1]):
        raise click.BadParameter(f"{value!r} is not a rate: use 1000/s, 30/m, or a number of records per second")
    return float(match[1]) / _UNITS_SECONDS[match[2] or "s"]


class Pace:
    """A token bucket: how many records may go now, and when the next. It keeps unused tokens briefly, so a slow source
    does not cause a burst. Pure."""

    def __init__(self, per_second: float, now_seconds: float) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * _BURST_SECONDS)
        self._allowed = 1.0
        self._seen_seconds = now_seconds

    def take(self, wanted: int, now_seconds: float) -> int:
        """Return how many of the wanted records may go now."""
        grown = self._allowed + (now_seconds - self._seen_seconds) * self._per_second
        self._allowed, self._seen_seconds = min(self._most, grown), now_seconds
        # Tolerate rounding, so that a wait is not followed by another tiny one.
        taken = min(wanted, int(self._allowed + 1e-6))
        self._allowed -= taken
        return taken

    @property
    def wait_seconds(self) -> float:
        """Return the time until a record may go, after `take` returned none."""
        return max(0.0, 1.0 - self._allowed) / self._per_second


def paced(
    pieces: Iterator[Lines], per_second: float, now: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[Lines]:
    """Yield the same lines at the given rate."""
    pace = Pace(per_second, now())
    for lines in pieces:
        start = 0
        while start < len(lines.content):
            count = pace.take(len(lines.content) - start, now())
            if count == 0:
                sleep(pace.wait_seconds)
                continue
            yield Lines(lines.source, lines.first + start, lines.content[start : start + count])
            start += count
