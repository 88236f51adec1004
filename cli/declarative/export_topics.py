"""`lograft export topics [NAME...]`."""

import sys
from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, run_async
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.nouns import Noun
from lograft.cli.output.resource_output import Resource, write_resources
from lograft.cli.resources.manifest_writer import declared_topic, yaml_documents
from lograft.clients.admin.model.types import TopicDescription


@click.command("topics")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names(Noun.TOPIC))
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@command_flags("yaml", "json", "jsonpath=TEMPLATE", default_format="yaml")
def export_topics(settings: Settings, names: Sequence[str], internal: bool) -> None:
    """Write topics, all or these, as resource files that `lograft apply` takes: here, or in another cluster.

    What they are declared to be, and nothing of what they are at the moment: no ids, no records. In YAML, a document
    each; or with `-o json`. Internal topics are left out unless they are named, or --internal is said.

    \b
    lograft export topics > topics.yaml
    lograft export topics orders bills -o json
    lograft export topics | lograft --bootstrap other:9092 apply -f -

    Exit codes: 0 done, 1 failed (one that is named is not there), 2 usage.
    """
    resources = run_async(_export(settings, names, internal=internal))
    if not resources:
        click.echo("There are no topics.", err=True)
    if settings.output == "yaml":
        sys.stdout.write(yaml_documents(resources))
    else:
        write_resources(sys.stdout, resources, (), settings, is_one=len(names) == 1)


async def _export(settings: Settings, names: Sequence[str], *, internal: bool) -> list[Resource]:
    async with open_admin(settings) as admin:
        topics = (await admin.describe_cluster(names, include_internal=internal)).topics
    return [export_of(topic) for topic in topics]


def export_of(topic: TopicDescription) -> Resource:
    return declared_topic(topic.name, len(topic.partitions), topic.replication_factor, topic.config)
