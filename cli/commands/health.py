"""`lograft health`: whether all is well with the cluster, and if not, what is the matter."""

import sys

import click

from lograft.cli.common.best_effort import ask_soon
from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, run_async
from lograft.cli.common.common_flags import DOCUMENTS
from lograft.cli.output.resource_output import resource, write_document
from lograft.cli.resources.cluster_health import (
    fenced_problems,
    partition_problems,
    quorum_problems,
    silent_problems,
    summarize,
)
from lograft.cli.resources.disk_resources import disk_problems
from lograft.clients.admin.model.types import QuorumDescription
from lograft.runtime.clock import LoopClock

_LOOK_EVERY_MS = 500
_LEADER_LISTENS_MS = 3000  # longer than an election timeout: by then a new leader knows which voters answer


@click.command("health")
@click.option("--exit-when-healthy", is_flag=True, help="Wait until all is well, for up to --timeout.")
@command_flags("table", "wide", *DOCUMENTS)
@click.pass_context
def health(ctx: click.Context, settings: Settings, exit_when_healthy: bool) -> None:
    """Say whether the cluster is healthy.

    It is when every partition, internal ones included, has a leader and all its replicas in sync, the quorum has a
    leader, every voter answers it and has caught up, and no broker's disk is full.

    \b
    Exit code  0  healthy
               1  not healthy, or nobody to ask
    """
    problems, summary = run_async(_check(settings, is_patient=exit_when_healthy))
    if settings.is_document:
        status = {"healthy": not problems, "problems": problems}
        write_document(sys.stdout, resource("Health", {"name": "cluster"}, status=status), settings.output)
    elif problems:
        for problem in problems:
            click.echo(problem)
    else:
        click.echo(summary)
    if problems:
        click.echo(f"not healthy: {len(problems)} problem{'s' if len(problems) > 1 else ''}", err=True)
        ctx.exit(1)


async def _check(settings: Settings, *, is_patient: bool) -> tuple[list[str], str]:
    """What is the matter, and what there is."""
    clock = LoopClock()
    begun_ms = clock.monotonic_ms()
    give_up_ms = begun_ms + settings.timeout_ms
    async with open_admin(settings) as admin:
        committed: int | None = None
        while True:
            cluster = await admin.describe_cluster(include_internal=True)
            quorum, trouble = await ask_soon(admin.describe_quorum())
            loads = await admin.describe_load(include_partitions=False)
            problems = [
                *fenced_problems(cluster),
                *partition_problems(cluster),
                *quorum_problems(quorum, committed, trouble),
                *disk_problems(loads),
                *(silent_problems(cluster, [load.id for load in loads]) if quorum is None else []),
            ]
            is_listening = clock.monotonic_ms() < begun_ms + _LEADER_LISTENS_MS and _has_undecided(quorum)
            is_last = quorum is None or (committed is not None and not is_listening)
            if not problems or (is_last and not is_patient) or clock.monotonic_ms() >= give_up_ms:
                return problems, summarize(cluster, quorum)
            # A voter that is behind this very moment may have been just about to have it: that is not lagging.
            if quorum is not None and (committed is None or is_patient):
                committed = quorum.commit_index
            await clock.sleep_ms(_LOOK_EVERY_MS)


def _has_undecided(quorum: QuorumDescription | None) -> bool:
    return quorum is not None and any(voter.is_undecided for voter in quorum.voters)
