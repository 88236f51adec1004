"""Checks that a partition has one reader in a group. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.history.entries import AssignmentChanged, Moment
from lograft.chaos.history.history_index import HistoryIndex
from lograft.clients.types import TopicPartition

GroupPartition = tuple[str, TopicPartition]


@dataclass(frozen=True, slots=True)
class _Holding:
    """A member holds a partition in an epoch, between two events. `end` None: until the end of the history."""

    member: str
    epoch: int
    begin: AssignmentChanged
    end: Moment | None


def two_owners(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each pair of members that hold one partition at the same time in the same epoch.

    A member whose session has ended may not know it yet; the new owner holds the partition in a later epoch. Holdings
    without a known epoch are not judged.
    """
    for (group, partition), holdings in _holdings(index).items():
        earlier: dict[int, list[_Holding]] = {}
        for holding in sorted(holdings, key=lambda one: one.begin.at):
            of_epoch = earlier.setdefault(holding.epoch, [])
            for other in of_epoch:
                is_over = other.end is not None and other.end <= holding.begin.at
                if other.member != holding.member and not is_over:
                    who = f"{other.member} and {holding.member} of {group}"
                    summary = f"{who} have {partition} in epoch {holding.epoch}"
                    yield anomaly(AnomalyName.TWO_OWNERS, summary, other.begin, holding.begin)
            of_epoch.append(holding)


def _holdings(index: HistoryIndex) -> dict[GroupPartition, list[_Holding]]:
    held: dict[tuple[str, str], dict[TopicPartition, AssignmentChanged]] = {}
    found: dict[GroupPartition, list[_Holding]] = {}

    def over(partition: TopicPartition, begin: AssignmentChanged, end: Moment | None) -> None:
        if begin.epoch is not None:
            holding = _Holding(begin.member, begin.epoch, begin, end)
            found.setdefault((begin.group, partition), []).append(holding)

    for change in index.history.of(AssignmentChanged):
        of_member = held.setdefault((change.group, change.member), {})
        for partition, begin in list(of_member.items()):
            if partition in change.lost:
                over(partition, begin, change.at)
                del of_member[partition]
            elif change.epoch is not None and change.epoch != begin.epoch:
                over(partition, begin, change.at)
                of_member[partition] = change
        of_member.update({partition: change for partition in change.gained if partition not in of_member})
    for of_member in held.values():
        for partition, begin in of_member.items():
            over(partition, begin, None)
    return found
