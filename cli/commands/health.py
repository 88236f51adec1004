"""`lograft health`: check the health of a cluster."""

import sys
from typing import NamedTuple

import click

from lograft.cli.common.best_effort import ask_soon
from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, run_async
from lograft.cli.common.common_flags import DOCUMENTS
from lograft.cli.common.units import count_text
from lograft.cli.output.resource_output import resource, write_document
from lograft.cli.resources.cluster_health import cluster_problems, drained_warnings, summarize
from lograft.clients.admin.model.types import QuorumDescription
from lograft.runtime.clock import LoopClock

_LOOK_EVERY_MS = 500
_LEADER_LISTENS_MS = 3000  # longer than an election timeout: by then a new leader knows which voters answer


@click.command("health")
@click.option("--exit-when-healthy", is_flag=True, help="Wait until the cluster is healthy, for up to --timeout.")
@command_flags("table", "wide", *DOCUMENTS)
@click.pass_context
def health(ctx: click.Context, settings: Settings, exit_when_healthy: bool) -> None:
    """Check the health of a cluster and print its problems by cause.

    A cluster is healthy if every partition, internal ones included, has a leader and all replicas in sync, the metadata
    quorum has a leader, every voter answers it and has caught up, and no broker's disk is full.

    \b
    Examples:
      # Check the health of the cluster
      lograft health
      # Wait for up to two minutes until it is healthy
      lograft health --exit-when-healthy --timeout 2m
      # Print the problems for a script
      lograft health -o jsonpath='{range .status.problems[*]}{@}{"\\n"}{end}'

    \b
    Exit code  0  healthy
               1  not healthy, or the cluster is unreachable
    """
    found = run_async(_check(settings, is_patient=exit_when_healthy))
    if settings.is_document:
        status = {"healthy": not found.problems, "problems": found.problems, "warnings": found.warnings}
        write_document(sys.stdout, resource("Health", {"name": "cluster"}, status=status), settings.output)
    elif found.problems:
        for problem in found.problems:
            click.echo(problem)
    else:
        click.echo(found.summary)
    for warning in found.warnings:
        click.echo(f"Warning: {warning}", err=True)
    if found.problems:
        click.echo(f"not healthy: {count_text(len(found.problems), 'problem')}", err=True)
        ctx.exit(1)


class _Findings(NamedTuple):
    """`warnings`: conditions that do not make the cluster unhealthy."""

    problems: list[str]
    warnings: list[str]
    summary: str


async def _check(settings: Settings, *, is_patient: bool) -> _Findings:
    clock = LoopClock()
    begun_ms = clock.monotonic_ms()
    give_up_ms = begun_ms + settings.timeout_ms
    async with open_admin(settings) as admin:
        committed: int | None = None
        while True:
            cluster = await admin.describe_cluster(include_internal=True)
            quorum, trouble = await ask_soon(admin.describe_quorum())
            loads = await admin.describe_load(include_partitions=False)
            problems = cluster_problems(cluster, quorum, loads, committed=committed, trouble=trouble)
            is_listening = clock.monotonic_ms() < begun_ms + _LEADER_LISTENS_MS and _has_undecided(quorum)
            is_last = quorum is None or (committed is not None and not is_listening)
            if not problems or (is_last and not is_patient) or clock.monotonic_ms() >= give_up_ms:
                return _Findings(problems, drained_warnings(cluster), summarize(cluster, quorum))
            # A voter may be about to receive the latest entries, so compare it with an earlier commit index.
            if quorum is not None and (committed is None or is_patient):
                committed = quorum.commit_index
            await clock.sleep_ms(_LOOK_EVERY_MS)


def _has_undecided(quorum: QuorumDescription | None) -> bool:
    return quorum is not None and any(voter.is_undecided for voter in quorum.voters)
