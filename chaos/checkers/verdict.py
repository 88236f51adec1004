"""The verdict on a history: its anomalies, the parts that no checker could judge, and availability figures. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, bounded
from lograft.chaos.checkers.availability import Availability, FaultSpan, Second, availability, fault_spans, timeline
from lograft.chaos.checkers.group_offsets import commit_regressions, never_delivered
from lograft.chaos.checkers.group_owners import two_owners
from lograft.chaos.checkers.leaders import split_leadership, watermark_regressions
from lograft.chaos.checkers.logs import aborted_reads, duplicates, inconsistent_offsets, phantoms, reordered_sends
from lograft.chaos.checkers.losses import lost_writes, taken_back
from lograft.chaos.checkers.readers import acknowledged_unseen, non_monotonic_polls, skipping_polls
from lograft.chaos.checkers.registers import metadata_linearizability
from lograft.chaos.checkers.replicas import replica_divergence
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.history import History
from lograft.chaos.history.history_index import HistoryIndex

Checker = Callable[[HistoryIndex], Iterable[Anomaly]]

CHECKERS: Mapping[AnomalyName, Checker] = {
    AnomalyName.LOST_WRITE: lost_writes,
    AnomalyName.TAKEN_BACK: taken_back,
    AnomalyName.DUPLICATE: duplicates,
    AnomalyName.INCONSISTENT_OFFSETS: inconsistent_offsets,
    AnomalyName.REORDERED_SENDS: reordered_sends,
    AnomalyName.PHANTOM: phantoms,
    AnomalyName.ABORTED_READ: aborted_reads,
    AnomalyName.NON_MONOTONIC_POLL: non_monotonic_polls,
    AnomalyName.SKIPPING_POLL: skipping_polls,
    AnomalyName.ACKNOWLEDGED_UNSEEN: acknowledged_unseen,
    AnomalyName.WATERMARK_REGRESSION: watermark_regressions,
    AnomalyName.SPLIT_LEADERSHIP: split_leadership,
    AnomalyName.REPLICA_DIVERGENCE: replica_divergence,
    AnomalyName.METADATA_NOT_LINEARIZABLE: metadata_linearizability,
    AnomalyName.TWO_OWNERS: two_owners,
    AnomalyName.COMMIT_REGRESSION: commit_regressions,
    AnomalyName.NEVER_DELIVERED: never_delivered,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`anomalies`: the first of each name; `anomaly_counts`: the totals of those that occurred. `unjudged`: the parts
    that no checker could judge, with reasons. A history is sound only if both are empty."""

    anomalies: tuple[Anomaly, ...]
    anomaly_counts: Mapping[AnomalyName, int]
    unjudged: tuple[str, ...]
    operation_counts: Mapping[str, Mapping[Outcome, int]]
    availability: Availability
    timeline: tuple[Second, ...]
    faults: tuple[FaultSpan, ...]

    @property
    def is_sound(self) -> bool:
        return not self.anomalies and not self.unjudged


def judge(history: History) -> Verdict:
    """Run all checkers. Raise `ValueError` if two sends have the same value."""
    index = HistoryIndex(history)
    findings = bounded(found for checker in CHECKERS.values() for found in checker(index))
    return Verdict(
        findings.anomalies,
        findings.counts,
        _unjudged(index),
        history.counts,
        availability(history),
        timeline(history),
        fault_spans(history),
    )


def _unjudged(index: HistoryIndex) -> tuple[str, ...]:
    promised = {*index.promises_in, *(partition for _, partition in index.acknowledged_somewhere)}
    gone = index.deleted_topics
    untaken = [name for name in sorted(promised) if name not in index.replicas and name.topic not in gone]
    return (
        *(f"{name}: its final logs were not taken" for name in untaken),
        *(f"{name}: an unclean election may have been held" for name in index.generations.doubtful()),
    )
