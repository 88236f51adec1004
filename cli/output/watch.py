"""`-w`: print resources, and again whenever they change, until Ctrl+C.

On a terminal, a table is redrawn in place. In a pipe, as with kubectl, all resources are followed by each changed one
as another line or document.
"""

import shutil
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TextIO

import click

from lograft.cli.common.cluster_options import Settings, run_async
from lograft.cli.common.command_error import EXIT_INTERRUPTED
from lograft.cli.output.resource_output import (
    Column,
    Resource,
    has_colours,
    resource_name,
    table_lines,
    write_document,
)
from lograft.clients.errors import LograftError
from lograft.runtime.clock import Clock

_LOOK_EVERY_MS = 1000

# Let the terminal truncate long lines instead of wrapping them.
_NO_WRAP = "\x1b[?7l"
_WRAP = "\x1b[?7h"
_CLEAR_BELOW = "\x1b[J"


def run_until_interrupted(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run until Ctrl+C, which is the intended way to end."""
    try:
        run_async(coroutine)
    except KeyboardInterrupt:
        click.get_current_context().exit(EXIT_INTERRUPTED)


async def watch(
    look: Callable[[], Awaitable[list[Resource]]],
    columns: Sequence[Column],
    settings: Settings,
    clock: Clock,
    *,
    none: str,
    until_none: bool = False,
    doubt: Callable[[], str] = lambda: "",
) -> None:
    """Watch resources. `none`: printed if there are none; `until_none`: then return. `doubt`: a warning about the last
    answer. Only the first query must succeed: later errors are printed and retried."""
    view = (
        _InPlace(sys.stdout, columns, settings) if _is_in_place(settings) else _Appended(sys.stdout, columns, settings)
    )
    found = await look()
    trouble = ""
    while True:
        view.show(found, trouble or doubt() or ("" if found else none))
        if until_none and not found and not trouble:
            return
        await clock.sleep_ms(_LOOK_EVERY_MS)
        try:
            found, trouble = await look(), ""
        except LograftError as error:
            if not error.retriable:
                raise
            trouble = f"Not updated: {error.message}"


def _is_in_place(settings: Settings) -> bool:
    return settings.is_table and sys.stdout.isatty()


class _InPlace:
    """Draws a table, and a message below it, over the previous one."""

    def __init__(self, out: TextIO, columns: Sequence[Column], settings: Settings) -> None:
        self._out = out
        self._columns = columns
        self._settings = settings
        self._drawn: list[str] = []

    def show(self, found: Sequence[Resource], remark: str) -> None:
        is_coloured = has_colours(self._out)
        lines = table_lines(found, self._columns, self._settings, is_coloured=is_coloured) if found else []
        lines += [f"{remark}\n"] if remark else []
        height = shutil.get_terminal_size().lines - 1
        if len(lines) > height > 1:
            left = len(lines) - height + 1
            lines = [*lines[: height - 1], f"... and {left} more\n"]
        if lines != self._drawn:
            back = f"\x1b[{len(self._drawn)}F" if self._drawn else ""
            self._out.write(f"{back}{_CLEAR_BELOW}{_NO_WRAP}{''.join(lines)}{_WRAP}")
            self._out.flush()
            self._drawn = lines


class _Appended:
    """Appends resources that are new or have changed."""

    def __init__(self, out: TextIO, columns: Sequence[Column], settings: Settings) -> None:
        self._out = out
        self._columns = columns
        self._settings = settings
        self._widths: list[int] = []
        self._seen: dict[str, Resource] = {}
        self._remark = ""

    def show(self, found: Sequence[Resource], remark: str) -> None:
        """Report deleted resources on stderr, because they are not data."""
        now = {resource_name(each): each for each in found}
        for name in self._seen:
            if name not in now:
                click.echo(f"{name} deleted", err=True)
        changed = [each for name, each in now.items() if self._seen.get(name) != each]
        self._seen = now
        self._write(changed)
        self._out.flush()
        if remark != self._remark:
            self._remark = remark
            if remark:
                click.echo(remark, err=True)

    def _write(self, changed: Sequence[Resource]) -> None:
        if self._settings.is_document:
            for each in changed:
                self._out.write("---\n" if self._settings.output == "yaml" else "")
                write_document(self._out, each, self._settings.output)
        elif self._settings.output == "name":
            self._out.writelines(f"{resource_name(each)}\n" for each in changed)
        elif changed:
            self._out.writelines(table_lines(changed, self._columns, self._settings, widths=self._widths))
            self._settings = replace(self._settings, has_titles=False)
