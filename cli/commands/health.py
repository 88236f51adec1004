"""`lograft health`: whether all is well with the cluster, and if not, what is the matter."""

import sys
from collections.abc import Container

import click

from lograft.cli.common.best_effort import ask_soon
from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, run_async
from lograft.cli.common.common_flags import DOCUMENTS
from lograft.cli.common.units import span_text
from lograft.cli.output.resource_output import resource, write_document
from lograft.cli.resources.disk_resources import disk_problems
from lograft.clients.admin.model.types import BrokerState, ClusterDescription, QuorumDescription, QuorumMember
from lograft.runtime.clock import LoopClock

_LOOK_EVERY_MS = 500
_LEADER_LISTENS_MS = 3000  # longer than an election timeout: by then a new leader knows which voters answer
_BRING_BACK = "start it, restart it if it hangs, or check the network to it"
_MOST_NAMED = 3  # partitions of a topic that have the same trouble, each by its name


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


def fenced_problems(cluster: ClusterDescription) -> list[str]:
    """Of brokers that host replicas: one that was drained is stopped without harm."""
    hosting = {
        broker_id for topic in cluster.topics for partition in topic.partitions for broker_id in partition.replicas
    }
    return [
        f"broker {broker.id} at {broker.address} is fenced: no controller hears from it; {_BRING_BACK}"
        for broker in cluster.brokers
        if broker.state is BrokerState.FENCED and broker.id in hosting
    ]


def silent_problems(cluster: ClusterDescription, answered: Container[int]) -> list[str]:
    """Without a quorum nobody fences a broker that is gone: then it is said who does not answer."""
    return [
        f"broker {broker.id} at {broker.address} does not answer; {_BRING_BACK}"
        for broker in cluster.brokers
        if broker.state is BrokerState.ACTIVE and broker.id not in answered
    ]


def _has_undecided(quorum: QuorumDescription | None) -> bool:
    return quorum is not None and any(voter.is_undecided for voter in quorum.voters)


def partition_problems(cluster: ClusterDescription) -> list[str]:
    """Of each partition; but where many of a topic have the same, it is said once."""
    states = {broker.id: broker.state.value for broker in cluster.brokers}
    problems = []
    for topic in cluster.topics:
        alike: dict[tuple[bool, str], list[int]] = {}
        for partition in topic.partitions:
            missing = [broker_id for broker_id in partition.replicas if broker_id not in partition.isr]
            who = ", ".join(f"{broker_id} ({states.get(broker_id, 'not registered')})" for broker_id in missing)
            if missing or partition.leader is None:
                alike.setdefault((partition.leader is not None, who or "nobody"), []).append(partition.number)
        for (is_led, who), numbers in alike.items():
            if len(numbers) > _MOST_NAMED:
                trouble = "are under-replicated" if is_led else "have no leader"
                name = f"{len(numbers)} of {len(topic.partitions)} partitions of topic {topic.name}"
                problems.append(f"{name} {trouble}; not in sync: {who}")
            else:
                trouble = "is under-replicated" if is_led else "has no leader"
                problems += [f"partition {topic.name}-{number} {trouble}; not in sync: {who}" for number in numbers]
    return problems


def quorum_problems(quorum: QuorumDescription | None, committed: int | None, trouble: str) -> list[str]:
    """`committed`: what each voter must have; None: what is committed now."""
    if quorum is None:
        return [f"the quorum cannot be asked: {trouble}; a majority of the controllers must run, and reach each other"]
    if quorum.leader_id is None:
        return ["the quorum has no leader"]
    wanted = quorum.commit_index if committed is None else committed
    problems = []
    for voter in quorum.voters:
        name = f"voter {voter.node_id} at {voter.address}"
        if voter.refusal is not None:
            problems.append(f"{name} is refused: {voter.refusal}")
        elif voter.is_unreachable:
            problems.append(f"{name} is unreachable: {_silence(voter, quorum)}; {_BRING_BACK}")
        elif voter.match_index is None:
            problems.append(f"{name} has not been heard of yet")
        elif voter.match_index < wanted:
            problems.append(f"{name} is behind: at {voter.match_index} of {wanted}")
    return problems


def _silence(voter: QuorumMember, quorum: QuorumDescription) -> str:
    span = span_text(voter.silent_ms or 0)
    if voter.match_index is None:
        return f"it has not answered since voter {quorum.leader_id} was elected, {span} ago"
    return f"it has not answered voter {quorum.leader_id}, which leads, for {span}"


def summarize(cluster: ClusterDescription, quorum: QuorumDescription | None) -> str:
    active = sum(broker.state is BrokerState.ACTIVE for broker in cluster.brokers)
    counts = {
        "broker": len(cluster.brokers),
        "topic": len(cluster.topics),
        "partition": sum(len(topic.partitions) for topic in cluster.topics),
        "voter": len(quorum.voters) if quorum is not None else 0,
    }
    told = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items())
    inactive = f" ({len(cluster.brokers) - active} not active)" if active < len(cluster.brokers) else ""
    told = told.replace(",", f"{inactive},", 1)
    return f"healthy: {told} led by {quorum.leader_id if quorum is not None else None}"
