"""`lograft reassign plan|run|status|cancel`: move partitions between brokers."""

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
_WRITTEN = "pass the output of `lograft reassign plan -o json` (or yaml)"


@click.group()
def reassign() -> None:
    """Move partitions between brokers. New replicas are added, and old ones removed once the new ones are in sync.

    \b
    Examples:
      # Plan an even spread over all brokers
      lograft reassign plan -o yaml > plan.yaml
      # Start the planned moves
      lograft reassign run -f plan.yaml
      # Show progress
      lograft reassign status
      # Cancel all moves
      lograft reassign cancel --all
    """


def _wish(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the parameters of a plan to a command."""
    replicas = click.option("--replicas", type=_COUNT, help="Replicas of each partition.  [default: unchanged]")
    brokers = click.option(
        "--brokers",
        metavar="ID,ID,...",
        help="Comma-separated ids of the brokers that host the partitions.  [default: all active brokers]",
    )
    return click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=complete_names(Noun.TOPIC))(
        brokers(replicas(command))
    )


def _read_ids(text: str | None) -> list[int] | None:
    """Parse comma-separated broker ids."""
    return [parse_id(word.strip()) for word in text.split(",")] if text is not None else None


async def _plan(admin: Admin, topics: Sequence[str], brokers: list[int] | None, replicas: int | None) -> list[Move]:
    make = partial(plan_balance, topics=topics or None, brokers=brokers, replicas=replicas)
    return plan(await look(admin), make, topics)


# -- plan


@reassign.command("plan")
@_wish
@showing_command
def plan_command(settings: Settings, topics: Sequence[str], brokers: str | None, replicas: int | None) -> None:
    """Print a plan without moving anything.

    The plan spreads replicas and leaders evenly over brokers and racks, with as few moves as possible. By default, it
    spreads all topics over all active brokers, which is useful after a broker was added. A broker that is not active,
    or whose disks are all full, receives no replicas, and keeps its own unless --brokers excludes it.

    \b
    Examples:
      # Spread all topics over all brokers
      lograft reassign plan
      # Move a topic to three brokers
      lograft reassign plan orders --brokers 1,2,3
      # Change the number of replicas
      lograft reassign plan orders --replicas 3
      # Save the plan for `lograft reassign run -f plan.yaml`
      lograft reassign plan -o yaml > plan.yaml
    """

    async def draw(chosen: list[int] | None) -> list[Move]:
        async with open_admin(settings) as admin:
            return await _plan(admin, topics, chosen, replicas)

    moves = run_async(draw(_read_ids(brokers)))
    if settings.is_table:
        click.echo(summary_of(moves) if moves else "No partitions need to move.", err=True)
        if not moves:
            return
    write_resources(sys.stdout, list(map(move_resource, moves)), MOVE_COLUMNS, settings, is_one=False)


# -- run


@reassign.command("run")
@_wish
@click.option("-f", "--filename", type=click.File(), metavar="FILE", help="A plan, as written by `plan -o json|yaml`.")
@click.option("--wait", is_flag=True, help="Wait until all moves are complete, without limit or for up to --timeout.")
@click.option("--dry-run", is_flag=True, help="Validate the plan without starting it.")
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
    """Start moving partitions according to a plan.

    Without a file, the plan is that of `lograft reassign plan`. A plan is rejected as a whole if a partition has moved
    since it was made.

    \b
    Examples:
      # Run a saved plan and wait until it is complete
      lograft reassign run -f plan.yaml --wait
      # Run a plan from standard input
      lograft reassign plan orders -o json | lograft reassign run -f -
      # Plan and run at once
      lograft reassign run orders
    """
    if filename is not None and (topics or brokers is not None or replicas is not None):
        raise click.UsageError("-f cannot be combined with topics, --brokers or --replicas")
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
            click.echo("No partitions need to move.", err=True)
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
    """Read the moves of a plan, without those already made. Raise `CommandError` if it is out of date."""
    try:
        planned = read_plan(text)
    except BadPlan as error:
        raise CommandError(f"invalid plan: {error}", _WRITTEN) from None
    under_way = await admin.list_reassignments()
    topics = list(dict.fromkeys(name.topic for name in planned))
    standing = standing_replicas(await admin.describe_cluster(topics, include_internal=True), under_way)
    moves, unchanged = [], []
    for name, (before, after) in planned.items():
        if name not in standing:
            raise CommandError(
                f"partition {name.topic}-{name.partition} does not exist",
                f"list partitions with `lograft get partitions {name.topic}`",
            )
        if standing[name] == after:
            unchanged.append(name)
        elif before is not None and standing[name] != before:
            raise CommandError(
                f"the plan is out of date: {name.topic}-{name.partition} is now on {listed(standing[name])}, not on "
                f"{listed(before)}",
                "create a new plan with `lograft reassign plan`",
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
    """Show reassignments in progress.

    IN-SYNC is the number of added replicas that have caught up. BEHIND is the number of records that they lack in
    total. COPIED is their share of the leader's bytes. -w exits when all reassignments are complete.
    """
    run_until_interrupted(_status(settings, list(names)))


async def _status(settings: Settings, names: list[str]) -> None:
    none = "No reassignments in progress."
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
@click.option("--all", "is_all", is_flag=True, help="Cancel all reassignments in progress.")
@click.option("--dry-run", is_flag=True, help="Validate the request without cancelling anything.")
@changing_command
def cancel_command(settings: Settings, names: Sequence[str], is_all: bool, dry_run: bool) -> None:
    """Cancel reassignments in progress. The partitions return to their previous replicas.

    \b
    Examples:
      # Cancel the move of one partition
      lograft reassign cancel orders-0
      # Cancel all moves
      lograft reassign cancel --all
    """
    if bool(names) == is_all:
        raise click.UsageError("name topics or partitions (orders, orders-0), or pass --all")
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
                click.echo("No reassignments in progress.", err=True)
                await report.finish(admin)
                return
            raise CommandError(
                f"no reassignment of {', '.join(names)} is in progress",
                "list reassignments with `lograft reassign status`",
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
