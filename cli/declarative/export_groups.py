"""`lograft export groups [NAME...]`: how far groups have come, in a file that can be imported."""

import sys
from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, run_async
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.nouns import Noun
from lograft.cli.operations.offset_targets import offsets_resource
from lograft.cli.output.resource_output import API_VERSION, Resource, write_document


@click.command("groups")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names(Noun.GROUP))
@command_flags("yaml", "json", default_format="yaml")
def export_groups(settings: Settings, names: Sequence[str]) -> None:
    """Write the committed offsets of groups, or of all, as `lograft import group` takes them: YAML, or -o json.

    \b
    lograft export group billing > billing.yaml
    lograft import group -f billing.yaml
    """
    resources = run_async(_look(settings, names))
    if settings.output == "json":
        is_one = len(resources) == len(names) == 1
        content = resources[0] if is_one else {"apiVersion": API_VERSION, "kind": "List", "items": resources}
        write_document(sys.stdout, content, "json")
        return
    for number, each in enumerate(resources):
        if number:
            click.echo("---")
        write_document(sys.stdout, each, "yaml")


async def _look(settings: Settings, names: Sequence[str]) -> list[Resource]:
    async with open_admin(settings) as admin:
        wanted = names or [group.name for group in await admin.list_groups()]
        for name in names:
            await admin.describe_group(name)  # which says so, if there is none
        return [offsets_resource(name, await admin.group_offsets(name)) for name in wanted]
