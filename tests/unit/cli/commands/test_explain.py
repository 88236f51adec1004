"""What `explain` and `api-resources` say is so: every field, every key, every verb, and no other."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import click
import pytest
from click.testing import CliRunner, Result
from support.described_clusters import described

from lograft.cli.commands.api_resources import VERBS
from lograft.cli.commands.explain import explained, explained_keys
from lograft.cli.common.contexts import Contexts
from lograft.cli.common.nouns import Noun
from lograft.cli.declarative.manifest_parser import KINDS as DECLARED_KINDS
from lograft.cli.main import COMMANDS, cli
from lograft.cli.output.resource_output import Resource
from lograft.cli.resources.cluster_resources import broker_resource, partition_resource, quorum_resource, topic_resource
from lograft.cli.resources.config_resources import Owner, entry_resource
from lograft.cli.resources.context_resources import context_resources
from lograft.cli.resources.describe_queries import cluster_resource
from lograft.cli.resources.disk_resources import with_loads
from lograft.cli.resources.field_docs import CONFIG_KEYS, KINDS
from lograft.cli.resources.group_resources import group_resource
from lograft.cli.resources.node_resources import node_resource
from lograft.cli.resources.reassignment_resources import progress_resource
from lograft.clients.admin.model.group_types import GroupDescription, GroupOffset, GroupState, MemberDescription
from lograft.clients.admin.model.types import (
    BrokerLoad,
    ConfigEntry,
    ConfigKind,
    DiskRoom,
    QuorumDescription,
    QuorumMember,
    Reassignment,
)
from lograft.clients.types import TopicPartition

CLUSTER = described({"orders": [[1, 2, 3]]})
NAME = TopicPartition("orders", 0)
ENTRY = ConfigEntry("retention.ms", "5", "cluster", "604800000", "How long.", "integer", "a number", True, "5")
VOTER = QuorumMember(1, UUID(int=1), "c1:1", True, 9)
LEARNER = QuorumMember(2, UUID(int=2), "c2:1", False, 9)
MEMBER = MemberDescription("m", None, "c", None, 1, ("orders",), (NAME,), (NAME,), ())

DISK = DiskRoom(UUID(int=1), "/data", 2, 3, 1, is_full=False)
LOAD = BrokerLoad(CLUSTER.brokers[0].id, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, None, 0, (), (DISK,))

QUORUM = QuorumDescription("c", 1, 4, 9, 9, (VOTER, LEARNER))

RESOURCES: dict[Noun, Resource] = {
    Noun.TOPIC: topic_resource(CLUSTER.topics[0]),
    Noun.PARTITION: partition_resource(CLUSTER.topics[0].partitions[0]),
    Noun.BROKER: with_loads([broker_resource(CLUSTER.brokers[0], CLUSTER)], [LOAD])[0],
    Noun.GROUP: group_resource(
        GroupDescription("g", GroupState.STABLE, 1, 1, "uniform", (MEMBER,), 1), {NAME: GroupOffset(1, 2, "", 0, 0)}
    ),
    Noun.QUORUM: quorum_resource(QUORUM),
    Noun.CONFIG: entry_resource(Owner(ConfigKind.CLUSTER, ""), ENTRY),
    Noun.REASSIGNMENT: progress_resource(Reassignment(NAME, (1, 2), (2,), (2,), (), (1,)), {}, None),
    Noun.CONTEXT: context_resources(Contexts({"dev": "a:1"}, "dev"), [])[0],
    Noun.NODE: node_resource(1, CLUSTER.brokers[0], VOTER, QUORUM),
    Noun.CLUSTER: cluster_resource(CLUSTER, QUORUM, [LOAD], [ENTRY]),
}


def paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Of all fields, those of what lists hold included. A map is one field."""
    for name, inner in value.items():
        path = f"{prefix}{name}"
        yield path
        if path == "spec.config":
            continue
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            inner = inner[0]
        if isinstance(inner, dict):
            yield from paths(inner, f"{path}.")


@pytest.mark.parametrize("noun", Noun)
def test_every_field_is_explained_and_no_other(noun: Noun) -> None:
    resource = {part: RESOURCES[noun][part] for part in ("metadata", "spec", "status") if part in RESOURCES[noun]}
    assert set(KINDS[noun].fields) == set(paths(resource))
    assert KINDS[noun].name == RESOURCES[noun]["kind"]
    assert all(path in KINDS[noun].fields for kind, path in CONFIG_KEYS.items() if kind is noun)


def told(noun: Noun, path: str, *, recursive: bool = False) -> list[str]:
    return list(explained(KINDS[noun], path, recursive=recursive))


def test_a_field_is_told_with_its_type_and_its_own_fields() -> None:
    assert told(Noun.BROKER, "status.epoch") == [
        "KIND:     Broker",
        "VERSION:  lograft/v1",
        "",
        "FIELD: status.epoch <integer>",
        "",
        "DESCRIPTION:",
        "    Incremented with each start of the broker.",
    ]
    assert "  partitions <integer>" in told(Noun.TOPIC, "spec")
    assert "  memberId <string>" in told(Noun.GROUP, "status.members")
    assert not [line for line in told(Noun.GROUP, "") if "memberId" in line]
    assert "      memberId <string>" in told(Noun.GROUP, "", recursive=True)


def test_what_there_is_none_of_is_refused_with_what_is_near() -> None:
    with pytest.raises(click.UsageError, match=r"did you mean spec.partitions\?"):
        told(Noun.TOPIC, "spec.partition")
    with pytest.raises(click.UsageError, match="run `lograft explain topic` to list its fields"):
        told(Noun.TOPIC, "xyz")
    with pytest.raises(click.UsageError, match=r"did you mean retention.ms\?"):
        list(explained_keys(KINDS[Noun.TOPIC], "spec.config", "retention.m", {"KEYS": [ENTRY]}))


def test_keys_are_told_as_the_cluster_has_them() -> None:
    meaning = ["    How long.", "    Default: 604800000, but the cluster sets 5. Accepts a number."]
    every = list(explained_keys(KINDS[Noun.TOPIC], "spec.config", "", {"KEYS": [ENTRY]}))
    assert every[-4:] == ["KEYS:", "  retention.ms <integer>", *meaning]
    one = list(explained_keys(KINDS[Noun.TOPIC], "spec.config", "retention.ms", {"KEYS": [ENTRY]}))
    assert one[-5:] == ["FIELD: spec.config.retention.ms <integer>", "", "DESCRIPTION:", *meaning]


# -- verbs

# Whose first word is a noun. All others are about something else, or about files.
NOUN_VERBS = (
    "create",
    "delete",
    "describe",
    "drain",
    "edit",
    "explain",
    "export",
    "get",
    "scale",
    "wait",
    "reset",
    "import",
)

NEEDED = {"wait": ("--for", "InSync"), "reset": ("--to", "latest"), "import": ("-f", "-")}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--bootstrap", "127.0.0.1:1", "--timeout", "1ms", *arguments])


@pytest.mark.parametrize("verb", [verb for verb in NOUN_VERBS if verb in COMMANDS])
def test_a_noun_has_the_verbs_that_take_it_and_no_other(verb: str) -> None:
    taken = []
    for noun in Noun:
        message = run(verb, noun.value, *NEEDED.get(verb, ())).stderr
        if "unknown resource type" not in message and "No such command" not in message:
            taken.append(noun)
    assert taken == [noun for noun in Noun if verb in VERBS[noun]]


def test_what_can_be_declared_can_be_applied_and_compared() -> None:
    for noun in Noun:
        assert ("apply" in VERBS[noun]) == ("diff" in VERBS[noun]) == (KINDS[noun].name in DECLARED_KINDS)
    assert {verb for verbs in VERBS.values() for verb in verbs} <= set(COMMANDS)


def test_resources_are_listed_without_a_cluster() -> None:
    lines = run("api-resources").stdout.splitlines()
    assert lines[0].split() == ["NAME", "SHORT", "KIND", "VERBS"]
    assert lines[1].split()[:3] == ["topics", "t", "Topic"]
    assert run("api-resources", "-o", "name").stdout.split() == [line.split()[0] for line in lines[1:]]
    assert '"kind": "List"' in run("api-resources", "-o", "json").stdout
