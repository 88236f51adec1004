"""Confirmation of irreversible changes: a prompt on a terminal, `--yes` in scripts."""

import sys

import click

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError


def check_may_ask(*, is_given: bool) -> None:
    """Raise `CommandError` if neither --yes nor a terminal is there. Call it first, so that scripts fail at once."""
    if not is_given and not sys.stdin.isatty():
        raise CommandError(
            "confirmation required, but stdin is not a terminal", "pass --yes to proceed without confirmation"
        )


def confirm(question: str, settings: Settings, *, is_given: bool) -> None:
    """Ask `question`, naming the cluster. Return on yes, and raise `Abort` on any other answer. `is_given`: --yes was
    passed, so do not ask."""
    check_may_ask(is_given=is_given)
    if not is_given and not click.confirm(f"{question}, in {settings.cluster}?", err=True):
        raise click.Abort
