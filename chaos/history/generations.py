"""The generations of a partition: until when its promises hold. Pure.

An unclean election, which an operator chooses, ends a partition's promises and begins a new *generation*: the answers
of one generation's leaders hold until the next begins. The leader epoch determines the generation. If a client does not
know the epoch, time may: operations that ended before the election began are older, those that began after it ended are
newer. Operations in between may belong to either and are not used.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from lograft.chaos.history.entries import ElectionHeld, Moment, UncleanElection, Unknown
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class Break:
    """The beginning of a generation."""

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
        """Return whether an election of unknown outcome makes it unknown when the promises ended. None is enforced
        then."""
        return partition in self._doubtful

    def doubtful(self) -> list[TopicPartition]:
        return sorted(self._doubtful)

    def breaks(self, partition: TopicPartition) -> list[Break]:
        return self._breaks.get(partition, [])

    def last(self, partition: TopicPartition) -> int:
        return len(self.breaks(partition))

    def of(self, partition: TopicPartition, leader_epoch: int | None, begin: Moment, end: Moment) -> int | None:
        """Return the generation of a leader's answer between two moments; None if uncertain."""
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
        """Return whether answers of that generation still hold."""
        return generation is not None and generation == self.last(partition)
