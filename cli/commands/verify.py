"""`lograft verify replicas [TOPIC...]`: whether all brokers have the same."""

import sys
from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, open_admin, run_async, showing_command
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.output.resource_output import Column, Resource, resource, write_resources
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import PartitionDescription, PartitionVerification
from lograft.clients.errors import LograftError, NoBrokerAvailable, UnknownPartition, UnknownTopic
from lograft.runtime.process.status_line import StatusLine

_MOST_NAMED = 10  # batches that cannot be decoded

_COLUMNS = (
    Column("PARTITION", lambda each: each["metadata"]["name"]),
    Column("COMPARED", lambda each: each["status"]["brokers"]),
    Column("FROM", lambda each: each["status"]["start"], is_number=True),
    Column("TO", lambda each: each["status"]["end"], is_number=True),
    Column("RESULT", lambda each: verdict(each["status"])),
)


@click.command("verify")
@click.argument("words", metavar="replicas [TOPIC|PARTITION]...", nargs=-1, required=True)
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@showing_command
@click.pass_context
def verify(ctx: click.Context, settings: Settings, words: Sequence[str], internal: bool) -> None:
    """Compare what brokers have on their disks.

    All brokers in sync must have the same records, up to what is committed; of compacted topics the same at each offset
    that they have in common, and the same latest record of each key. Everything is read, and its checksums are checked:
    a damaged copy is reported, and its broker makes it anew, if another is in sync.

    \b
    lograft verify replicas            all topics
    lograft verify replicas orders     one topic, or several
    lograft verify replicas orders-0   one partition

    \b
    Exit code  0  all replicas are the same
               1  some are not, or were damaged, or cannot be compared
    """
    noun, *names = words
    if noun not in ("replicas", "replica"):
        raise click.UsageError(f"No such thing as {noun!r} here: it can be replicas")
    found = run_async(_verify(settings, names, include_internal=internal))
    if found or settings.is_document:
        write_resources(sys.stdout, [_resource(each) for each in found], _COLUMNS, settings, is_one=False)
    else:
        click.echo("There are no partitions.", err=True)
    if bad := [each for each in found if not each.is_well]:
        click.echo(f"{len(bad)} of {len(found)} partitions: not all replicas are known to be the same", err=True)
        ctx.exit(1)


async def _verify(settings: Settings, names: list[str], *, include_internal: bool) -> list[PartitionVerification]:
    async with open_admin(settings) as admin:
        return await verify_each(admin, await named_partitions(admin, names, include_internal=include_internal))


async def verify_each(admin: Admin, partitions: Sequence[PartitionDescription]) -> list[PartitionVerification]:
    """It may take hours: the trouble of one is told with what came of the others, and those deleted meanwhile are not
    missed."""
    found = []
    line = StatusLine(sys.stderr)
    try:
        for number, partition in enumerate(partitions, 1):
            name = f"{partition.topic}-{partition.number}"
            if sys.stderr.isatty():
                line.show(f"{number}/{len(partitions)} {name}")
            try:
                found.append(await admin.verify_partition(partition.topic, partition.number))
            except (UnknownTopic, UnknownPartition):
                line.clear()
                click.echo(f"{name} was deleted meanwhile", err=True)
            except NoBrokerAvailable:
                raise  # nor will any for the next
            except LograftError as error:
                found.append(PartitionVerification(partition.name, (), 0, 0, problem=error.message))
    finally:
        line.clear()
    return found


def _resource(found: PartitionVerification) -> Resource:
    topic, number = found.partition
    return resource(
        "Verification",
        {"name": f"{topic}-{number}", "topic": topic, "partition": number},
        status={
            "same": found.is_same,
            "brokers": list(found.brokers),
            "start": found.start,
            "end": found.end,
            "offset": found.offset,
            "problem": found.problem,
            "damaged": list(found.damaged),
            "leftOut": list(found.left_out),
            "undecodable": [{"firstOffset": first, "lastOffset": last} for first, last in found.undecodable],
        },
    )


def verdict(status: Resource) -> str:
    """The status of a verification, in words."""
    parts = [status["problem"] or "same"]
    if status["damaged"] and status["damaged"] == status["brokers"]:
        parts.append(f"the copy of broker {_named(status['damaged'])} is damaged, and no other is in sync")
    elif status["damaged"]:
        parts.append(f"the copy of broker {_named(status['damaged'])} was damaged, and is made anew")
    if status["leftOut"]:
        parts.append(f"not in sync, and not compared: broker {_named(status['leftOut'])}")
    if status["undecodable"]:
        parts.append(_undecodable(status["undecodable"]))
    return "; ".join(parts)


def _undecodable(batches: Sequence[Resource]) -> str:
    spans = [(each["firstOffset"], each["lastOffset"]) for each in batches[:_MOST_NAMED]]
    named = ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)
    more = f" and {len(batches) - _MOST_NAMED} batches more" if len(batches) > _MOST_NAMED else ""
    return f"offsets {named}{more} cannot be decoded, and were compared as they are stored"


def _named(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))
