"""Read a file that a flag names, or standard input, and explain text that is not YAML."""

from typing import TextIO

from lograft.cli.common.command_error import CommandError


def shown_name(file: TextIO) -> str:
    return "standard input" if file.name == "<stdin>" else file.name


def read_text(file: TextIO, remedy: str) -> str:
    """Return the whole text. Raise `CommandError` with that remedy if it is not text."""
    try:
        return file.read()
    except UnicodeDecodeError:
        raise CommandError(f"{shown_name(file)} is not text", remedy) from None


def yaml_trouble(error: Exception) -> str:
    """Describe in one line what PyYAML raised: its own errors with their position, and Python's for invalid dates or
    too deep nesting."""
    import yaml

    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    what = ", ".join(part for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    return f"line {mark.line + 1}: {what}" if mark is not None else what
