"""Before something is done that cannot be undone: a person is asked, and a script has to say `--yes`."""

import sys

import click

from lograft.clients.cli.main import CommandError


def check_may_ask(*, is_given: bool) -> None:
    """Before anything else is done, so that a script without `--yes` hears it at once."""
    if not is_given and not sys.stdin.isatty():
        raise CommandError("nobody is there to confirm it", "say --yes, if it is to be done without being asked")


def confirm(question: str, *, is_given: bool) -> None:
    """Return if it is to be done; what is not an explicit yes is none. `is_given`: by --yes."""
    check_may_ask(is_given=is_given)
    if not is_given and not click.confirm(question, err=True):
        raise click.Abort
