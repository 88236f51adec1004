"""Which promises hold until when: the generations of a partition. Pure.

An unclean election, which an operator chooses, ends what was promised of a partition, and begins a new *generation* of
it: what leaders of one generation say holds until the next begins. The leader's epoch tells the generation. Where a
client does not know it, time may: what ended before the election began is older, what began after it was over is newer,
and what lies between may be either, so nothing is built on it.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from lograft.chaos.history.entries import ElectionHeld, Moment, UncleanElection, Unknown
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class Break:
    """Where a generation begins."""

    leader_epoch: int
    begin: Moment
    end: Moment


class Generations:
    def __init__(self, elections: Iterable[UncleanElection]) -> None:
        self._breaks: dict[TopicPartition, list[Break]] = {}
        self._doubtful: dict[TopicPartition, None] = {}
        for election in elections:
            match election.completion:
                case ElectionHeld(at=at, leader_epoch=leader_epoch):
                    breaks = self._breaks.setdefault(election.partition, [])
                    breaks.append(Break(leader_epoch, election.invoked, at))
                case Unknown():
                    self._doubtful[election.partition] = None
        for breaks in self._breaks.values():
            breaks.sort()

    def is_doubtful(self, partition: TopicPartition) -> bool:
        """Nobody knows whether, or when, its promises ended: so none is held against it."""
        return partition in self._doubtful

    def doubtful(self) -> list[TopicPartition]:
        return sorted(self._doubtful)

    def breaks(self, partition: TopicPartition) -> list[Break]:
        return self._breaks.get(partition, [])

    def last(self, partition: TopicPartition) -> int:
        return len(self.breaks(partition))

    def of(self, partition: TopicPartition, leader_epoch: int | None, begin: Moment, end: Moment) -> int | None:
        """The generation of what a leader said between two moments; None if that is not certain."""
        if self.is_doubtful(partition):
            return None
        breaks = self.breaks(partition)
        if not breaks:
            return 0
        if leader_epoch is not None:
            return bisect_right([one.leader_epoch for one in breaks], leader_epoch)
        earliest = sum(one.end < begin for one in breaks)
        latest = sum(one.begin <= end for one in breaks)
        return earliest if earliest == latest else None

    def is_last(self, partition: TopicPartition, generation: int | None) -> bool:
        """Does what was said in that generation still hold?"""
        return generation is not None and generation == self.last(partition)
