"""Errors that users read instead of a traceback: a cause and a remedy."""

import errno
from typing import Any

import click

EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
"""The shell's exit code of a process that Ctrl+C or SIGTERM ended as intended."""


class CommandError(click.ClickException):
    """A failed command: one line for the cause, one for the remedy. Exit code 1."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        click.echo(f"Remedy: {self.remedy}", err=True)


def show_traceback(ctx: click.Context, error: Exception) -> None:
    """Print the traceback of an error, with --debug."""
    if isinstance(error, CommandError) and ctx.find_root().params.get("debug"):
        import traceback

        traceback.print_exception(error)


def unforeseen(error: Exception) -> CommandError:
    """Turn an exception that no command handles into a command error."""
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return CommandError("standard input or output is closed", "redirect it: `< FILE`, `> FILE`, or a pipe")
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return CommandError(f"{where}{error.strerror}", "correct that, then retry")
    cause = f"unexpected {type(error).__name__}: {error}"
    return CommandError(cause, "report this bug with the traceback from `lograft --debug ...`")
