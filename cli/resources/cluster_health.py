"""Find the problems of a cluster and their causes, from descriptions of it. Pure."""

from collections.abc import Container, Iterator, Sequence

from lograft.cli.common.units import count_text, span_text
from lograft.cli.resources.disk_resources import disk_problems
from lograft.clients.admin.model.types import (
    BrokerLoad,
    BrokerState,
    ClusterDescription,
    PartitionDescription,
    QuorumDescription,
    QuorumMember,
)

_BRING_BACK = "start it, restart it if it hangs, or check the network to it"
_MOST_NAMED = 3  # partitions of a topic with the same problem that are listed by name


def cluster_problems(
    cluster: ClusterDescription,
    quorum: QuorumDescription | None,
    loads: Sequence[BrokerLoad],
    *,
    committed: int | None = None,
    trouble: str = "",
) -> list[str]:
    """Return everything that is wrong, causes first. `committed`: see `quorum_problems`. `trouble`: why there is no
    `quorum`."""
    answered = [load.id for load in loads]
    return [
        *quorum_problems(quorum, committed, trouble),
        *broker_problems(cluster, answered),
        *(silent_problems(cluster, answered, has_quorum=False) if quorum is None else []),
        *disk_problems(loads),
        *partition_problems(cluster),
    ]


def broker_problems(cluster: ClusterDescription, answered: Container[int] = ()) -> list[str]:
    """Return the inactive brokers that host replicas, with what that does to partitions. `answered`: the ids of brokers
    that respond to requests."""
    problems = []
    for broker in cluster.brokers:
        hosted = [partition for partition in _partitions(cluster) if broker.id in partition.replicas]
        if broker.state is BrokerState.ACTIVE or not hosted:
            continue
        missing = [partition for partition in hosted if broker.id not in partition.isr]
        offline = sum(partition.leader is None for partition in missing)
        effect = f"{count_text(len(missing), 'partition')} under-replicated, {offline or 'none'} offline"
        if broker.state is BrokerState.SHUTTING_DOWN:
            cause, remedy = "is shutting down", "wait, or start it again"
        elif broker.id in answered:
            cause, remedy = "is fenced, but answers", "it is starting, or cannot reach the controllers: check its log"
        else:
            cause, remedy = "is down", _BRING_BACK
        problems.append(f"broker {broker.id} at {broker.address} {cause}: {effect}; {remedy}")
    return problems


def drained_warnings(cluster: ClusterDescription) -> list[str]:
    """Return the brokers that are down without harm, because they host no replicas."""
    hosting = {broker_id for partition in _partitions(cluster) for broker_id in partition.replicas}
    return [
        f"broker {broker.id} at {broker.address} is down and hosts no replicas: start it, or unregister it with "
        f"`lograft delete broker {broker.id}`"
        for broker in cluster.brokers
        if broker.state is BrokerState.FENCED and broker.id not in hosting
    ]


def silent_problems(cluster: ClusterDescription, answered: Container[int], *, has_quorum: bool) -> list[str]:
    """Return the active brokers that do not answer. Without a quorum, no controller fences a broker that is down, nor
    elects other leaders."""
    problems = []
    for broker in cluster.brokers:
        if broker.state is BrokerState.ACTIVE and broker.id not in answered:
            led = sum(partition.leader == broker.id for partition in _partitions(cluster))
            effect = f"the {count_text(led, 'partition')} that it leads cannot fail over without a quorum"
            problems.append(
                f"broker {broker.id} at {broker.address} does not answer"
                f"{f': {effect}' if led and not has_quorum else ''}; {_BRING_BACK}"
            )
    return problems


def partition_problems(cluster: ClusterDescription) -> list[str]:
    """Return the partitions whose problems no inactive broker explains. Name several with the same problem at once."""
    states = {broker.id: broker.state for broker in cluster.brokers}
    problems = []
    for topic in cluster.topics:
        alike: dict[tuple[bool, str], list[int]] = {}
        for partition in topic.partitions:
            missing = [broker_id for broker_id in partition.replicas if broker_id not in partition.isr]
            is_explained = missing and all(
                states.get(each, BrokerState.ACTIVE) is not BrokerState.ACTIVE for each in missing
            )
            if not is_explained and (missing or partition.leader is None):
                told = ", ".join(
                    f"{each} ({states[each].value if each in states else 'not registered'})" for each in missing
                )
                alike.setdefault((partition.leader is not None, told or "none"), []).append(partition.number)
        for (is_led, told), numbers in alike.items():
            if len(numbers) > _MOST_NAMED:
                trouble = "are under-replicated" if is_led else "have no leader"
                name = f"{len(numbers)} of {len(topic.partitions)} partitions of topic {topic.name}"
                problems.append(f"{name} {trouble}; not in sync: {told}")
            else:
                trouble = "is under-replicated" if is_led else "has no leader"
                problems += [f"partition {topic.name}-{number} {trouble}; not in sync: {told}" for number in numbers]
    return problems


def _partitions(cluster: ClusterDescription) -> Iterator[PartitionDescription]:
    return (partition for topic in cluster.topics for partition in topic.partitions)


def quorum_problems(quorum: QuorumDescription | None, committed: int | None, trouble: str) -> list[str]:
    """Return problems of the quorum. `committed`: the index that each voter must have; None: the current one.
    `trouble`: why there is no `quorum`."""
    if quorum is None:
        return [
            f"the metadata quorum has no majority, or is unreachable: {trouble}; start controllers until a majority "
            "runs, and check the network between them"
        ]
    if quorum.leader_id is None:
        return ["the metadata quorum has no leader; start controllers until a majority runs"]
    wanted = quorum.commit_index if committed is None else committed
    problems = []
    for voter in quorum.voters:
        name = f"voter {voter.node_id} at {voter.address}"
        if voter.refusal is not None:
            problems.append(f"{name} is refused: {voter.refusal}")
        elif voter.is_unreachable:
            problems.append(f"{name} is unreachable: {_silence(voter, quorum)}; {_BRING_BACK}")
        elif voter.match_index is None:
            problems.append(f"{name} has not answered yet")
        elif voter.match_index < wanted:
            problems.append(f"{name} is behind: at {voter.match_index} of {wanted}")
    return problems


def _silence(voter: QuorumMember, quorum: QuorumDescription) -> str:
    span = span_text(voter.silent_ms or 0)
    if voter.match_index is None:
        return f"it has not answered since voter {quorum.leader_id} was elected, {span} ago"
    return f"it has not answered the leader, voter {quorum.leader_id}, for {span}"


def summarize(cluster: ClusterDescription, quorum: QuorumDescription | None) -> str:
    """Summarise a healthy cluster in one line."""
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
