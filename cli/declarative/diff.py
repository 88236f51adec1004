"""`lograft diff -f FILE|DIR|-`: show what `apply` would change."""

import difflib
import errno
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from lograft.cli.common.cluster_options import Settings, cluster_command, open_admin, run_async
from lograft.cli.common.command_error import EXIT_INTERRUPTED, show_traceback, unforeseen
from lograft.cli.declarative.apply_plan import Change
from lograft.cli.declarative.apply_run import Refused, prepare
from lograft.cli.declarative.desired_state import Desired
from lograft.cli.declarative.manifest_files import file_options, read_files
from lograft.cli.output.resource_output import has_colours
from lograft.cli.resources.manifest_writer import yaml_documents

_DIFFERS = 1
_FAILED = 2
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class _Diff(click.Command):
    """A command whose failures exit with 2, because 1 means that there are differences."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            show_traceback(ctx, error)
            _fail(ctx, error)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            is_reader_gone = isinstance(error, OSError) and error.errno == errno.EPIPE
            if is_reader_gone or ctx.find_root().params.get("debug"):
                raise
            _fail(ctx, unforeseen(error))


def _fail(ctx: click.Context, error: click.ClickException) -> NoReturn:
    error.show()
    ctx.exit(_FAILED)


@click.command("diff", cls=_Diff)
@file_options
@cluster_command
def diff(settings: Settings, paths: Sequence[str], recursive: bool) -> None:
    """Show the differences between a cluster and resource files, that is, what `lograft apply` would change.

    Prints a unified diff for each resource that differs. The cluster validates the changes as for `apply`, and none is
    made.

    \b
    Examples:
      # Compare the files of a directory with the cluster
      lograft diff -f topics/
      # Find out what has changed since an export
      lograft export topics > before.yaml
      lograft diff -f before.yaml

    \b
    Exit code  0  no differences
               1  differences
               2  rejected or failed
    """
    desired = read_files(paths, recursive=recursive)
    changes = run_async(_prepare(settings, desired)) if desired else []
    differing = [change for change in changes if change.verdict != "unchanged"]
    colours = _COLOURS if has_colours(sys.stdout) else {}
    for change in differing:
        for line in unified(change):
            click.secho(line, fg=colours.get(line[:1]))
    click.get_current_context().exit(_DIFFERS if differing else 0)


async def _prepare(settings: Settings, desired: Sequence[Desired]) -> list[Change]:
    async with open_admin(settings) as admin:
        try:
            return await prepare(admin, settings, desired)
        except Refused as refused:
            refused.tell()


def unified(change: Change) -> Iterator[str]:
    """Return the lines of a unified diff between the live and the declared resource."""
    is_new = change.before is None
    before = "" if change.before is None else yaml_documents([change.before])
    after = yaml_documents([change.after])
    label = change.desired.label
    return difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        "/dev/null" if is_new else f"{label} (live)",
        f"{label} ({change.desired.place.source})",
        lineterm="",
    )
