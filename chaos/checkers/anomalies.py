"""The named anomalies of a history, with their evidence. Pure.

To add one: add a member of `AnomalyName`, a checker that yields it, and the checker's entry in `verdict.CHECKERS`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from lograft.chaos.history.entries import Entry, in_order

MAX_OF_A_KIND = 20


class AnomalyName(Enum):
    LOST_WRITE = "lost write"
    TAKEN_BACK = "read but taken back"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    REORDERED_SENDS = "reordered sends"
    PHANTOM = "phantom"
    ABORTED_READ = "aborted read"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    SKIPPING_POLL = "skipping poll"
    ACKNOWLEDGED_UNSEEN = "acknowledged but unseen"
    WATERMARK_REGRESSION = "watermark regression"
    SPLIT_LEADERSHIP = "split leadership"
    REPLICA_DIVERGENCE = "replica divergence"
    METADATA_NOT_LINEARIZABLE = "metadata not linearizable"
    TWO_OWNERS = "two owners"
    COMMIT_REGRESSION = "committed offset going back"
    NEVER_DELIVERED = "record never delivered to a group"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`evidence`: the entries concerned, in the order in which they began. Replicas are reduced to the records
    concerned."""

    name: AnomalyName
    summary: str
    evidence: tuple[Entry, ...]


def anomaly(name: AnomalyName, summary: str, *evidence: Entry) -> Anomaly:
    return Anomaly(name, summary, in_order(evidence))


@dataclass(frozen=True, slots=True)
class Findings:
    """The first anomalies of each name, and the total count of each name."""

    anomalies: tuple[Anomaly, ...]
    counts: dict[AnomalyName, int]


def bounded(found: Iterable[Anomaly], limit: int = MAX_OF_A_KIND) -> Findings:
    counts: Counter[AnomalyName] = Counter()
    kept: list[Anomaly] = []
    for one in found:
        counts[one.name] += 1
        if counts[one.name] <= limit:
            kept.append(one)
    return Findings(tuple(kept), {name: counts[name] for name in AnomalyName if counts[name]})
