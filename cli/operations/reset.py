"""`lograft reset group NAME --topic T --to WHERE`: reset the committed offsets of a group."""

from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, open_admin, run_async, showing_command
from lograft.cli.common.completion_values import complete_names, complete_words
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
from lograft.cli.operations.offset_targets import BadTarget, Exactly, TopicChoice, parse_target, parse_topic_choice
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import UnknownPartition
from lograft.clients.times import Earliest, Latest, Moment
from lograft.clients.types import OffsetAndMetadata, TopicPartition
from lograft.runtime.clock import LoopClock


@click.command("reset")
@click.argument("words", metavar="group NAME", nargs=-1, required=True, shell_complete=complete_words(Noun.GROUP))
@click.option(
    "--topic",
    "topics",
    metavar="T[:P,...]",
    multiple=True,
    shell_complete=complete_names(Noun.TOPIC),
    help="A topic, or some of its partitions. Repeatable.",
)
@click.option("--all-topics", is_flag=True, help="All topics that the group has committed offsets for.")
@click.option(
    "--to", "target", required=True, metavar="WHERE", help="The target: earliest, latest, a time, -1h, or an offset."
)
@click.option(
    "--clamp", is_flag=True, help="Use the nearest available offset instead of rejecting one that is out of range."
)
@click.option("--create", is_flag=True, help="Create the group if it does not exist.")
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@showing_command
def reset(
    settings: Settings,
    words: Sequence[str],
    topics: Sequence[str],
    all_topics: bool,
    target: str,
    clamp: bool,
    create: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Reset the committed offsets of a group, to read records again or to skip them.

    The group must have no members, so stop its consumers first. A time selects the first record at or after it, or the
    end if there is none.

    \b
    Examples:
      # Show what a reset to an hour ago would change
      lograft reset group billing --topic orders --to -1h --dry-run
      # Read two partitions from the beginning again
      lograft reset group billing --topic orders:0,2 --to earliest --yes
      # Reset all topics of a group to the beginning of 2026
      lograft reset group billing --all-topics --to 2026-01-01T00:00Z
      # Create a group at the end of a topic
      lograft reset group nightly --topic orders --to latest --create

    \b
    Exit code  0  success
               1  the group, topic, or offset does not exist, or the group has members
    """
    _, names = parse_nouns(words, [Noun.GROUP])
    if len(names) != 1:
        raise click.UsageError("exactly one group name required: `lograft reset group NAME --topic T --to WHERE`")
    if bool(topics) == all_topics:
        raise click.UsageError("pass --topic or --all-topics")
    try:
        where = parse_target(target, LoopClock().wall_ms())
        choices = [parse_topic_choice(topic) for topic in topics]
    except BadTarget as error:
        raise click.UsageError(str(error)) from None
    if not dry_run:
        check_may_ask(is_given=yes)

    planned = run_async(_plan(settings, names[0], choices, where, may_create=create, clamps=clamp))
    if dry_run:
        foretell([planned], settings, "would be reset")
        return
    show_changes([planned], settings, is_asked=not yes)
    confirm(f"Reset group {names[0]}", settings, is_given=yes)
    run_async(carry_out(settings, [planned], "reset"))


async def _plan(
    settings: Settings,
    group: str,
    choices: Sequence[TopicChoice],
    where: Earliest | Latest | Moment | Exactly,
    *,
    may_create: bool,
    clamps: bool,
) -> GroupChange:
    async with open_admin(settings) as admin:
        await check_group(admin, group, may_create=may_create)
        partitions = await _partitions(admin, choices) if choices else list(await admin.group_offsets(group))
        if isinstance(where, Exactly):
            found = dict.fromkeys(partitions, where.offset)
        else:
            at = where.epoch_ms if isinstance(where, Moment) else type(where).__name__.lower()
            found = await admin.reset_group_offsets(group, partitions, at, validate_only=True)
        wanted = {name: OffsetAndMetadata(offset) for name, offset in found.items()}
        return await plan_change(admin, group, wanted, clamps=clamps)


async def _partitions(admin: Admin, choices: Sequence[TopicChoice]) -> list[TopicPartition]:
    found: dict[TopicPartition, None] = {}
    for topic, numbers in choices:
        own = [partition.name for partition in (await admin.describe_topic(topic)).partitions]
        for number in numbers:
            if number >= len(own):
                raise UnknownPartition(f"topic {topic!r} has no partition {number}")
        found |= dict.fromkeys(name for name in own if not numbers or name.partition in numbers)
    return list(found)
