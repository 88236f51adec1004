"""`lograft get NOUN [NAME...]`: what there is, in a line each."""

import re
import sys
from collections.abc import Sequence

import click

from lograft.clients.admin_types import ClusterDescription, PartitionDescription
from lograft.clients.aio_admin import Admin
from lograft.clients.cli_nouns import Noun, check_names, parse_id, parse_nouns
from lograft.clients.cli_options import Settings, open_admin, run_async, showing_command
from lograft.clients.cli_output import Column, Resource, write_resources
from lograft.clients.cli_resources import (
    BROKER_COLUMNS,
    PARTITION_COLUMNS,
    QUORUM_COLUMNS,
    TOPIC_COLUMNS,
    broker_resource,
    partition_resource,
    partition_resources,
    quorum_resource,
    topic_resource,
)
from lograft.clients.errors import UnknownBroker, UnknownPartition

_PARTITION = re.compile(r"(.+)-([0-9]{1,9})", flags=re.ASCII)
_NOUNS = (Noun.TOPIC, Noun.PARTITION, Noun.BROKER, Noun.QUORUM)
_COLUMNS: dict[Noun, Sequence[Column]] = {
    Noun.TOPIC: TOPIC_COLUMNS,
    Noun.PARTITION: PARTITION_COLUMNS,
    Noun.BROKER: BROKER_COLUMNS,
    Noun.QUORUM: QUORUM_COLUMNS,
}


@click.command("get")
@click.argument("words", metavar="NOUN [NAME]...", nargs=-1, required=True)
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@showing_command
def get(settings: Settings, words: Sequence[str], internal: bool) -> None:
    """Show topics, partitions, brokers or the quorum, a line each.

    \b
    lograft get topics              all topics
    lograft get topic orders        one, or several, by name
    lograft get partitions orders   the partitions of a topic, or of all
    lograft get partition orders-0  one of them
    lograft get brokers -o wide     more of each
    lograft get quorum -o json      for a program

    Nouns may be written singular, plural or short (t, p, b), and as TYPE/NAME.
    """
    noun, names = parse_nouns(words, _NOUNS)
    check_names(noun, names)
    resources = run_async(_look(settings, noun, names, include_internal=internal))
    if not resources and settings.output in ("table", "wide"):
        click.echo(f"There are no {noun.value}s.", err=True)
        return
    is_one = noun is Noun.QUORUM or (len(names) == len(resources) == 1 and is_single(noun, names[0], resources[0]))
    write_resources(sys.stdout, resources, _COLUMNS[noun], settings, is_one=is_one)


def is_single(noun: Noun, name: str, found: Resource) -> bool:
    """Whether it was asked for itself: a topic of one partition is a list of them all the same."""
    return noun is not Noun.PARTITION or name != found["metadata"]["topic"]


async def _look(settings: Settings, noun: Noun, names: list[str], *, include_internal: bool) -> list[Resource]:
    async with open_admin(settings) as admin:
        match noun:
            case Noun.TOPIC:
                cluster = await admin.describe_cluster(names, include_internal=include_internal)
                return [topic_resource(topic) for topic in cluster.topics]
            case Noun.PARTITION:
                return await partitions(admin, settings, names, include_internal=include_internal)
            case Noun.BROKER:
                return brokers(await admin.describe_cluster(include_internal=True), names)
            case Noun.QUORUM:
                return [quorum_resource(await admin.describe_quorum())]


async def partitions(admin: Admin, settings: Settings, names: list[str], *, include_internal: bool) -> list[Resource]:
    described = await named_partitions(admin, names, include_internal=include_internal)
    # A table shows no offsets, and asking for them takes a round to every broker.
    if settings.output in ("table", "name"):
        return [partition_resource(partition) for partition in described]
    topics = list(dict.fromkeys(partition.topic for partition in described)) if names else []
    return partition_resources(described, await admin.describe_replicas(topics, include_internal=include_internal))


async def named_partitions(admin: Admin, names: list[str], *, include_internal: bool) -> list[PartitionDescription]:
    """Those of the topics that are named, or of all; and single ones, as `orders-0`."""
    topics = set(await admin.list_topics(include_internal=True)) if any(map(_PARTITION.fullmatch, names)) else set()
    wanted: dict[str, list[int] | None] = {}  # numbers by topic; None: all
    for name in names:
        match = _PARTITION.fullmatch(name) if name not in topics else None
        topic, number = (name, None) if match is None else (match[1], int(match[2]))
        before = wanted.get(topic, [])
        wanted[topic] = None if number is None or before is None else [*before, number]
    cluster = await admin.describe_cluster(wanted, include_internal=include_internal)
    chosen: list[PartitionDescription] = []
    for described in cluster.topics:
        numbers = wanted.get(described.name)
        for number in numbers or ():
            if number >= len(described.partitions):
                raise UnknownPartition(f"topic {described.name!r} has no partition {number}")
        chosen += [each for each in described.partitions if numbers is None or each.number in numbers]
    return chosen


def brokers(cluster: ClusterDescription, names: list[str]) -> list[Resource]:
    """Those of these ids, or all."""
    wanted = [parse_id(name) for name in names]
    by_id = {broker.id: broker for broker in cluster.brokers}
    for broker_id in wanted:
        if broker_id not in by_id:
            raise UnknownBroker(f"there is no broker {broker_id}")
    return [broker_resource(by_id[broker_id], cluster) for broker_id in wanted or by_id]
