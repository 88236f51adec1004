"""`lograft elect leaders --preferred|--unclean [TOPIC[-N]...]`."""

from collections.abc import Sequence

import click

from lograft.clients.admin_types import Election, ElectionKind, PartitionDescription
from lograft.clients.aio_admin import Admin
from lograft.clients.cli_create import raise_first
from lograft.clients.cli_delete import confirm
from lograft.clients.cli_moves import partitions_of, shown
from lograft.clients.cli_options import Settings, cluster_command, open_admin, run_async
from lograft.clients.errors import ElectionNotNeeded
from lograft.clients.named_partitions import named_partitions
from lograft.clients.topic_partition import TopicPartition
from lograft.runtime.clock import Clock, LoopClock

_LOOK_EVERY_MS = 500


@click.group()
def elect() -> None:
    """Have other replicas lead."""


@elect.command("leaders")
@click.argument("names", metavar="[TOPIC[-N]]...", nargs=-1)
@click.option("--preferred", is_flag=True, help="The first replica of each partition, if it is in sync.")
@click.option("--unclean", is_flag=True, help="Of partitions that nobody can lead: who has most. Records may be lost.")
@click.option("--all", "is_all", is_flag=True, help="Of all that need it; --preferred does so if none are named.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say which would be elected, and elect none.")
@cluster_command
def leaders_command(
    settings: Settings, names: Sequence[str], preferred: bool, unclean: bool, is_all: bool, yes: bool, dry_run: bool
) -> None:
    """Elect leaders of topics, or of single partitions.

    --preferred is what happens by itself a while after a broker is back, unless `leader.rebalance.enable` is false.
    --unclean gives up what only replicas have that are away: acknowledged records may be lost for good.

    \b
    lograft elect leaders --preferred
    lograft elect leaders --unclean orders-0 --yes
    """
    if preferred == unclean:
        raise click.UsageError("say --preferred or --unclean: one of the two")
    if names and is_all:
        raise click.UsageError("--all is all of them: leave the names out")
    if unclean and not names and not is_all:
        raise click.UsageError("records may be lost: name the topics or partitions (orders, orders-0), or say --all")
    if unclean and not dry_run:
        which = "all partitions without a leader" if is_all else ", ".join(names)
        confirm(f"Acknowledged records of {which} may be lost for good. Elect uncleanly?", is_given=yes)
    kind = ElectionKind.UNCLEAN if unclean else ElectionKind.PREFERRED
    run_async(_elect(settings, kind, list(names), dry_run=dry_run))


async def _elect(settings: Settings, kind: ElectionKind, names: list[str], *, dry_run: bool) -> None:
    async with open_admin(settings) as admin:
        named = await named_partitions(admin, names, include_internal=True) if names else None
        if dry_run:
            await _foretell(admin, kind, named)
            return
        partitions = [one.name for one in named] if named is not None else None
        if kind is ElectionKind.UNCLEAN:
            elections = await elect_patiently(admin, partitions, settings.timeout_ms, LoopClock())
        else:
            elections = await admin.elect_leaders(kind, partitions)
    if not elections:
        click.echo("No partition needs it.", err=True)
    _tell(elections)


async def elect_patiently(
    admin: Admin, partitions: Sequence[TopicPartition] | None, timeout_ms: int, clock: Clock
) -> list[Election]:
    """Uncleanly; and again, within this time, those of which brokers have not said yet how much they have."""
    give_up_ms = clock.monotonic_ms() + timeout_ms
    found: dict[TopicPartition, Election] = {}
    waiting = partitions
    while True:
        elections = await admin.elect_leaders(ElectionKind.UNCLEAN, waiting)
        found.update((election.partition, election) for election in elections)
        refused = [election for election in elections if election.error is not None and election.error.retriable]
        if not refused or clock.monotonic_ms() + _LOOK_EVERY_MS >= give_up_ms:
            return list(found.values())
        if waiting is partitions:
            assert refused[0].error is not None
            click.echo(f"Waiting: {refused[0].error.message}", err=True)
        waiting = [election.partition for election in refused]
        await clock.sleep_ms(_LOOK_EVERY_MS)


def _tell(elections: Sequence[Election]) -> None:
    failures = []
    for election in elections:
        if isinstance(election.error, ElectionNotNeeded):
            click.echo(f"{shown(election.partition)} unchanged: led by {election.leader}")
        elif election.error is not None:
            failures.append(election.error)
        else:
            click.echo(f"{shown(election.partition)} led by {election.leader}")
    raise_first(failures)


async def _foretell(admin: Admin, kind: ElectionKind, named: Sequence[PartitionDescription] | None) -> None:
    partitions = named if named is not None else partitions_of(await admin.describe_cluster(include_internal=True))
    for partition in partitions:
        name = shown(partition.name)
        if needs_election(kind, partition):
            who = f"by {partition.replicas[0]}" if kind is ElectionKind.PREFERRED else "by who has most"
            click.echo(f"{name} would be led {who}")
        elif named is not None:
            click.echo(f"{name} unchanged: led by {partition.leader}")


def needs_election(kind: ElectionKind, partition: PartitionDescription) -> bool:
    """As far as can be seen from here."""
    if kind is ElectionKind.UNCLEAN:
        return partition.leader is None
    return partition.leader != partition.replicas[0] and partition.replicas[0] in partition.isr
