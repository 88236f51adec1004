"""`lograft elect leaders --preferred|--unclean [TOPIC[-N]...]`."""

from collections.abc import Sequence
from dataclasses import replace

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.nouns import Noun
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.common.prompts import confirm
from lograft.cli.operations.reassignment_run import partitions_of
from lograft.cli.resources.change_report import ChangeReport
from lograft.cli.resources.cluster_resources import partition_resource
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import Election, ElectionKind, PartitionDescription
from lograft.clients.errors import ElectionNotNeeded, LograftError
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import Clock, LoopClock

_LOOK_EVERY_MS = 500


@click.group()
def elect() -> None:
    """Elect partition leaders."""


@elect.command("leaders")
@click.argument("names", metavar="[TOPIC[-N]]...", nargs=-1, shell_complete=complete_names(Noun.TOPIC, Noun.PARTITION))
@click.option("--preferred", is_flag=True, help="Elect the first replica of each partition, if it is in sync.")
@click.option(
    "--unclean",
    is_flag=True,
    help="For partitions with no electable replica, elect the one with the longest log. May lose records.",
)
@click.option("--all", "is_all", is_flag=True, help="All partitions that need it. Default for --preferred.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Print the leaders that would be elected without electing them.")
@changing_command
def leaders_command(
    settings: Settings, names: Sequence[str], preferred: bool, unclean: bool, is_all: bool, yes: bool, dry_run: bool
) -> None:
    """Elect leaders for topics or single partitions.

    The controller runs preferred elections automatically some time after a broker returns, unless
    `leader.rebalance.enable` is false.

    An unclean election can permanently lose acknowledged records that only unavailable replicas have. --unclean --all
    skips internal topics, which hold the offsets committed by groups; name their partitions to include them.

    \b
    Examples:
      # Make the preferred replica of every partition its leader
      lograft elect leaders --preferred
      # Give up on the missing replicas of a partition
      lograft elect leaders --unclean orders-0 --yes
    """
    if preferred == unclean:
        raise click.UsageError("pass either --preferred or --unclean")
    if names and is_all:
        raise click.UsageError("--all cannot be combined with names")
    if unclean and not names and not is_all:
        raise click.UsageError(
            "an unclean election may lose records: name topics or partitions (orders, orders-0), or pass --all"
        )
    if unclean and not dry_run:
        which = "all partitions without a leader" if is_all else ", ".join(names)
        confirm(
            f"Acknowledged records of {which} may be lost permanently. Run an unclean election", settings, is_given=yes
        )
    kind = ElectionKind.UNCLEAN if unclean else ElectionKind.PREFERRED
    run_async(_elect(settings, kind, list(names), dry_run=dry_run))


async def _elect(settings: Settings, kind: ElectionKind, names: list[str], *, dry_run: bool) -> None:
    report = ChangeReport(settings, is_list=True)
    async with open_admin(settings) as admin:
        named = await named_partitions(admin, names, include_internal=True) if names else None
        if dry_run:
            await _foretell(admin, kind, named, report)
            report.finish_planned()
            return
        partitions = [one.name for one in named] if named is not None else None
        if kind is ElectionKind.UNCLEAN:
            elections = await elect_patiently(admin, partitions, settings.timeout_ms, LoopClock())
        else:
            elections = await admin.elect_leaders(kind, partitions)
        if not elections:
            click.echo("No partition needs an election.", err=True)
        await report.finish(admin, _tell(elections, report))


async def elect_patiently(
    admin: Admin, partitions: Sequence[TopicPartition] | None, timeout_ms: int, clock: Clock
) -> list[Election]:
    """Run unclean elections. Retry, until the timeout, partitions whose replicas have not reported their log ends."""
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


def _tell(elections: Sequence[Election], report: ChangeReport) -> list[LograftError]:
    """Return the errors of failed elections."""
    failures: list[LograftError] = []
    for election in elections:
        topic, number = election.partition
        how = f"led by {election.leader}"
        if isinstance(election.error, ElectionNotNeeded):
            report.tell(Noun.PARTITION, f"{topic}-{number}", f"unchanged: {how}")
        elif election.error is not None:
            failures.append(election.error)
        else:
            report.tell(Noun.PARTITION, f"{topic}-{number}", how)
    return failures


async def _foretell(
    admin: Admin, kind: ElectionKind, named: Sequence[PartitionDescription] | None, report: ChangeReport
) -> None:
    if named is not None:
        partitions = named
    else:
        cluster = await admin.describe_cluster(include_internal=True)
        if kind is ElectionKind.UNCLEAN:
            # An unclean election of all partitions skips internal topics, which must be named.
            cluster = replace(cluster, topics=tuple(topic for topic in cluster.topics if not topic.is_internal))
        partitions = partitions_of(cluster)
    for partition in partitions:
        name = f"{partition.topic}-{partition.number}"
        if needs_election(kind, partition):
            preferred = partition.replicas[0] if kind is ElectionKind.PREFERRED else None
            who = f"by {preferred}" if preferred is not None else "by the replica with the longest log"
            planned = partition_resource(replace(partition, leader=preferred))
            report.tell(Noun.PARTITION, name, f"would be led {who}", planned)
        elif named is not None:
            report.tell(Noun.PARTITION, name, f"unchanged: led by {partition.leader}", partition_resource(partition))


def needs_election(kind: ElectionKind, partition: PartitionDescription) -> bool:
    """Predict from the cluster's description whether the partition needs an election."""
    if kind is ElectionKind.UNCLEAN:
        return partition.leader is None
    return partition.leader != partition.replicas[0] and partition.replicas[0] in partition.isr
