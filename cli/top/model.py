"""The model of `lograft top`: rates from two snapshots of a cluster. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lograft.cli.output.resource_output import Resource, resource
from lograft.cli.resources.cluster_health import (
    broker_problems,
    partition_problems,
    quorum_problems,
    silent_problems,
)
from lograft.cli.resources.disk_resources import disk_problems
from lograft.cli.resources.load_resources import COUNTED
from lograft.clients.admin.model.group_types import GroupListing
from lograft.clients.admin.model.types import BrokerLoad, ClusterDescription, QuorumDescription
from lograft.clients.types import TopicPartition

_PARTITION_COUNTED = {name: count for name, count in COUNTED.items() if count not in ("requests", "errors")}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot. `lags`: of the queried groups; None if unknown. `trouble`: why the quorum is unknown;
    `group_trouble`: why groups are unknown. `has_internal`: whether to list partitions of internal topics."""

    at_ms: int
    cluster: ClusterDescription
    quorum: QuorumDescription | None
    trouble: str
    loads: Mapping[int, BrokerLoad]
    groups: Sequence[GroupListing] | None
    lags: Mapping[str, int | None]
    group_trouble: str = ""
    has_internal: bool = False


def top_view(previous: Snapshot | None, current: Snapshot) -> Resource:
    """Return a resource. Unknown values are None: without `previous`, all rates."""
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
            "topics": sum(not topic.is_hidden for topic in current.cluster.topics),
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
    """Return the sum of the known values."""
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 1) if known else None


# -- rates


@dataclass(frozen=True, slots=True)
class _Span:
    """The interval of a broker's counters: since the previous snapshot, or since the broker's start if that is
    later."""

    seconds: float
    before: BrokerLoad | None

    def rate(self, now: int, before: int) -> float:
        return round(max(0, now - before) / self.seconds, 1)


def _span(before: BrokerLoad | None, now: BrokerLoad) -> _Span | None:
    """Return the interval, or None if there is none."""
    if before is None:
        return None
    between_ms = now.at_ms - before.at_ms
    # A rebooted machine also has another monotonic clock.
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
    """Return partitions with traffic, the busiest first, summed over brokers."""
    totals: dict[TopicPartition, dict[str, float]] = {}
    for broker, span in _spans(previous, current).items():
        before = {} if span.before is None else {each.partition: each for each in span.before.partitions}
        for now in current.loads[broker].partitions:
            rates = totals.setdefault(now.partition, dict.fromkeys(_PARTITION_COUNTED, 0.0))
            then = before.get(now.partition)
            for name, count in _PARTITION_COUNTED.items():
                rates[name] += span.rate(getattr(now, count), 0 if then is None else getattr(then, count))
    topics = [topic for topic in current.cluster.topics if current.has_internal or not topic.is_hidden]
    described = {each.name: each for topic in topics for each in topic.partitions}
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
    """Return the client traffic of a partition."""
    return float(partition["bytesInPerSecond"] + partition["bytesOutPerSecond"])


# -- groups


def _groups(previous: Snapshot | None, current: Snapshot) -> list[Resource] | None:
    """Return groups by descending lag, unknown lag last; None if groups are unknown."""
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


# -- problems


def _problems(previous: Snapshot | None, current: Snapshot) -> list[str]:
    # Compare with the previous commit index: a voter may be about to receive the latest entries.
    committed = None if previous is None or previous.quorum is None else previous.quorum.commit_index
    return [
        *quorum_problems(current.quorum, committed, current.trouble),
        *broker_problems(current.cluster, current.loads),
        *silent_problems(current.cluster, current.loads, has_quorum=current.quorum is not None),
        *disk_problems(current.loads.values()),
        *partition_problems(current.cluster),
        *([f"groups are not available: {current.group_trouble}"] if current.groups is None else []),
    ]
