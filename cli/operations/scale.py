"""`lograft scale topic NAME --partitions N|--replicas N`: change the size of topics."""

from collections.abc import Sequence
from functools import partial

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.common.completion_values import complete_words
from lograft.cli.common.nouns import Noun, parse_nouns
from lograft.cli.operations.reassignment_run import begin, look, plan, wait_for
from lograft.cli.resources.change_report import ChangeReport, raise_first
from lograft.cli.resources.cluster_resources import topic_resource
from lograft.clients.admin.model.types import TopicDescription
from lograft.clients.admin.planning.reassignment_plan import plan_replicas
from lograft.clients.errors import LograftError

_COUNT = click.IntRange(1, 2**31 - 1)


@click.command("scale")
@click.argument("words", metavar="topic NAME...", nargs=-1, required=True, shell_complete=complete_words(Noun.TOPIC))
@click.option("--partitions", type=_COUNT, help="New number of partitions. Can only increase.")
@click.option("--replicas", type=_COUNT, help="New number of replicas of each partition.")
@click.option("--wait", is_flag=True, help="Wait until new replicas are in sync, without limit or for up to --timeout.")
@click.option("--dry-run", is_flag=True, help="Validate the change without making it.")
@changing_command
def scale(
    settings: Settings, words: Sequence[str], partitions: int | None, replicas: int | None, wait: bool, dry_run: bool
) -> None:
    """Change the number of partitions or replicas of topics.

    Added partitions change the partition that new records of a key are written to. Existing records are not moved. If
    replicas are removed, the leader and in-sync replicas are kept.

    \b
    Examples:
      # Increase a topic to 12 partitions
      lograft scale topic orders --partitions 12
      # Change the number of replicas and wait until they are in sync
      lograft scale topic orders --replicas 3 --wait
    """
    _, names = parse_nouns(words, [Noun.TOPIC])
    if not names:
        raise click.UsageError("topic name required: `lograft scale topic NAME`")
    if (partitions is None) == (replicas is None):
        raise click.UsageError("pass either --partitions or --replicas")
    if partitions is not None:
        run_async(_add_partitions(settings, names, partitions, dry_run=dry_run))
    else:
        assert replicas is not None
        run_async(_change_replicas(settings, names, replicas, wait=wait, dry_run=dry_run))


async def _add_partitions(settings: Settings, names: Sequence[str], total: int, *, dry_run: bool) -> None:
    report = ChangeReport(settings)
    failures: list[LograftError] = []
    async with open_admin(settings) as admin:
        topics = {topic.name: topic for topic in (await admin.describe_cluster(names)).topics}
        for name in names:
            is_same = len(topics[name].partitions) == total
            try:
                if not is_same:
                    await admin.create_partitions(name, total, validate_only=dry_run)
            except LograftError as error:
                failures.append(error)
            else:
                _tell(report, topics[name], is_same=is_same, dry_run=dry_run, partitions=total)
        await report.finish(admin, failures)


def _tell(report: ChangeReport, topic: TopicDescription, *, is_same: bool, dry_run: bool, **changed: int) -> None:
    """Report a scaled topic. `changed`: the new values of its spec."""
    planned = topic_resource(topic) if dry_run else None
    if planned is not None:
        planned["spec"] |= changed
    done = "unchanged" if is_same else "would be scaled" if dry_run else "scaled"
    report.tell(Noun.TOPIC, topic.name, done, planned)


async def _change_replicas(
    settings: Settings, names: Sequence[str], replicas: int, *, wait: bool, dry_run: bool
) -> None:
    report = ChangeReport(settings)
    async with open_admin(settings) as admin:
        seen = await look(admin)
        moves = plan(seen, partial(plan_replicas, topics=names, replicas=replicas), names)
        raise_first(await begin(admin, moves, report.note, dry_run=dry_run))
        if wait and not dry_run:
            await wait_for(admin, settings, moves, report.note)
        topics = {topic.name: topic for topic in seen.cluster.topics}
        changed = [move.partition.topic for move in moves]
        for name in names:
            _tell(report, topics[name], is_same=name not in changed, dry_run=dry_run, replicas=replicas)
        await report.finish(admin)
