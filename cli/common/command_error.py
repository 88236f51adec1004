"""Why a command cannot be done, and what can be done about it: what people read instead of a traceback."""

import errno
from typing import Any

import click

EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
"""As shells have it, of what is ended by Ctrl+C, or by SIGTERM, in the ordinary course of things."""


class CommandError(click.ClickException):
    """A command that cannot be done: one line says why, one what can be done about it. Exit code 1."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        click.echo(f"Remedy: {self.remedy}", err=True)


def show_traceback(ctx: click.Context, error: Exception) -> None:
    """Of what is told in two lines, to whoever wants to know how it came to that."""
    if isinstance(error, CommandError) and ctx.find_root().params.get("debug"):
        import traceback

        traceback.print_exception(error)


def unforeseen(error: Exception) -> CommandError:
    """How a failure is told that no command thought of."""
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return CommandError("standard input or output is closed", "give it some: `< FILE`, `> FILE`, or a pipe")
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return CommandError(f"{where}{error.strerror}", "mend that, and try again")
    cause = f"unexpected {type(error).__name__}: {error}"
    return CommandError(cause, "run `lograft --debug ...` for the traceback, and report it")
