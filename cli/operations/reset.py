"""`lograft reset group NAME --topic T --to WHERE`: a group goes on elsewhere."""

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
    help="A topic, or partitions of it; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="All that the group has committed anything of.")
@click.option("--to", "target", required=True, metavar="WHERE", help="earliest, latest, a time, -1h, or an offset.")
@click.option("--clamp", is_flag=True, help="Take the nearest offset there is, instead of refusing.")
@click.option("--create", is_flag=True, help="Make the group, if there is none of that name.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
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
    """Have a group go on reading somewhere else: again what it has read, or not at all what it has not.

    It must have no members: stop them before. A time is that of the first record of then or later; where there is none,
    the end.

    \b
    lograft reset group billing --topic orders --to -1h --dry-run
    lograft reset group billing --topic orders:0,2 --to earliest --yes
    lograft reset group billing --all-topics --to 2026-01-01T00:00Z
    lograft reset group nightly --topic orders --to latest --create

    \b
    Exit code  0  done
               1  there is no such group or topic, the group has members, or there is no such offset
    """
    _, names = parse_nouns(words, [Noun.GROUP])
    if len(names) != 1:
        raise click.UsageError("which? One at a time: `lograft reset group NAME --topic T --to WHERE`")
    if bool(topics) == all_topics:
        raise click.UsageError("of which topics? Name them with --topic, or say --all-topics")
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
