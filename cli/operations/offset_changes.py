"""Plan, show and commit changes of a group's offsets, for `reset` and `import`."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lograft.cli.common.cluster_options import Settings, open_admin
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.nouns import Noun
from lograft.cli.common.units import count_text
from lograft.cli.operations.offset_targets import (
    Bounds,
    OffsetChange,
    change_resource,
    nearest,
    out_of_bounds,
)
from lograft.cli.output.resource_output import Column, Resource, write_resources
from lograft.cli.resources.change_report import ChangeReport, raise_first
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import GroupNotEmpty, GroupNotFound
from lograft.clients.types import OffsetAndMetadata, TopicPartition

CHANGE_COLUMNS = (
    Column("GROUP", lambda each: each["metadata"]["group"]),
    Column("TOPIC", lambda each: each["metadata"]["topic"]),
    Column("PARTITION", lambda each: each["metadata"]["partition"], is_number=True),
    Column("FROM", lambda each: each["status"]["from"], is_number=True),
    Column("TO", lambda each: each["status"]["to"], is_number=True),
    Column("LAG", lambda each: each["status"]["lag"], is_number=True),
)


class GroupChange(NamedTuple):
    """Offsets to commit to a group, and the changes they make."""

    group: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    changes: Sequence[OffsetChange]


async def check_group(admin: Admin, group: str, *, may_create: bool) -> None:
    """Raise if the group has members, whose commits would undo the change, or does not exist, unless `may_create`."""
    try:
        description = await admin.describe_group(group)
    except GroupNotFound:
        if may_create:
            return
        raise CommandError(
            f"group {group!r} does not exist", "list groups with `lograft get groups`, or create it with --create"
        ) from None
    if description.members:
        who = ", ".join(member.client_id or member.member_id for member in description.members[:3])
        raise GroupNotEmpty(f"group {group!r} has {count_text(len(description.members), 'member')} ({who})")


async def bounds_of(admin: Admin, names: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
    names = list(names)
    starts, ends = await admin.list_offsets(names, "earliest"), await admin.list_offsets(names, "latest")
    return {name: Bounds(starts[name] or 0, ends[name] or 0) for name in names}


async def plan_change(
    admin: Admin, group: str, wanted: Mapping[TopicPartition, OffsetAndMetadata], *, clamps: bool
) -> GroupChange:
    """Raise for offsets that are out of range, or replace them by the nearest available ones."""
    bounds = await bounds_of(admin, wanted)
    bad = out_of_bounds({name: offset.offset for name, offset in wanted.items()}, bounds)
    if bad and not clamps:
        raise CommandError("; ".join(bad), "use an available offset, or pass --clamp to use the nearest one")
    offsets = {name: given._replace(offset=nearest(given.offset, bounds[name])) for name, given in wanted.items()}
    before = await admin.group_offsets(group)
    changes = [
        OffsetChange(name, before[name].committed if name in before else None, offsets[name].offset, bounds[name].end)
        for name in wanted
    ]
    return GroupChange(group, offsets, changes)


def foretell(planned: Sequence[GroupChange], settings: Settings, done: str) -> None:
    """Return the changes as a resource, offset by offset."""
    if settings.is_document:
        write_resources(sys.stdout, _changes(planned), CHANGE_COLUMNS, settings, is_one=False)
        return
    show_changes(planned, settings)
    report = ChangeReport(settings)
    for each in planned:
        report.tell(Noun.GROUP, each.group, _how(each, done))


def show_changes(planned: Sequence[GroupChange], settings: Settings, *, is_asked: bool = False) -> None:
    """Print the changes as a table. `is_asked`: print them to stderr for the confirmation, whatever the output
    format."""
    if settings.is_table or is_asked:
        out = sys.stdout if settings.is_table else sys.stderr
        write_resources(out, _changes(planned), CHANGE_COLUMNS, replace(settings, output="table"), is_one=False)
        out.flush()


async def carry_out(settings: Settings, planned: Sequence[GroupChange], done: str) -> None:
    report = ChangeReport(settings)
    async with open_admin(settings) as admin:
        for each in planned:
            refused = await admin.alter_group_offsets(each.group, each.offsets)
            raise_first([error for error in refused.values() if error is not None])
            report.tell(Noun.GROUP, each.group, _how(each, done))
        await report.finish(admin)


def _changes(planned: Sequence[GroupChange]) -> list[Resource]:
    return [change_resource(each.group, change) for each in planned for change in each.changes]


def _how(each: GroupChange, done: str) -> str:
    return f"{done}: {count_text(len(each.changes), 'partition')}"
