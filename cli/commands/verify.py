"""`lograft verify replicas [TOPIC...]`: check that all replicas are identical."""

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
@click.option("--internal", is_flag=True, help="Include internal topics.")
@showing_command
@click.pass_context
def verify(ctx: click.Context, settings: Settings, words: Sequence[str], internal: bool) -> None:
    """Compare the replicas of partitions on disk.

    All in-sync replicas must have the same records up to the high watermark. For compacted topics, they must have the
    same record at each common offset, and the same latest record of each key. The brokers read all data and verify its
    checksums. A broker with a damaged copy rebuilds it from another in-sync replica.

    \b
    Examples:
      # Compare all topics
      lograft verify replicas
      # Compare one topic, or one partition
      lograft verify replicas orders
      lograft verify replicas orders-0

    \b
    Exit code  0  all replicas are identical
               1  replicas differ, were damaged, or could not be compared
    """
    noun, *names = words
    if noun not in ("replicas", "replica"):
        raise click.UsageError(f"{noun!r} cannot be verified: use `lograft verify replicas`")
    found = run_async(_verify(settings, names, include_internal=internal))
    if found or settings.is_document:
        write_resources(sys.stdout, [_resource(each) for each in found], _COLUMNS, settings, is_one=False)
    else:
        click.echo("No partitions found.", err=True)
    if bad := [each for each in found if not each.is_well]:
        click.echo(f"{len(bad)} of {len(found)} partitions: replicas differ or could not be compared", err=True)
        ctx.exit(1)


async def _verify(settings: Settings, names: list[str], *, include_internal: bool) -> list[PartitionVerification]:
    async with open_admin(settings) as admin:
        return await verify_each(admin, await named_partitions(admin, names, include_internal=include_internal))


async def verify_each(admin: Admin, partitions: Sequence[PartitionDescription]) -> list[PartitionVerification]:
    """Verify partitions one by one, which may take hours. Report an error of one partition with the results of the
    others, and skip partitions that are deleted meanwhile."""
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
                raise  # so neither will the next partition's
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
    """Return the verdict on a verification."""
    parts = [status["problem"] or "same"]
    if status["damaged"] and status["damaged"] == status["brokers"]:
        parts.append(f"the copy of broker {_named(status['damaged'])} is damaged, and no other replica is in sync")
    elif status["damaged"]:
        parts.append(f"the copy of broker {_named(status['damaged'])} was damaged and is being rebuilt")
    if status["leftOut"]:
        parts.append(f"not compared, because not in sync: broker {_named(status['leftOut'])}")
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
