"""Output of the demo: colours and a live status line on a terminal, plain lines in a pipe."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

_TICKS = " ▁▂▃▄▅▆▇█"


class Stage:
    """Prints the demo's output and records its checks."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._summary: list[tuple[str, str, bool | None]] = []

    @contextmanager
    def act(self, title: str) -> Iterator[None]:
        click.echo(click.style(f"\n{title}", bold=True))
        started = time.monotonic()
        yield
        self.tell(click.style(f"{time.monotonic() - started:.1f} s", dim=True))

    def tell(self, text: str) -> None:
        self._clear()
        for line in text.splitlines():
            click.echo(f"  {line}")

    def show(self, text: str) -> None:
        """Show a status line, on a terminal only, until the next output."""
        if self._is_terminal:
            click.echo(f"\r  {text}\x1b[K", nl=False)

    def note(self, what: str, figure: str) -> None:
        """Add a line to the summary that is not a check."""
        self._summary.append((what, figure, None))

    def check(self, what: str, figure: str, *, holds: bool) -> None:
        self._summary.append((what, figure, holds))
        self.tell(f"{_mark(holds)} {what}: {figure}")

    def conclude(self) -> bool:
        """Print the summary. Return True if all checks passed."""
        click.echo(click.style("\nSummary", bold=True))
        width = max(len(what) for what, _, _ in self._summary)
        for what, figure, holds in self._summary:
            click.echo(f"  {_mark(holds)} {what:<{width}}  {figure}")
        return all(holds is not False for _, _, holds in self._summary)

    def _clear(self) -> None:
        if self._is_terminal:
            click.echo("\r\x1b[K", nl=False)


def _mark(holds: bool | None) -> str:
    match holds:
        case True:
            return click.style("✓", fg="green", bold=True)
        case False:
            return click.style("✗", fg="red", bold=True)
        case None:
            return " "


def drawn(counts: list[int]) -> str:
    """Draw one bar per number."""
    most = max(counts, default=0) or 1
    return "".join(_TICKS[-(-count * (len(_TICKS) - 1) // most)] for count in counts)
