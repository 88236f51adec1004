"""What `lograft top` knows of a cluster: rates out of two looks at it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lograft.cli.output.resource_output import Resource, resource
from lograft.cli.resources.cluster_health import partition_problems, quorum_problems
from lograft.cli.resources.disk_resources import disk_problems
from lograft.cli.resources.load_resources import COUNTED
from lograft.clients.admin.model.group_types import GroupListing
from lograft.clients.admin.model.types import BrokerLoad, BrokerState, ClusterDescription, QuorumDescription
from lograft.clients.types import TopicPartition

_PARTITION_COUNTED = {name: count for name, count in COUNTED.items() if count not in ("requests", "errors")}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look. `lags`: of the groups that were asked; None where it is not known. `trouble`: why no quorum;
    `group_trouble`: why no groups."""

    at_ms: int
    cluster: ClusterDescription
    quorum: QuorumDescription | None
    trouble: str
    loads: Mapping[int, BrokerLoad]
    groups: Sequence[GroupListing] | None
    lags: Mapping[str, int | None]
    group_trouble: str = ""


def top_view(previous: Snapshot | None, current: Snapshot) -> Resource:
    """As a resource. What cannot be known from these two is None: all rates, if there is no `previous`."""
    brokers = _brokers(previous, current)
    rates = {name: _sum([broker[name] for broker in brokers]) for name in COUNTED}
    quorum = current.quorum
    return resource(
        "Load",
        {"name": current.cluster.cluster_id},
        status={
            "at": current.at_ms,
            "intervalMs": None if previous is None else current.at_ms - previous.at_ms,
            **rates,
            "topics": sum(not topic.is_internal for topic in current.cluster.topics),
            "quorum": {
                "leader": None if quorum is None else quorum.leader_id,
                "term": None if quorum is None else quorum.term,
                "commitIndex": None if quorum is None else quorum.commit_index,
                "voters": None if quorum is None else [voter.node_id for voter in quorum.voters],
            },
            "problems": _problems(previous, current),
            "brokers": brokers,
            "partitions": _partitions(previous, current),
            "groups": _groups(previous, current),
        },
    )


def _sum(rates: Sequence[float | None]) -> float | None:
    """Of those that are known."""
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 1) if known else None


# -- rates


@dataclass(frozen=True, slots=True)
class _Span:
    """From when on a broker's counts are looked at: from the look before, or, if it was started since, from then."""

    seconds: float
    before: BrokerLoad | None

    def rate(self, now: int, before: int) -> float:
        return round(max(0, now - before) / self.seconds, 1)


def _span(before: BrokerLoad | None, now: BrokerLoad) -> _Span | None:
    """None: there is none."""
    if before is None:
        return None
    between_ms = now.at_ms - before.at_ms
    # A machine that was started anew has another clock, too.
    if now.uptime_ms < between_ms or between_ms < 0 or now.uptime_ms < before.uptime_ms:
        return _Span(max(now.uptime_ms, 1) / 1000, None)
    return _Span(between_ms / 1000, before) if between_ms else None


def _spans(previous: Snapshot | None, current: Snapshot) -> dict[int, _Span]:
    before = {} if previous is None else previous.loads
    spans = {broker: _span(before.get(broker), load) for broker, load in current.loads.items()}
    return {broker: span for broker, span in spans.items() if span is not None}


# -- brokers


def _brokers(previous: Snapshot | None, current: Snapshot) -> list[Resource]:
    spans = _spans(previous, current)
    partitions = [each for topic in current.cluster.topics for each in topic.partitions]
    shown = []
    for broker in current.cluster.brokers:
        load, span = current.loads.get(broker.id), spans.get(broker.id)
        rates: dict[str, float | None] = dict.fromkeys(COUNTED)
        if load is not None and span is not None:
            rates = {
                name: span.rate(getattr(load, count), 0 if span.before is None else getattr(span.before, count))
                for name, count in COUNTED.items()
            }
        shown.append(
            {
                "id": broker.id,
                "state": broker.state.value,
                "answers": load is not None,
                "leaders": sum(each.leader == broker.id for each in partitions),
                "replicas": sum(broker.id in each.replicas for each in partitions),
                **rates,
                "eventLoopLagMs": None if load is None else load.event_loop_lag_ms,
                "streams": None if load is None else load.open_streams,
            }
        )
    return shown


# -- partitions


def _partitions(previous: Snapshot | None, current: Snapshot) -> list[Resource]:
    """Those with any traffic, the busiest first. What several brokers did for one is taken together."""
    totals: dict[TopicPartition, dict[str, float]] = {}
    for broker, span in _spans(previous, current).items():
        before = {} if span.before is None else {each.partition: each for each in span.before.partitions}
        for now in current.loads[broker].partitions:
            rates = totals.setdefault(now.partition, dict.fromkeys(_PARTITION_COUNTED, 0.0))
            then = before.get(now.partition)
            for name, count in _PARTITION_COUNTED.items():
                rates[name] += span.rate(getattr(now, count), 0 if then is None else getattr(then, count))
    described = {each.name: each for topic in current.cluster.topics for each in topic.partitions}
    shown = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "leader": described[name].leader,
            "replicas": list(described[name].replicas),
            "isr": list(described[name].isr),
            **{rate: round(value, 1) for rate, value in rates.items()},
        }
        for name, rates in totals.items()
        if name in described and any(rates.values())
    ]
    return sorted(shown, key=busy, reverse=True)


def busy(partition: Resource) -> float:
    """How much clients do with it."""
    return float(partition["bytesInPerSecond"] + partition["bytesOutPerSecond"])


# -- groups


def _groups(previous: Snapshot | None, current: Snapshot) -> list[Resource] | None:
    """None: nobody said. The one that is farthest behind first; those of which it is not known last."""
    if current.groups is None:
        return None
    seconds = 0.0 if previous is None else (current.at_ms - previous.at_ms) / 1000
    shown = []
    for group in current.groups:
        lag = current.lags.get(group.name)
        before = None if previous is None else previous.lags.get(group.name)
        growth = None if lag is None or before is None or seconds <= 0 else round((lag - before) / seconds, 1)
        shown.append(
            {
                "name": group.name,
                "state": group.state.value,
                "members": group.members,
                "lag": lag,
                "lagGrowthPerSecond": growth,
            }
        )
    return sorted(shown, key=lambda each: (each["lag"] is None, -(each["lag"] or 0), each["name"]))


# -- what is the matter


def _problems(previous: Snapshot | None, current: Snapshot) -> list[str]:
    # A voter that is behind this very moment may have been just about to have it.
    committed = None if previous is None or previous.quorum is None else previous.quorum.commit_index
    return [
        *_broker_problems(current),
        *disk_problems(current.loads.values()),
        *quorum_problems(current.quorum, committed, current.trouble),
        *partition_problems(current.cluster),
        *([f"groups cannot be asked for: {current.group_trouble}"] if current.groups is None else []),
    ]


def _broker_problems(current: Snapshot) -> list[str]:
    problems = []
    for broker in current.cluster.brokers:
        if broker.state is not BrokerState.ACTIVE:
            problems.append(f"broker {broker.id} at {broker.address} is {broker.state.value}")
        elif broker.id not in current.loads:
            problems.append(f"broker {broker.id} at {broker.address} does not answer")
    return problems
