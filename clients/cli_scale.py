"""`lograft scale topic NAME --partitions N` or `--replicas N`."""

from collections.abc import Sequence
from functools import partial

import click

from lograft.clients.aio_admin import Admin
from lograft.clients.cli_create import report
from lograft.clients.cli_moves import begin, look, plan, wait_for
from lograft.clients.cli_nouns import Noun, parse_nouns
from lograft.clients.cli_options import Settings, cluster_command, open_admin, run_async
from lograft.clients.errors import LograftError
from lograft.clients.reassignment_plan import plan_replicas

_COUNT = click.IntRange(1, 2**31 - 1)


@click.command("scale")
@click.argument("words", metavar="topic NAME...", nargs=-1, required=True)
@click.option("--partitions", type=_COUNT, help="How many the topic is to have; more than it has.")
@click.option("--replicas", type=_COUNT, help="How many each of its partitions is to have, more or fewer.")
@click.option("--wait", is_flag=True, help="Return when new replicas are in sync; for ever, or up to --timeout.")
@click.option("--dry-run", is_flag=True, help="Check all, change nothing.")
@cluster_command
def scale(
    settings: Settings, words: Sequence[str], partitions: int | None, replicas: int | None, wait: bool, dry_run: bool
) -> None:
    """Give topics more partitions, or another number of replicas.

    With more partitions keys go to other ones than before: the records of a key that are there stay where they are.
    Fewer replicas keep the leader and those in sync.

    \b
    lograft scale topic orders --partitions 12
    lograft scale topic orders --replicas 3 --wait
    """
    _, names = parse_nouns(words, [Noun.TOPIC])
    if not names:
        raise click.UsageError("which? `lograft scale topic NAME`")
    if (partitions is None) == (replicas is None):
        raise click.UsageError("say --partitions or --replicas: one of the two")
    if partitions is not None:
        run_async(_add_partitions(settings, names, partitions, dry_run=dry_run))
    else:
        assert replicas is not None
        run_async(_change_replicas(settings, names, replicas, wait=wait, dry_run=dry_run))


async def _add_partitions(settings: Settings, names: Sequence[str], total: int, *, dry_run: bool) -> None:
    async with open_admin(settings) as admin:
        topics = {topic.name: topic for topic in (await admin.describe_cluster(names)).topics}
        results: list[tuple[str, object]] = []
        for name in names:
            if len(topics[name].partitions) == total:
                click.echo(f"topic/{name} unchanged")
            else:
                results.append((f"topic/{name}", await _add(admin, name, total, dry_run=dry_run)))
    report(results, "would be scaled" if dry_run else "scaled")


async def _add(admin: Admin, name: str, total: int, *, dry_run: bool) -> int | LograftError:
    try:
        return await admin.create_partitions(name, total, validate_only=dry_run)
    except LograftError as error:
        return error


async def _change_replicas(
    settings: Settings, names: Sequence[str], replicas: int, *, wait: bool, dry_run: bool
) -> None:
    async with open_admin(settings) as admin:
        moves = plan(await look(admin), partial(plan_replicas, topics=names, replicas=replicas), names)
        await begin(admin, moves, dry_run=dry_run)
        if wait and not dry_run:
            await wait_for(admin, settings, moves)
    changed = [move.partition.topic for move in moves]
    done = "would be scaled" if dry_run else "scaled"
    for name in names:
        click.echo(f"topic/{name} {done if name in changed else 'unchanged'}")
