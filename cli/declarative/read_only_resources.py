"""Read-only resources in files: brokers, groups and others, as `get -o yaml` prints them.

Applying them changes nothing: they must exist, and must be as declared."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lograft.cli.common.nouns import Noun
from lograft.cli.declarative.apply_plan import Refusal, Sighting
from lograft.cli.declarative.desired_state import Mention
from lograft.cli.output.resource_output import Resource
from lograft.cli.resources.cluster_resources import partition_resource, quorum_resource
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ClusterDescription
from lograft.clients.errors import GroupNotFound

_REMEDIES: Mapping[Noun, str] = {
    Noun.PARTITION: "remove it from the file; use `lograft scale topic` or `lograft reassign`",
    Noun.BROKER: "remove it from the file; a broker is configured on its node (`lograft server --help`)",
    Noun.GROUP: "remove it from the file; set group offsets with `lograft import group`",
    Noun.QUORUM: "remove it from the file; change the quorum with `lograft quorum add|remove|replace`",
    Noun.REASSIGNMENT: "start a reassignment from a file with `lograft reassign run -f FILE`",
    Noun.CONTEXT: "remove it from the file; change it with `lograft context set NAME --bootstrap HOST:PORT`",
}


async def sightings(
    admin: Admin, cluster: ClusterDescription, mentions: Sequence[Mention]
) -> tuple[list[Sighting], list[Refusal]]:
    """Return the current state of each resource, or a refusal. `cluster` includes internal topics."""
    seen: dict[str, Resource] = {}
    for noun in dict.fromkeys(each.noun for each in mentions):
        names = [each.name for each in mentions if each.noun is noun]
        found = await _look(admin, cluster, noun, names)
        seen |= {f"{noun.value}/{each['metadata']['name']}": each for each in found}
    found_all, refusals = [], []
    for each in mentions:
        trouble = _trouble(each, seen.get(each.label))
        if trouble:
            refusals.append(Refusal(f"{each.place}: {trouble}", _REMEDIES[each.noun]))
        else:
            found_all.append(Sighting(each, seen[each.label]))
    return found_all, refusals


def _trouble(mention: Mention, live: Resource | None) -> str:
    """Return why the resource cannot be applied, or an empty string if it exists as declared."""
    if live is None:
        return f"{mention.noun.value} {mention.name!r} does not exist, and a file cannot create it"
    spec = live.get("spec", {})
    for key, value in mention.spec.items():
        if key not in spec or spec[key] != value:
            said = f"is {_shown(spec[key])}" if key in spec else "does not exist"
            return f"spec.{key} of {mention.label} {said}, and a file cannot set it to {_shown(value)}"
    return ""


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


async def _look(admin: Admin, cluster: ClusterDescription, noun: Noun, names: Sequence[str]) -> list[Resource]:
    """Return the existing resources of these names, and possibly others."""
    from lograft.cli.resources.queries import brokers

    match noun:
        case Noun.PARTITION:
            return [partition_resource(each) for topic in cluster.topics for each in topic.partitions]
        case Noun.BROKER:
            return brokers(cluster, [])
        case Noun.GROUP:
            return await _groups(admin, names)
        case Noun.QUORUM:
            return [quorum_resource(await admin.describe_quorum())]
        case Noun.REASSIGNMENT:
            from lograft.cli.operations.reassignment_run import reassignments

            return await reassignments(admin, [])
    assert noun is Noun.CONTEXT, noun
    from lograft.cli.common.context_file import load_contexts
    from lograft.cli.resources.context_resources import context_resources

    return context_resources(load_contexts(), [])


async def _groups(admin: Admin, names: Sequence[str]) -> list[Resource]:
    from lograft.cli.resources.queries import described_group

    found = []
    for name in names:
        try:
            found.append(await described_group(admin, name))
        except GroupNotFound:
            continue
    return found
