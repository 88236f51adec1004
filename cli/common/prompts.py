"""Before something is done that cannot be undone: a person is asked, and a script has to say `--yes`."""

import sys

import click

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError


def check_may_ask(*, is_given: bool) -> None:
    """Before anything else is done, so that a script without `--yes` hears it at once."""
    if not is_given and not sys.stdin.isatty():
        raise CommandError("nobody is there to confirm it", "say --yes, if it is to be done without being asked")


def confirm(question: str, settings: Settings, *, is_given: bool) -> None:
    """Ask `question`, in the cluster that `settings` name, and return if the answer is yes. Raise `Abort` if it is
    anything else. `is_given`: --yes has answered already."""
    check_may_ask(is_given=is_given)
    if not is_given and not click.confirm(f"{question}, in {settings.cluster}?", err=True):
        raise click.Abort
