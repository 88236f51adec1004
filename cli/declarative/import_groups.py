"""`lograft import group -f FILE`: set group offsets from a file of `lograft export groups`."""

from collections.abc import Sequence
from typing import TextIO

import click

from lograft.cli.common.cluster_options import Settings, open_admin, run_async, showing_command
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.completion_values import complete_words
from lograft.cli.common.input_files import read_text, shown_name, yaml_trouble
from lograft.cli.common.nouns import Noun, parse_nouns
from lograft.cli.common.prompts import check_may_ask, confirm
from lograft.cli.operations.offset_changes import (
    GroupChange,
    carry_out,
    check_group,
    foretell,
    plan_change,
    show_changes,
)
from lograft.cli.operations.offset_targets import BadTarget, GroupFile, read_group_files


@click.command("import")
@click.argument("words", metavar="group [NAME]", nargs=-1, required=True, shell_complete=complete_words(Noun.GROUP))
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.File(),
    required=True,
    metavar="FILE",
    help="File to import, or - for standard input.",
)
@click.option(
    "--clamp", is_flag=True, help="Use the nearest available offset instead of rejecting one that is out of range."
)
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@showing_command
def import_command(
    settings: Settings, words: Sequence[str], file: TextIO, clamp: bool, dry_run: bool, yes: bool
) -> None:
    """Set group offsets from a file.

    Missing groups are created. Offsets of partitions that the file does not list are left unchanged. The groups must
    have no members. With NAME, the single group in the file is imported under that name.

    \b
    Examples:
      # Show what an import would change
      lograft import group -f billing.yaml --dry-run
      # Copy the offsets of a group to another group
      lograft export group billing > billing.yaml
      lograft import group billing-copy -f billing.yaml --yes

    \b
    Exit code  0  success
               1  the file is invalid, a group has members, or a topic or offset does not exist
    """
    _, names = parse_nouns(words, [Noun.GROUP])
    if len(names) > 1:
        raise click.UsageError("only one name is allowed: `lograft import group [NAME] -f FILE`")
    if not dry_run:
        check_may_ask(is_given=yes)
    files = _read(file)
    if names and len(files) > 1:
        raise CommandError(
            f"{shown_name(file)} has {len(files)} groups, but only one name was given", "remove the name"
        )
    files = [GroupFile(names[0] if names else each.group, each.offsets) for each in files]
    planned = run_async(_plan(settings, files, clamps=clamp))
    if dry_run:
        foretell(planned, settings, "would be imported")
        return
    show_changes(planned, settings, is_asked=not yes)
    confirm(f"Import {', '.join(f'group {each.group}' for each in files)}", settings, is_given=yes)
    run_async(carry_out(settings, planned, "imported"))


def _read(file: TextIO) -> list[GroupFile]:
    import yaml

    remedy = "pass the output of `lograft export groups NAME`"
    try:
        return read_group_files(list(yaml.safe_load_all(read_text(file, remedy))))
    except (BadTarget, yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandError(f"{shown_name(file)} cannot be imported: {yaml_trouble(error)}", remedy) from None


async def _plan(settings: Settings, files: Sequence[GroupFile], *, clamps: bool) -> list[GroupChange]:
    """Plan the changes of all groups before making any."""
    planned = []
    async with open_admin(settings) as admin:
        for each in files:
            await check_group(admin, each.group, may_create=True)
            planned.append(await plan_change(admin, each.group, each.offsets, clamps=clamps))
    return planned
