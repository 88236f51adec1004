"""`lograft apply -f FILE|DIR|-`: apply resource files to a cluster."""

from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.declarative.apply_plan import Change, Sighting, TopicChange, differences
from lograft.cli.declarative.apply_run import Refused, carry_out, prepare
from lograft.cli.declarative.desired_state import Desired
from lograft.cli.declarative.manifest_files import file_options, read_files
from lograft.cli.resources.change_report import ChangeReport
from lograft.clients.errors import LograftError


@click.command("apply")
@file_options
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@changing_command
def apply(settings: Settings, paths: Sequence[str], recursive: bool, dry_run: bool) -> None:
    """Apply resource files to a cluster.

    \b
    apiVersion: lograft/v1
    kind: Topic
    metadata: {name: orders}
    spec:
      partitions: 6
      replicas: 3
      config: {retention.ms: 604800000, cleanup.policy: delete}

    Missing topics are created. For existing topics, partitions are added, configuration is changed, and a change of the
    replication factor is started as `lograft scale` does, without waiting for it. Omitted fields are left unchanged. A
    `config` is complete: keys of the topic that it does not list are unset.

    The kinds are Topic, Config (one key, such as cluster/num.partitions), and List. A file may contain several
    documents. `status` and other read-only fields are ignored, so the output of `get -o yaml` can be applied. A file
    may contain read-only resources such as brokers and groups, but may not change them.

    The cluster validates all changes before any is made. Unsafe changes are rejected: fewer partitions, or a topic
    whose id differs from the one in the file. Nothing is ever deleted.

    Prints one line per resource: created, configured, or unchanged.

    \b
    Examples:
      # Show what would change
      lograft apply -f topics/ --dry-run
      # Apply two files
      lograft apply -f orders.yaml -f bills.yaml
      # Copy all topics to another cluster
      lograft export topics | lograft --bootstrap other:9092 apply -f -

    \b
    Exit code  0  success
               1  rejected or failed
               2  invalid usage
    """
    desired = read_files(paths, recursive=recursive)
    if not desired:
        click.echo("The files contain no resources.", err=True)
        ChangeReport(settings).finish_planned()
        return
    run_async(_apply(settings, desired, dry_run=dry_run))


async def _apply(settings: Settings, desired: Sequence[Desired], *, dry_run: bool) -> None:
    report = ChangeReport(settings)
    async with open_admin(settings) as admin:
        try:
            changes = await prepare(admin, settings, desired)
        except Refused as refused:
            if not dry_run:
                click.echo("No changes were made.", err=True)
            refused.tell()
        if dry_run:
            for change in changes:
                report.tell(change.desired.noun, change.desired.name, _how(change), change.after)
            report.finish_planned()
            return
        failures: list[LograftError] = []
        async for change, error in carry_out(admin, changes):
            if error is not None:
                failures.append(error)
                continue
            shown = change.live if isinstance(change, Sighting) else None
            report.tell(change.desired.noun, change.desired.name, change.verdict, shown)
            if isinstance(change, TopicChange) and change.moves:
                moving = "replicas are being moved; run `lograft reassign status` to see progress"
                click.echo(f"{change.desired.label}: {moving}", err=True)
        await report.finish(admin, failures)


def _how(change: Change) -> str:
    """Describe the planned change of a resource."""
    if change.verdict == "unchanged":
        return "unchanged"
    return f"{change.verdict} (dry run): {', '.join(differences(change))}"
