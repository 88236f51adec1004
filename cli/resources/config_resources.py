"""Configuration keys as resources, and their owners: `topic/orders`, `broker/1`, `cluster`. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import click

from lograft.cli.common.nouns import CLUSTER, parse_id
from lograft.cli.output.resource_output import Column, Resource, resource
from lograft.clients.admin.model.types import ConfigEntry, ConfigKind

_KINDS = {
    "topic": ConfigKind.TOPIC,
    "topics": ConfigKind.TOPIC,
    "t": ConfigKind.TOPIC,
    "broker": ConfigKind.BROKER,
    "brokers": ConfigKind.BROKER,
    "b": ConfigKind.BROKER,
}


class Owner(NamedTuple):
    """The owner of a configuration. The cluster's name is empty."""

    kind: ConfigKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}" if self.name else self.kind.value


def parse_owner(text: str) -> Owner:
    if text.lower() == CLUSTER:
        return Owner(ConfigKind.CLUSTER, "")
    kind, _, name = text.partition("/")
    if kind.lower() not in _KINDS or not name:
        raise click.UsageError(f"{text!r} has no configuration: use topic/NAME, broker/ID or cluster")
    owner = Owner(_KINDS[kind.lower()], name)
    return owner._replace(name=str(parse_id(name))) if owner.kind is ConfigKind.BROKER else owner


def parse_setting(text: str) -> tuple[Owner, list[str]]:
    """Parse an owner, and a key if given as `get configs -o name` prints it: `topic/orders/retention.ms`."""
    parts = 1 if text.lower().startswith(f"{CLUSTER}/") else 2  # names contain no slash
    whose, key = "/".join(text.split("/", parts)[:parts]), "".join(text.split("/", parts)[parts:])
    return parse_owner(whose), [key] if key else []


def entry_resource(owner: Owner, entry: ConfigEntry) -> Resource:
    """Return one key. `spec` has the owner's own value, `status` the effective one."""
    return resource(
        "Config",
        {"name": f"{owner}/{entry.key}", "owner": str(owner), "key": entry.key},
        spec={"value": entry.setting},
        status={
            "value": entry.value,
            "source": entry.source,
            "default": entry.default,
            "type": entry.kind,
            "description": entry.description,
        },
    )


CONFIG_COLUMNS = (
    Column("OF", lambda each: each["metadata"]["owner"]),
    Column("KEY", lambda each: each["metadata"]["key"]),
    Column("VALUE", lambda each: each["status"]["value"]),
    Column("SOURCE", lambda each: each["status"]["source"]),
    Column("DEFAULT", lambda each: each["status"]["default"], is_wide=True),
    Column("DESCRIPTION", lambda each: each["status"]["description"], is_wide=True),
)


def owner_resource(owner: Owner, entries: Sequence[ConfigEntry]) -> Resource:
    """Return all keys of an owner as one resource."""
    settings = [
        {"key": entry.key, "value": entry.value, "source": entry.source, "default": entry.default,
         "description": entry.description}
        for entry in entries
    ]  # fmt: skip
    return resource("Config", {"name": str(owner)}, status={"settings": settings})
