"""`lograft export topics|groups [NAME...]`: write resources to files that can be applied or imported again."""

import sys
from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, run_async
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.lazy_group import LazyGroup
from lograft.cli.common.nouns import Noun, names_like
from lograft.cli.operations.offset_targets import offsets_resource
from lograft.cli.output.resource_output import API_VERSION, Resource, write_document, write_resources
from lograft.cli.resources.manifest_writer import declared_topic, yaml_documents
from lograft.clients.admin.model.types import TopicDescription


class _Nouns(LazyGroup):
    """A group whose commands are nouns, by any of their names, or in TYPE/NAME form."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, separator, name = args[0].partition("/")
        known = next((each for each in self.list_commands(ctx) if word.lower() in names_like(each)), None)
        if known is None:
            return super().resolve_command(ctx, args)
        others = [_without_type(each, known) for each in args[1:]] if separator else args[1:]
        return super().resolve_command(ctx, [known, *([name] if separator else []), *others])


def _without_type(word: str, noun: str) -> str:
    kind, separator, name = word.partition("/")
    return name if separator and kind.lower() in names_like(noun) else word


@click.group("export", cls=_Nouns)
def export() -> None:
    """Export topics or group offsets as files that can be applied or imported again.

    \b
    Examples:
      # Export all topics
      lograft export topics > topics.yaml
      # Export the committed offsets of a group
      lograft export group billing > billing.yaml
    """


# -- topics


@export.command("topics")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names(Noun.TOPIC))
@click.option("--internal", is_flag=True, help="Include internal topics.")
@command_flags("yaml", "json", "jsonpath=TEMPLATE", default_format="yaml")
def export_topics(settings: Settings, names: Sequence[str], internal: bool) -> None:
    """Export topics as resource files for `lograft apply`, in this cluster or another one.

    The output has the declared state only, without ids and records: one YAML document per topic, or JSON with -o json.
    Internal topics are included only if named, or with --internal.

    \b
    Examples:
      # Export all topics
      lograft export topics > topics.yaml
      # Export two topics as JSON
      lograft export topics orders bills -o json
      # Copy all topics to another cluster
      lograft export topics | lograft --bootstrap other:9092 apply -f -

    \b
    Exit code  0  success
               1  a topic does not exist, or the cluster is unreachable
               2  invalid usage
    """
    resources = run_async(_topic_manifests(settings, names, internal=internal))
    if not resources:
        click.echo("No topics found.", err=True)
    if settings.output == "yaml":
        sys.stdout.write(yaml_documents(resources))
    else:
        write_resources(sys.stdout, resources, (), settings, is_one=len(names) == 1)


async def _topic_manifests(settings: Settings, names: Sequence[str], *, internal: bool) -> list[Resource]:
    async with open_admin(settings) as admin:
        topics = (await admin.describe_cluster(names, include_internal=internal)).topics
    return [export_of(topic) for topic in topics]


def export_of(topic: TopicDescription) -> Resource:
    return declared_topic(topic.name, len(topic.partitions), topic.replication_factor, topic.config)


# -- groups


@export.command("groups")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names(Noun.GROUP))
@command_flags("yaml", "json", default_format="yaml")
def export_groups(settings: Settings, names: Sequence[str]) -> None:
    """Export committed offsets of groups, as YAML or JSON, for `lograft import group`. Defaults to all groups.

    \b
    Examples:
      # Save the offsets of a group and restore them later
      lograft export group billing > billing.yaml
      lograft import group -f billing.yaml
    """
    resources = run_async(_group_offsets(settings, names))
    if settings.output == "json":
        is_one = len(resources) == len(names) == 1
        content = resources[0] if is_one else {"apiVersion": API_VERSION, "kind": "List", "items": resources}
        write_document(sys.stdout, content, "json")
        return
    for number, each in enumerate(resources):
        if number:
            click.echo("---")
        write_document(sys.stdout, each, "yaml")


async def _group_offsets(settings: Settings, names: Sequence[str]) -> list[Resource]:
    async with open_admin(settings) as admin:
        wanted = names or [group.name for group in await admin.list_groups()]
        for name in names:
            await admin.describe_group(name)  # raises if the group does not exist
        return [offsets_resource(name, await admin.group_offsets(name)) for name in wanted]
