"""`lograft offsets TOPIC`: show first and end offsets of partitions, or offsets by time."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from lograft.cli.common.cluster_options import Settings, open_admin, run_async, showing_command
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.nouns import Noun, parse_nouns
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.output.resource_output import Column, Resource, resource, write_resources
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import UnknownPartition
from lograft.clients.times import BadTime, Earliest, Latest, Moment, iso_time, parse_moment
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock

_COLUMNS = (
    Column("TOPIC", lambda each: each["metadata"]["topic"]),
    Column("PARTITION", lambda each: each["metadata"]["partition"], is_number=True),
    Column("EARLIEST", lambda each: each["status"]["earliest"], is_number=True),
    Column("LATEST", lambda each: each["status"]["latest"], is_number=True),
)
_AT_COLUMN = Column("AT", lambda each: each["status"]["at"]["offset"], is_number=True)


@click.command("offsets")
@click.argument("words", metavar="TOPIC[-N]...", nargs=-1, required=True, shell_complete=complete_names(Noun.TOPIC))
@click.option(
    "--at", metavar="TIME", help="Also show the offset of the first record at or after this time (- if none)."
)
@click.option(
    "--partition", "numbers", type=click.IntRange(min=0), multiple=True, help="Only this partition. Repeatable."
)
@showing_command
def offsets(settings: Settings, words: Sequence[str], at: str | None, numbers: Sequence[int]) -> None:
    """Show the start and end offsets of partitions. The end offset is that of the next record that consumers can read.

    Times without a UTC offset are in UTC.

    \b
    Examples:
      # Show the offsets of all partitions of a topic
      lograft offsets orders
      # Also show the offsets of the first records of 2026
      lograft offsets orders --at 2026-01-01T00:00Z
      # Look up an hour ago in one partition
      lograft offsets orders --at -1h --partition 0

    \b
    Exit code  0  success
               1  the topic or partition does not exist, or has no leader
    """
    names = parse_nouns(words, [Noun.TOPIC, Noun.PARTITION])[1] if "/" in words[0] else list(words)
    try:
        moment = parse_moment(at, LoopClock().wall_ms()) if at is not None else None
    except BadTime as error:
        raise click.BadParameter(str(error), param_hint="'--at'") from None
    found = run_async(_look(settings, names, numbers, moment))
    columns = [*_COLUMNS, *([_AT_COLUMN] if at is not None else [])]
    write_resources(sys.stdout, found, columns, settings, is_one=False)


async def _look(
    settings: Settings, names: list[str], numbers: Sequence[int], at: Earliest | Latest | Moment | None
) -> list[Resource]:
    async with open_admin(settings) as admin:
        partitions = await chosen_partitions(admin, names, numbers)
        earliest = await admin.list_offsets(partitions, "earliest")
        latest = await admin.list_offsets(partitions, "latest")
        found = earliest if isinstance(at, Earliest) else latest
        if isinstance(at, Moment):
            found = await admin.list_offsets(partitions, at.epoch_ms)
    return [_resource(name, earliest[name], latest[name], at, found[name]) for name in partitions]


async def chosen_partitions(admin: Admin, names: list[str], numbers: Sequence[int]) -> list[TopicPartition]:
    """Resolve names of topics and partitions, restricted to the given partition numbers, if any."""
    partitions = [partition.name for partition in await named_partitions(admin, names, include_internal=True)]
    for number in numbers:
        if all(name.partition != number for name in partitions):
            raise UnknownPartition(f"partition {number} of {', '.join(names)} does not exist")
    return [name for name in partitions if not numbers or name.partition in numbers]


def _resource(
    name: TopicPartition,
    earliest: int | None,
    latest: int | None,
    at: Earliest | Latest | Moment | None,
    found: int | None,
) -> Resource:
    status: dict[str, Any] = {"earliest": earliest, "latest": latest}
    match at:
        case Moment(epoch_ms):
            status["at"] = {"time": iso_time(epoch_ms), "offset": found}
        case Earliest() | Latest():
            status["at"] = {"time": type(at).__name__.lower(), "offset": found}
    metadata = {"name": f"{name.topic}-{name.partition}", "topic": name.topic, "partition": name.partition}
    return resource("Offsets", metadata, status=status)
