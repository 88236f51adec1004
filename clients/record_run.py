"""Records on their way from a partition to whoever uses the consumer. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import NamedTuple

from lograft.storage.batch import Record


class Position(NamedTuple):
    """The offset of the next record to be given. `leader_epoch`: of the record before it, if that is known: it tells
    whether that is still there after an unclean election."""

    offset: int
    leader_epoch: int | None = None


class RecordRun:
    """Some decoded records of one partition, in order: all there is from one position to another.

    It is made and withdrawn on the client's loop, and taken from wherever the consumer is used, which may be another
    thread. All that these two share is `ready`, an iterator over a list, whose steps are not divided: each record goes
    either to who takes, or to who withdraws. `position` is never beyond what was taken.
    """

    __slots__ = ("_before", "_epochs", "after", "ready", "records")

    def __init__(
        self, before: Position, records: list[Record], after: Position, epochs: Sequence[tuple[int, int]] = ()
    ) -> None:
        """`epochs`: the first offset of each batch, and its leader epoch."""
        self._before = before
        self.after = after
        self._epochs = epochs
        self.records = records
        self.ready: Iterator[Record] = iter(records)  # those that are not given yet

    @property
    def left(self) -> int:
        """How many are not given yet."""
        return length_hint(self.ready)

    @property
    def position(self) -> Position:
        """Once it was withdrawn, ask what `withdraw` gave."""
        left = self.left
        if left == 0:
            return self.after
        if left == len(self.records):
            return self._before
        given = self.records[-left - 1].offset
        latest = bisect_right(self._epochs, given, key=lambda entry: entry[0])
        return Position(given + 1, self._epochs[latest - 1][1])

    def take(self, limit: int) -> list[Record]:
        return list(islice(self.ready, limit))

    # -- on the loop

    def withdraw(self) -> "RecordRun":
        """This one gives no more: what is left, as another run."""
        rest = RecordRun(self._before, self.records, self.after, self._epochs)
        rest._go_to(len(self.records) - len(list(self.ready)))
        return rest

    def give_back(self, count: int) -> None:
        """The last `count` that were taken come again."""
        self._go_to(len(self.records) - self.left - count)

    def _go_to(self, index: int) -> None:
        self.ready = iter(self.records)
        self.ready.__setstate__(index)  # type: ignore[attr-defined]
