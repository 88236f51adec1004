"""A file that a flag names, or standard input."""

from typing import TextIO

from lograft.cli.common.command_error import CommandError


def shown_name(file: TextIO) -> str:
    return "standard input" if file.name == "<stdin>" else file.name


def read_text(file: TextIO, remedy: str) -> str:
    """All of it. `CommandError` with that remedy, if it is none."""
    try:
        return file.read()
    except UnicodeDecodeError:
        raise CommandError(f"{shown_name(file)} is no text", remedy) from None
