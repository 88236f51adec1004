"""`lograft get NOUN [NAME...]`: what there is, in a line each."""

import sys
from collections.abc import Sequence

import click

from lograft.clients.admin_types import ClusterDescription
from lograft.clients.aio_admin import Admin
from lograft.clients.cli_moves import reassignments
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
from lograft.clients.config_resources import CONFIG_COLUMNS, Owner, entry_resource, parse_owner
from lograft.clients.errors import UnknownBroker
from lograft.clients.group_resources import GROUP_COLUMNS, group_resource, listed_group
from lograft.clients.named_partitions import named_partitions
from lograft.clients.reassignment_resources import PROGRESS_COLUMNS

_NOUNS = tuple(Noun)
_COLUMNS: dict[Noun, Sequence[Column]] = {
    Noun.TOPIC: TOPIC_COLUMNS,
    Noun.PARTITION: PARTITION_COLUMNS,
    Noun.BROKER: BROKER_COLUMNS,
    Noun.GROUP: GROUP_COLUMNS,
    Noun.QUORUM: QUORUM_COLUMNS,
    Noun.CONFIG: CONFIG_COLUMNS,
    Noun.REASSIGNMENT: PROGRESS_COLUMNS,
}


@click.command("get")
@click.argument("words", metavar="NOUN [NAME]...", nargs=-1, required=True)
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@showing_command
def get(settings: Settings, words: Sequence[str], internal: bool) -> None:
    """Show topics, partitions, brokers, groups, the quorum, configuration or reassignments, a line each.

    \b
    lograft get topics              all topics
    lograft get topic orders        one, or several, by name
    lograft get partitions orders   the partitions of a topic, or of all
    lograft get partition orders-0  one of them
    lograft get brokers -o wide     more of each
    lograft get groups -o wide      with how far they are behind
    lograft get quorum -o json      for a program
    lograft get configs topic/orders cluster
    lograft get reassignments       as `lograft reassign status`

    Nouns may be written singular, plural or short (t, p, b, g), and as TYPE/NAME.
    """
    noun, names = parse_nouns(words, _NOUNS)
    check_names(noun, names)
    if noun is Noun.CONFIG and not names:
        raise click.UsageError("whose? `lograft get configs topic/NAME`, broker/ID or cluster")
    resources = run_async(_look(settings, noun, names, include_internal=internal))
    if not resources and settings.output in ("table", "wide"):
        click.echo(f"There are no {noun.value}s.", err=True)
        return
    is_one = noun is Noun.QUORUM or (len(names) == len(resources) == 1 and is_single(noun, names[0], resources[0]))
    write_resources(sys.stdout, resources, _COLUMNS[noun], settings, is_one=is_one)


def is_single(noun: Noun, name: str, found: Resource) -> bool:
    """Whether it was asked for itself: a topic of one partition is a list of them all the same."""
    if noun is Noun.CONFIG:
        return False
    return noun not in (Noun.PARTITION, Noun.REASSIGNMENT) or name != found["metadata"]["topic"]


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
            case Noun.GROUP:
                return await groups(admin, settings, names)
            case Noun.QUORUM:
                return [quorum_resource(await admin.describe_quorum())]
            case Noun.CONFIG:
                return await config_entries(admin, [parse_owner(name) for name in names])
            case Noun.REASSIGNMENT:
                return await reassignments(admin, names)


async def config_entries(admin: Admin, owners: Sequence[Owner]) -> list[Resource]:
    return [
        entry_resource(owner, entry)
        for owner in owners
        for entry in await admin.describe_config(owner.kind, owner.name)
    ]


async def partitions(admin: Admin, settings: Settings, names: list[str], *, include_internal: bool) -> list[Resource]:
    described = await named_partitions(admin, names, include_internal=include_internal)
    # A table shows no offsets, and asking for them takes a round to every broker.
    if settings.output in ("table", "name"):
        return [partition_resource(partition) for partition in described]
    topics = list(dict.fromkeys(partition.topic for partition in described)) if names else []
    return partition_resources(described, await admin.describe_replicas(topics, include_internal=include_internal))


async def groups(admin: Admin, settings: Settings, names: list[str]) -> list[Resource]:
    # What a table shows, all brokers tell at once; offsets have to be asked for group by group.
    if not names and settings.output in ("table", "name"):
        return [listed_group(group) for group in await admin.list_groups()]
    wanted = names or [group.name for group in await admin.list_groups()]
    return [await described_group(admin, name) for name in wanted]


async def described_group(admin: Admin, name: str) -> Resource:
    return group_resource(await admin.describe_group(name), await admin.group_offsets(name))


def brokers(cluster: ClusterDescription, names: list[str]) -> list[Resource]:
    """Those of these ids, or all."""
    wanted = [parse_id(name) for name in names]
    by_id = {broker.id: broker for broker in cluster.brokers}
    for broker_id in wanted:
        if broker_id not in by_id:
            raise UnknownBroker(f"there is no broker {broker_id}")
    return [broker_resource(by_id[broker_id], cluster) for broker_id in wanted or by_id]
