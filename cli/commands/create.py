"""`lograft create topic NAME...`: create topics."""

from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.common.nouns import Noun, parse_nouns
from lograft.cli.resources.change_report import ChangeReport
from lograft.cli.resources.manifest_writer import declared_topic
from lograft.clients.admin.model.types import NewTopic
from lograft.clients.errors import LograftError

_COUNT = click.IntRange(1, 2**31 - 1)


@click.command("create")
@click.argument("words", metavar="topic NAME...", nargs=-1, required=True)
@click.option("--partitions", type=_COUNT, help="Number of partitions.  [default: 1, or the cluster's num.partitions]")
@click.option("--replicas", type=_COUNT, help="Replicas of each partition.  [default: min(3, brokers)]")
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="Topic configuration. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Validate the request without creating anything.")
@changing_command
def create(
    settings: Settings,
    words: Sequence[str],
    partitions: int | None,
    replicas: int | None,
    configs: Sequence[str],
    dry_run: bool,
) -> None:
    """Create topics.

    \b
    Examples:
      # Create a topic with 6 partitions, each on 3 brokers, that keeps records for a day
      lograft create topic orders --partitions 6 --replicas 3 --config retention.ms=86400000
      # Write a resource file for `lograft apply` without creating the topic
      lograft create topic orders --dry-run -o yaml > orders.yaml
    """
    _, names = parse_nouns(words, [Noun.TOPIC])
    if not names:
        raise click.UsageError("topic name required: `lograft create topic NAME`")
    config = parse_config(configs)
    topics = [NewTopic(name, partitions, replicas, config) for name in names]
    run_async(_create(settings, topics, dry_run=dry_run))


async def _create(settings: Settings, topics: Sequence[NewTopic], *, dry_run: bool) -> None:
    report = ChangeReport(settings)
    failures: list[LograftError] = []
    async with open_admin(settings) as admin:
        for topic, result in zip(topics, await admin.create_topics(topics, validate_only=dry_run), strict=True):
            if isinstance(result, LograftError):
                failures.append(result)
            elif dry_run:
                planned = declared_topic(topic.name, result.partitions, result.replicas, topic.config)
                report.tell(Noun.TOPIC, topic.name, "would be created", planned)
            else:
                report.tell(Noun.TOPIC, topic.name, "created")
        await report.finish(admin, failures)


def parse_config(settings: Sequence[str]) -> dict[str, str]:
    config: dict[str, str] = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key:
            raise click.UsageError(f"{setting!r} is not KEY=VALUE, such as retention.ms=86400000")
        config[key.strip()] = value.strip()
    return config
