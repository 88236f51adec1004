"""`lograft apply -f FILE|DIR|-`."""

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
@click.option("--dry-run", is_flag=True, help="Check all, and tell what would be changed; change nothing.")
@changing_command
def apply(settings: Settings, paths: Sequence[str], recursive: bool, dry_run: bool) -> None:
    """Have the cluster be as resource files say.

    \b
    apiVersion: lograft/v1
    kind: Topic
    metadata: {name: orders}
    spec:
      partitions: 6
      replicas: 3
      config: {retention.ms: 604800000, cleanup.policy: delete}

    A topic that there is none of is created; one that is there gets more partitions, other replicas (begun as `lograft
    scale` does, and not waited for) or other settings. What a file leaves out stays as it is. But a `config` that is
    there is all that is set on the topic itself: keys that it does not list are unset.

    Kinds are Topic, Config (one key, such as cluster/num.partitions) and List; a file may have several documents.
    `status` and what else cannot be changed is passed over, so that what `get -o yaml` writes can be applied. A broker,
    group or the like that is in a file is left as it is, and refused if the file would have it be something else.

    Everything is read, and checked by the cluster, before anything is changed. What is not safe is refused: fewer
    partitions, another topic than the one whose id the file has. Nothing is ever deleted.

    \b
    lograft apply -f topics/ --dry-run          what would be changed
    lograft apply -f orders.yaml -f bills.yaml
    lograft get topics -o yaml | lograft apply -f -
    lograft export topics | lograft --bootstrap other:9092 apply -f -

    Writes a line for each resource: created, configured or unchanged. Exit codes: 0 done, 1 refused or failed, 2 usage.
    """
    desired = read_files(paths, recursive=recursive)
    if not desired:
        click.echo("There is nothing in it to apply.", err=True)
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
                click.echo("Nothing was changed.", err=True)
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
                moving = "replicas are on their way, and `lograft reassign status` tells how far they are"
                click.echo(f"{change.desired.label}: {moving}", err=True)
        await report.finish(admin, failures)


def _how(change: Change) -> str:
    """What would become of it, in words."""
    if change.verdict == "unchanged":
        return "unchanged"
    return f"{change.verdict} (dry run): {', '.join(differences(change))}"
