"""`lograft describe NOUN NAME`: all about one thing."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from lograft.clients.admin_types import ConfigEntry, ConfigKind
from lograft.clients.aio_admin import Admin
from lograft.clients.cli_get import brokers, described_group
from lograft.clients.cli_nouns import Noun, check_names, parse_nouns
from lograft.clients.cli_options import Settings, open_admin, run_async, showing_command
from lograft.clients.cli_output import Column, Resource, cell_text, write_document, write_table
from lograft.clients.cli_resources import partition_resources, quorum_resource, replica_status, topic_resource
from lograft.clients.config_resources import owner_resource, parse_owner
from lograft.clients.named_partitions import named_partitions

_ABBREVIATIONS = ("id", "isr", "elr")
_NOUNS = (Noun.TOPIC, Noun.PARTITION, Noun.BROKER, Noun.GROUP, Noun.QUORUM, Noun.CONFIG)


@click.command("describe")
@click.argument("words", metavar="NOUN [NAME]...", nargs=-1, required=True)
@showing_command
def describe(settings: Settings, words: Sequence[str]) -> None:
    """Tell all about a topic, a topic's partitions, a broker, a group, the quorum or a configuration.

    \b
    lograft describe topic orders
    lograft describe partition orders-0
    lograft describe broker 1
    lograft describe group billing
    lograft describe quorum
    lograft describe config topic/orders
    """
    noun, names = parse_nouns(words, _NOUNS)
    if noun is not Noun.QUORUM and not names:
        raise click.UsageError(f"which? `lograft describe {noun.value} NAME`")
    check_names(noun, names)
    resources = run_async(_look(settings, noun, names))
    if settings.output in ("json", "yaml"):
        content: Any = resources[0]
        if len(resources) > 1:
            content = {"apiVersion": resources[0]["apiVersion"], "kind": "List", "items": resources}
        write_document(sys.stdout, content, settings.output)
        return
    for number, each in enumerate(resources):
        if number:
            click.echo()
        _tell(each, settings)


async def _look(settings: Settings, noun: Noun, names: list[str]) -> list[Resource]:
    async with open_admin(settings) as admin:
        match noun:
            case Noun.TOPIC:
                return [await _topic(admin, name) for name in names]
            case Noun.PARTITION:
                return await _partitions(admin, names)
            case Noun.BROKER:
                return [await _with_config(admin, each) for each in await _brokers(admin, names)]
            case Noun.GROUP:
                return [await described_group(admin, name) for name in names]
            case Noun.QUORUM:
                return [quorum_resource(await admin.describe_quorum())]
            case Noun.CONFIG:
                owners = [parse_owner(name) for name in names]
                return [owner_resource(one, await admin.describe_config(one.kind, one.name)) for one in owners]
        raise AssertionError(f"{noun} is not among {_NOUNS}")


async def _topic(admin: Admin, name: str) -> Resource:
    topic = await admin.describe_topic(name)
    partitions = partition_resources(topic.partitions, await admin.describe_replicas([name]))
    described = topic_resource(topic)
    described["status"]["partitions"] = [
        each["status"] | {"partition": each["metadata"]["partition"]} for each in partitions
    ]
    described["status"]["config"] = _config(await admin.describe_config(ConfigKind.TOPIC, name))
    return described


async def _partitions(admin: Admin, names: list[str]) -> list[Resource]:
    """With what each broker has of them."""
    described = await named_partitions(admin, names, include_internal=True)
    topics = list(dict.fromkeys(partition.topic for partition in described))
    replicas = await admin.describe_replicas(topics, include_internal=True)
    told = partition_resources(described, replicas)
    for partition, each in zip(described, told, strict=True):
        each["status"]["logs"] = [replica_status(known) for known in replicas if known.partition == partition.name]
    return told


async def _brokers(admin: Admin, names: list[str]) -> list[Resource]:
    return brokers(await admin.describe_cluster(include_internal=True), names)


async def _with_config(admin: Admin, broker: Resource) -> Resource:
    entries = await admin.describe_config(ConfigKind.BROKER, broker["metadata"]["name"])
    broker["status"]["config"] = _config(entries)
    return broker


def _config(entries: Sequence[ConfigEntry]) -> list[Resource]:
    return [{"key": entry.key, "value": entry.value, "source": entry.source} for entry in entries]


# -- for people


def _tell(each: Resource, settings: Settings) -> None:
    status = each.get("status", {})
    facts: dict[str, Any] = {"Name": each["metadata"]["name"]}
    for part in (each["metadata"], each.get("spec", {}), status):
        for name, value in part.items():
            if name not in ("name", "config") and not _is_table(value):
                facts[_title(name)] = value
    width = max(map(len, facts)) + 1
    for title, value in facts.items():
        click.echo(f"{title + ':':<{width}}  {cell_text(value)}")
    for name, value in status.items():
        if _is_table(value):
            click.echo(f"\n{_title(name)}:")
            _write_rows(value, settings)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _write_rows(rows: Sequence[Resource], settings: Settings) -> None:
    names = [name for name in rows[0] if any(row[name] not in (None, []) for row in rows)]
    # The number of a partition is what one looks for first.
    names.sort(key=lambda name: name != "partition")
    columns = [Column(_words(name).upper(), lambda row: row, _is_number(rows, name)) for name in names]
    cells = [[cell_text(row[name]) for name in names] for row in rows]
    write_table(sys.stdout, columns, cells, has_titles=settings.has_titles)


def _is_number(rows: Sequence[Resource], name: str) -> bool:
    return all(row[name] is None or isinstance(row[name], int) for row in rows)


def _title(name: str) -> str:
    if name in _ABBREVIATIONS:
        return name.upper()
    words = _words(name)
    return words[0].upper() + words[1:]


def _words(name: str) -> str:
    """`leaderEpoch` is `leader epoch`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
