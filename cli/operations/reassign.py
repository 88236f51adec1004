"""`lograft reassign plan|run|status|cancel`: partitions move to other brokers."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TextIO

import click

from lograft.cli.common.cluster_options import (
    Settings,
    changing_command,
    open_admin,
    run_async,
    showing_command,
    watching_command,
)
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.input_files import read_text
from lograft.cli.common.nouns import Noun, parse_id
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.operations.reassignment_run import ask, how_begun, listed, look, plan, reassignments, shown, wait_for
from lograft.cli.output.resource_output import Resource, write_resources
from lograft.cli.output.watch import run_until_interrupted, watch
from lograft.cli.resources.change_report import ChangeReport
from lograft.cli.resources.reassignment_resources import (
    MOVE_COLUMNS,
    PROGRESS_COLUMNS,
    BadPlan,
    move_resource,
    read_plan,
    summary_of,
)
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.planning.reassignment_plan import Move, plan_balance, standing_replicas
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock

_COUNT = click.IntRange(1, 2**15 - 1)
_WRITTEN = "give what `lograft reassign plan -o json` (or yaml) writes"


@click.group()
def reassign() -> None:
    """Move partitions to other brokers: replicas are added, and when they are in sync others are removed.

    \b
    lograft reassign plan -o yaml > plan.yaml    where partitions should go
    lograft reassign run -f plan.yaml            have them go there
    lograft reassign status                      how far they are
    lograft reassign cancel --all                have them go back
    """


def _wish(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is to be planned."""
    replicas = click.option("--replicas", type=_COUNT, help="Of each partition.  [default: as many as it has]")
    brokers = click.option(
        "--brokers", metavar="ID,ID,...", help="Those that are to have all of it.  [default: all that are live]"
    )
    return click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=complete_names(Noun.TOPIC))(
        brokers(replicas(command))
    )


def _read_ids(text: str | None) -> list[int] | None:
    """Of brokers, with commas between."""
    return [parse_id(word.strip()) for word in text.split(",")] if text is not None else None


async def _plan(admin: Admin, topics: Sequence[str], brokers: list[int] | None, replicas: int | None) -> list[Move]:
    make = partial(plan_balance, topics=topics or None, brokers=brokers, replicas=replicas)
    return plan(await look(admin), make, topics)


# -- plan


@reassign.command("plan")
@_wish
@showing_command
def plan_command(settings: Settings, topics: Sequence[str], brokers: str | None, replicas: int | None) -> None:
    """Show where partitions should go, and move nothing.

    Brokers are to have, and lead, equally many; racks are heeded.

    As few replicas move as can be. By default all topics are spread over all live brokers: what to do after one was
    added. A broker that is away, or whose disks are all full, is given nothing, and keeps what it has unless --brokers
    leaves it out.

    \b
    lograft reassign plan                               after a broker was added
    lograft reassign plan orders --brokers 1,2,3        off all others
    lograft reassign plan orders --replicas 3           more or fewer replicas
    lograft reassign plan -o yaml > plan.yaml           for `lograft reassign run -f plan.yaml`
    """

    async def draw(chosen: list[int] | None) -> list[Move]:
        async with open_admin(settings) as admin:
            return await _plan(admin, topics, chosen, replicas)

    moves = run_async(draw(_read_ids(brokers)))
    if settings.is_table:
        click.echo(summary_of(moves) if moves else "There is nothing to move.", err=True)
        if not moves:
            return
    write_resources(sys.stdout, list(map(move_resource, moves)), MOVE_COLUMNS, settings, is_one=False)


# -- run


@reassign.command("run")
@_wish
@click.option("-f", "--filename", type=click.File(), metavar="FILE", help="A plan, as `plan -o json|yaml` writes it.")
@click.option("--wait", is_flag=True, help="Return when all of it is through; for ever, or up to --timeout.")
@click.option("--dry-run", is_flag=True, help="Check all, begin nothing.")
@changing_command
def run_command(
    settings: Settings,
    topics: Sequence[str],
    brokers: str | None,
    replicas: int | None,
    filename: TextIO | None,
    wait: bool,
    dry_run: bool,
) -> None:
    """Begin to move partitions.

    As a file says, or, without one, as `lograft reassign plan` would.

    A plan that does not fit any more, because a partition is elsewhere by now, is refused as a whole.

    \b
    lograft reassign run -f plan.yaml --wait
    lograft reassign plan orders -o json | lograft reassign run -f -
    lograft reassign run orders                         plan it, and do it
    """
    if filename is not None and (topics or brokers is not None or replicas is not None):
        raise click.UsageError("a file says all there is to say: leave topics, --brokers and --replicas out")
    text = read_text(filename, _WRITTEN) if filename is not None else None
    run_async(_run(settings, text, topics, _read_ids(brokers), replicas, wait=wait, dry_run=dry_run))


async def _run(
    settings: Settings,
    text: str | None,
    topics: Sequence[str],
    brokers: list[int] | None,
    replicas: int | None,
    *,
    wait: bool,
    dry_run: bool,
) -> None:
    report = ChangeReport(settings, is_list=True)
    async with open_admin(settings) as admin:
        if text is not None:
            moves = await _planned(admin, text, report)
        else:
            moves = await _plan(admin, topics, brokers, replicas)
        if not moves:
            click.echo("There is nothing to move.", err=True)
        failures: list[LograftError] = []
        async for move, error in ask(admin, moves, dry_run=dry_run):
            if error is not None:
                failures.append(error)
            else:
                planned = move_resource(move) if dry_run else None
                report.tell(Noun.PARTITION, _name(move.partition), how_begun(move, dry_run=dry_run), planned)
        if wait and not dry_run and not failures:
            await wait_for(admin, settings, moves, report.note)
        await report.finish(admin, failures)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


async def _planned(admin: Admin, text: str, report: ChangeReport) -> list[Move]:
    """What a file says, without what is there already. `CommandError` if it does not fit."""
    try:
        planned = read_plan(text)
    except BadPlan as error:
        raise CommandError(f"that is no plan: {error}", _WRITTEN) from None
    under_way = await admin.list_reassignments()
    topics = list(dict.fromkeys(name.topic for name in planned))
    standing = standing_replicas(await admin.describe_cluster(topics, include_internal=True), under_way)
    moves, unchanged = [], []
    for name, (before, after) in planned.items():
        if name not in standing:
            raise CommandError(
                f"there is no partition {name.topic}-{name.partition}",
                f"`lograft get partitions {name.topic}` shows them",
            )
        if standing[name] == after:
            unchanged.append(name)
        elif before is not None and standing[name] != before:
            raise CommandError(
                f"the plan is out of date: {name.topic}-{name.partition} is on {listed(standing[name])} by now, not on "
                f"{listed(before)}",
                "make another one with `lograft reassign plan`",
            )
        else:
            moves.append(Move(name, standing[name], after))
    for name in unchanged:
        report.note(f"{shown(name)} unchanged")
    return moves


# -- status


@reassign.command("status")
@click.argument("names", metavar="[TOPIC[-N]]...", nargs=-1, shell_complete=complete_names(Noun.REASSIGNMENT))
@watching_command
def status_command(settings: Settings, names: Sequence[str]) -> None:
    """Show the reassignments under way, and how far they are.

    IN-SYNC: how many of the replicas that are added have caught up. BEHIND: how many records they lack together.
    COPIED: how much of the leader's bytes they have. -w ends when all is through.
    """
    run_until_interrupted(_status(settings, list(names)))


async def _status(settings: Settings, names: list[str]) -> None:
    none = "Nothing is being reassigned."
    async with open_admin(settings) as admin:

        async def look() -> list[Resource]:
            return await reassignments(admin, names)

        if settings.is_watching:
            await watch(look, PROGRESS_COLUMNS, settings, LoopClock(), none=none, until_none=True)
            return
        found = await look()
    if not found and settings.is_table:
        click.echo(none, err=True)
    else:
        write_resources(sys.stdout, found, PROGRESS_COLUMNS, settings, is_one=False)


# -- cancel


@reassign.command("cancel")
@click.argument("names", metavar="[TOPIC[-N]]...", nargs=-1, shell_complete=complete_names(Noun.REASSIGNMENT))
@click.option("--all", "is_all", is_flag=True, help="All that are under way.")
@click.option("--dry-run", is_flag=True, help="Check all, cancel nothing.")
@changing_command
def cancel_command(settings: Settings, names: Sequence[str], is_all: bool, dry_run: bool) -> None:
    """Have partitions that are being moved go back.

    \b
    lograft reassign cancel orders-0
    lograft reassign cancel --all
    """
    if bool(names) == is_all:
        raise click.UsageError("which? Name topics or partitions (orders, orders-0), or say --all")
    run_async(_cancel(settings, list(names), dry_run=dry_run))


async def _cancel(settings: Settings, names: list[str], *, dry_run: bool) -> None:
    report = ChangeReport(settings, is_list=True)
    async with open_admin(settings) as admin:
        under_way = [each.partition for each in await admin.list_reassignments()]
        chosen = (
            [one.name for one in await named_partitions(admin, names, include_internal=True)] if names else under_way
        )
        cancelled = [name for name in under_way if name in chosen]
        if not cancelled:
            if not names:
                click.echo("Nothing is being reassigned.", err=True)
                await report.finish(admin)
                return
            raise CommandError(
                f"nothing of {', '.join(names)} is being reassigned", "`lograft reassign status` shows what is"
            )
        outcome = await admin.reassign(dict.fromkeys(cancelled), validate_only=dry_run)
        failures: list[LograftError] = []
        for name, error in outcome.items():
            if error is not None:
                failures.append(error)
                continue
            how = f"reassignment {'would be cancelled' if dry_run else 'cancelled'}"
            report.tell(Noun.PARTITION, _name(TopicPartition(*name)), how)
        await report.finish(admin, failures)
