"""`lograft drain broker ID`: move all replicas off a broker before it is decommissioned."""

from collections.abc import Sequence
from functools import partial

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.common.completion_values import complete_words
from lograft.cli.common.nouns import Noun, check_names, parse_id, parse_nouns
from lograft.cli.operations.reassignment_run import ReassignmentProgress, begin, look, partitions_of, plan
from lograft.cli.output.resource_output import Resource
from lograft.cli.resources.change_report import ChangeReport, raise_first
from lograft.cli.resources.queries import brokers
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import BrokerState, ClusterDescription, ConfigKind
from lograft.clients.admin.planning.reassignment_plan import plan_drain
from lograft.clients.errors import LograftError
from lograft.runtime.clock import LoopClock


@click.command("drain")
@click.argument("words", metavar="broker ID...", nargs=-1, required=True, shell_complete=complete_words(Noun.BROKER))
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Wait until no replicas are left on the brokers, without limit or for up to --timeout.",
)
@click.option("--dry-run", is_flag=True, help="Validate the plan without moving anything.")
@changing_command
def drain(settings: Settings, words: Sequence[str], wait: bool, dry_run: bool) -> None:
    """Move all replicas off brokers, including those of internal topics. The brokers may be running or stopped.

    The command sets the brokers' `placement.enable` to false, so no new replicas are placed there. It fails if too few
    other brokers are active.

    \b
    Examples:
      # Move all replicas off broker 3 and wait until they are moved
      lograft drain broker 3
      # Start the move and watch its progress
      lograft drain broker 3 --no-wait
      lograft reassign status -w
      # Use the broker for new replicas again
      lograft config unset broker/3 placement.enable
    """
    noun, names = parse_nouns(words, [Noun.BROKER])
    if not names:
        raise click.UsageError("broker id required: `lograft drain broker ID`")
    check_names(noun, names)
    drained = list(dict.fromkeys(map(parse_id, names)))
    run_async(_drain(settings, drained, wait=wait, dry_run=dry_run))


async def _drain(settings: Settings, drained: Sequence[int], *, wait: bool, dry_run: bool) -> None:
    report = ChangeReport(settings)
    async with open_admin(settings) as admin:
        progress = ReassignmentProgress(settings, LoopClock())
        plan(await look(admin), partial(plan_drain, drained=drained))  # raises before anything is changed
        for broker_id in () if dry_run else drained:
            await admin.alter_config(ConfigKind.BROKER, str(broker_id), {"placement.enable": "false"})
        while True:
            # Plan again each time: someone may have created a topic there, or cancelled a move.
            seen = await look(admin)
            moves = plan(seen, partial(plan_drain, drained=drained))
            left = _replicas_on(seen.cluster, drained)
            if not left:
                break
            raise_first(await begin(admin, moves, report.note, dry_run=dry_run))
            if dry_run or not wait:
                break
            await progress.pause(admin, seen.cluster, f"{left} replica{'' if left == 1 else 's'} left to move")
        how = "" if left else "has no replicas" if dry_run else "drained"
        for broker_id in drained:
            report.tell(Noun.BROKER, str(broker_id), how, _drained(seen.cluster, broker_id) if dry_run else None)
        await report.finish(admin)
        if not left:
            await _tell_what_is_next(admin, seen.cluster, drained)
        elif not dry_run:
            click.echo("Run `lograft reassign status` to see progress.", err=True)


def _drained(cluster: ClusterDescription, broker_id: int) -> Resource:
    """Return the broker as it would be after the drain."""
    (broker,) = brokers(cluster, [str(broker_id)])
    broker["status"] |= {"cordoned": True, "leaders": 0, "replicas": 0, "inSync": 0}
    return broker


def _replicas_on(cluster: ClusterDescription, brokers: Sequence[int]) -> int:
    return sum(broker in brokers for partition in partitions_of(cluster) for broker in partition.replicas)


async def _tell_what_is_next(admin: Admin, cluster: ClusterDescription, drained: Sequence[int]) -> None:
    try:
        voters = [voter.node_id for voter in (await admin.describe_quorum()).voters]
    except LograftError:
        voters = []
    running = [broker.id for broker in cluster.brokers if broker.state is not BrokerState.FENCED]
    for broker_id in drained:
        if broker_id in voters:
            click.echo(
                f"Node {broker_id} is also a voter of the quorum: add another voter first, or run "
                f"`lograft quorum remove {broker_id}`.",
                err=True,
            )
        stop = f"stop broker {broker_id}, then " if broker_id in running else ""
        click.echo(f"Next: {stop}run `lograft delete broker {broker_id}`.", err=True)
