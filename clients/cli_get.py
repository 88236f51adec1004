"""`lograft get NOUN [NAME...]`: what there is, in a line each."""

import sys
from collections.abc import Sequence

import click

from lograft.clients.admin_types import ClusterDescription
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
from lograft.clients.errors import UnknownBroker

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
    is_one = noun is Noun.QUORUM or (len(names) == 1 and noun is not Noun.PARTITION)
    write_resources(sys.stdout, resources, _COLUMNS[noun], settings, is_one=is_one)


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


async def partitions(admin: Admin, settings: Settings, topics: list[str], *, include_internal: bool) -> list[Resource]:
    cluster = await admin.describe_cluster(topics, include_internal=include_internal)
    described = [partition for topic in cluster.topics for partition in topic.partitions]
    # A table shows no offsets, and asking for them takes a round to every broker.
    if settings.output in ("table", "name"):
        return [partition_resource(partition) for partition in described]
    return partition_resources(described, await admin.describe_replicas(topics, include_internal=include_internal))


def brokers(cluster: ClusterDescription, names: list[str]) -> list[Resource]:
    """Those of these ids, or all."""
    wanted = [parse_id(name) for name in names]
    by_id = {broker.id: broker for broker in cluster.brokers}
    for broker_id in wanted:
        if broker_id not in by_id:
            raise UnknownBroker(f"there is no broker {broker_id}")
    return [broker_resource(by_id[broker_id], cluster) for broker_id in wanted or by_id]
