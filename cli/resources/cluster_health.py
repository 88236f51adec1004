"""Find what is wrong with a cluster, from descriptions of it. Pure."""

from collections.abc import Container

from lograft.cli.common.units import span_text
from lograft.clients.admin.model.types import BrokerState, ClusterDescription, QuorumDescription, QuorumMember

_BRING_BACK = "start it, restart it if it hangs, or check the network to it"
_MOST_NAMED = 3  # partitions of a topic that have the same trouble, each by its name


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
