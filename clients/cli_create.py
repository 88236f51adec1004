"""`lograft create topic NAME...`."""

from collections.abc import Sequence

import click

from lograft.clients.admin_types import NewTopic
from lograft.clients.cli_nouns import Noun, parse_nouns
from lograft.clients.cli_options import Settings, cluster_command, open_admin, run_async
from lograft.clients.errors import LograftError

_COUNT = click.IntRange(1, 2**31 - 1)


@click.command("create")
@click.argument("words", metavar="topic NAME...", nargs=-1, required=True)
@click.option("--partitions", type=_COUNT, help="How many.  [default: 1, or as the cluster is set]")
@click.option("--replicas", type=_COUNT, help="Of each partition.  [default: min(3, brokers)]")
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting of the topic; repeatable.")
@click.option("--dry-run", is_flag=True, help="Check all, create nothing.")
@cluster_command
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
    lograft create topic orders --partitions 6 --replicas 3 --config retention.ms=86400000
    """
    _, names = parse_nouns(words, [Noun.TOPIC])
    if not names:
        raise click.UsageError("the topic has no name: `lograft create topic NAME`")
    config = parse_config(configs)
    topics = [NewTopic(name, partitions, replicas, config) for name in names]
    results = run_async(_create(settings, topics, dry_run=dry_run))
    done = "would be created" if dry_run else "created"
    report([(f"topic/{name}", result) for name, result in zip(names, results, strict=True)], done)


async def _create(settings: Settings, topics: Sequence[NewTopic], *, dry_run: bool) -> Sequence[object]:
    async with open_admin(settings) as admin:
        return await admin.create_topics(topics, validate_only=dry_run)


def parse_config(settings: Sequence[str]) -> dict[str, str]:
    config: dict[str, str] = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key:
            raise click.UsageError(f"{setting!r} is not KEY=VALUE, such as retention.ms=86400000")
        config[key.strip()] = value.strip()
    return config


def report(results: Sequence[tuple[str, object]], done: str) -> None:
    """A line for each that went well; then the first error is raised, and what else failed is told before it."""
    failures: list[LograftError] = []
    for name, result in results:
        if isinstance(result, LograftError):
            failures.append(result)
        else:
            click.echo(f"{name} {done}")
    raise_first(failures)


def raise_first(failures: Sequence[LograftError]) -> None:
    """If there is any; the others are told before it."""
    for failure in failures[1:]:
        click.echo(f"Error: {failure.message}", err=True)
    if failures:
        raise failures[0]
