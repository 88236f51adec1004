"""`lograft api-resources`: print the resource types and their verbs."""

import sys
from collections.abc import Mapping

import click

from lograft.cli.common.cluster_options import Settings, showing_command
from lograft.cli.common.nouns import Noun, names_of
from lograft.cli.output.resource_output import Column, Resource, resource, write_resources
from lograft.cli.resources.field_docs import KINDS

VERBS: Mapping[Noun, tuple[str, ...]] = {
    Noun.TOPIC: ("apply", "create", "delete", "describe", "diff", "edit", "explain", "export", "get", "scale", "wait"),
    Noun.PARTITION: ("describe", "explain", "get", "wait"),
    Noun.BROKER: ("delete", "describe", "drain", "explain", "get", "wait"),
    Noun.GROUP: ("delete", "describe", "explain", "export", "get", "import", "reset", "wait"),
    Noun.QUORUM: ("describe", "explain", "get", "wait"),
    Noun.CONFIG: ("apply", "describe", "diff", "explain", "get"),
    Noun.REASSIGNMENT: ("explain", "get"),
    Noun.CONTEXT: ("explain", "get"),
    Noun.NODE: ("explain", "get"),
    Noun.CLUSTER: ("describe", "explain"),
}

_COLUMNS = (
    Column("NAME", lambda each: each["metadata"]["name"]),
    Column("SHORT", lambda each: each["spec"]["shortNames"]),
    Column("KIND", lambda each: each["spec"]["kind"]),
    Column("VERBS", lambda each: each["spec"]["verbs"]),
    Column("DESCRIPTION", lambda each: each["spec"]["description"], is_wide=True),
)


@click.command("api-resources")
@showing_command
def api_resources(settings: Settings) -> None:
    """Print the supported resource types, with their short names and verbs.

    This command does not contact a cluster.

    \b
    Examples:
      # Print all resource types
      lograft api-resources
      # Print only their names
      lograft api-resources -o name
    """
    resources = [_noun_resource(noun) for noun in VERBS]
    if settings.output == "name":
        for each in resources:
            click.echo(each["metadata"]["name"])
        return
    write_resources(sys.stdout, resources, _COLUMNS, settings, is_one=False)


def _noun_resource(noun: Noun) -> Resource:
    names = names_of(noun)
    return resource(
        "APIResource",
        {"name": next((name for name in names if name.endswith("s")), names[0])},
        spec={
            "singular": noun.value,
            "shortNames": [name for name in names if len(name) == 1],
            "kind": KINDS[noun].name,
            "verbs": list(VERBS[noun]),
            "description": KINDS[noun].text,
        },
    )
