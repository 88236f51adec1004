"""`lograft describe TYPE [NAME...]`: show details of resources."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from lograft.cli.common.cluster_options import Settings, open_admin, run_async, showing_command
from lograft.cli.common.completion_values import complete_words
from lograft.cli.common.nouns import CLUSTER, Noun, check_names, check_quorum, parse_nouns
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.output.resource_output import API_VERSION, Resource, has_colours, resource_name, write_document
from lograft.cli.resources.cluster_resources import partition_resources, quorum_resource, replica_status
from lograft.cli.resources.config_resources import owner_resource, parse_setting
from lograft.cli.resources.describe_queries import described_brokers, described_cluster, described_topic, judged_groups
from lograft.cli.resources.describe_text import story_lines
from lograft.clients.admin.aio_admin import Admin
from lograft.runtime.clock import LoopClock

_NOUNS = (Noun.TOPIC, Noun.PARTITION, Noun.BROKER, Noun.GROUP, Noun.QUORUM, Noun.CONFIG, Noun.CLUSTER)


@click.command("describe")
@click.argument("words", metavar="TYPE [NAME]...", nargs=-1, required=True, shell_complete=complete_words(*_NOUNS))
@showing_command
def describe(settings: Settings, words: Sequence[str]) -> None:
    """Show details of one or more resources.

    A group with lag is observed for up to six seconds. It is `keeping up` if its members read the remaining records,
    `falling behind` if records arrive faster than they are read, and `stalled` if it committed nothing for 30 seconds
    or has no members.

    \b
    Examples:
      # Health, quorum, brokers, and configuration of the cluster
      lograft describe cluster
      # Partitions, offsets, sizes, consumer groups, and configuration of a topic
      lograft describe topic orders
      # Each broker's copy of a partition
      lograft describe partition orders-0
      # State, load, disks, and replicas of a broker, or of all brokers
      lograft describe broker 1
      lograft describe brokers
      # Members, lag, and progress of a group
      lograft describe group billing
      # Voters of the metadata quorum
      lograft describe quorum
      # Configuration keys with their documentation
      lograft describe config topic/orders

    \b
    Exit code  0  success
               1  a resource does not exist, or the cluster is unreachable
    """
    noun, names = parse_nouns(words, _NOUNS)
    if noun is Noun.CONFIG:
        names = names or [CLUSTER]
    check_names(noun, names)
    resources = run_async(_look(settings, noun, names))
    if settings.is_document:
        is_one = len(resources) == 1 and (bool(names) or noun in (Noun.QUORUM, Noun.CLUSTER))
        content: Any = resources[0] if is_one else {"apiVersion": API_VERSION, "kind": "List", "items": resources}
        write_document(sys.stdout, content, settings.output)
        return
    if not resources and settings.is_table:
        click.echo(f"No {noun.value}s found.", err=True)
    for number, each in enumerate(resources):
        if settings.output == "name":
            click.echo(resource_name(each))
            continue
        if number:
            click.echo()
        sys.stdout.writelines(story_lines(each, settings, is_coloured=has_colours(sys.stdout)))


async def _look(settings: Settings, noun: Noun, names: list[str]) -> list[Resource]:
    async with open_admin(settings) as admin:
        match noun:
            case Noun.TOPIC:
                return [await described_topic(admin, name) for name in names or await admin.list_topics()]
            case Noun.PARTITION:
                return await _partitions(admin, names)
            case Noun.BROKER:
                return await described_brokers(admin, names, LoopClock())
            case Noun.GROUP:
                return await judged_groups(admin, names, LoopClock())
            case Noun.QUORUM:
                quorum = quorum_resource(await admin.describe_quorum())
                check_quorum(names, quorum["metadata"]["name"])
                return [quorum]
            case Noun.CLUSTER:
                return [await described_cluster(admin)]
            case Noun.CONFIG:
                return [
                    owner_resource(owner, await admin.describe_config(owner.kind, owner.name, keys))
                    for owner, keys in map(parse_setting, names)
                ]
        raise AssertionError(f"{noun} is not among {_NOUNS}")


async def _partitions(admin: Admin, names: list[str]) -> list[Resource]:
    """Return partitions with the copy that each broker has."""
    described = await named_partitions(admin, names, include_internal=bool(names))
    topics = list(dict.fromkeys(partition.topic for partition in described))
    replicas = await admin.describe_replicas(topics, include_internal=True)
    told = partition_resources(described, replicas)
    for partition, each in zip(described, told, strict=True):
        each["status"]["logs"] = [replica_status(known) for known in replicas if known.partition == partition.name]
    return told
