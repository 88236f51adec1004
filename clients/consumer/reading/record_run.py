"""Records on their way from a partition to the caller of a consumer. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import NamedTuple

from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import Columns, Record, records_of


class Position(NamedTuple):
    """The offset of the next record to be given. `leader_epoch`: of the record before it, if that is known: it tells
    whether that is still there after an unclean election."""

    offset: int
    leader_epoch: int | None = None


class RecordRun:
    """Some records of one partition, in order: all there is from one position to another. `ready` gives those that were
    not given yet. They are made one by one: whatever lives for no longer than it is used costs the least.

    A run is made and withdrawn on the client's loop, and taken from wherever the consumer is used, which may be another
    thread. All that these two share is an iterator over the offsets, whose steps are not divided: each record goes
    either to who takes, or to who withdraws. `position` is never beyond what was taken.
    """

    __slots__ = ("_before", "_columns", "_epochs", "_offsets", "after", "name", "ready")

    ready: Iterator[Record]
    _offsets: Iterator[int]  # of those that `ready` will give

    def __init__(
        self,
        name: TopicPartition,
        before: Position,
        columns: Columns,
        after: Position,
        epochs: Sequence[tuple[int, int]] = (),
    ) -> None:
        """`epochs`: the first offset of each batch, and its leader epoch."""
        self.name = name
        self.after = after
        self._before = before
        self._columns = columns
        self._epochs = epochs
        self._go_to(0)

    @property
    def left(self) -> int:
        """How many are not given yet."""
        return length_hint(self._offsets)

    @property
    def index(self) -> int:
        """Of the next one, counted from 0."""
        return len(self._columns.offsets) - self.left

    @property
    def position(self) -> Position:
        """Once it was withdrawn, ask what `withdraw` gave."""
        left = self.left
        if left == 0:
            return self.after
        if left == len(self._columns.offsets):
            return self._before
        given = self._columns.offsets[-left - 1]
        latest = bisect_right(self._epochs, given, key=lambda entry: entry[0])
        return Position(given + 1, self._epochs[latest - 1][1])

    def epoch_before(self, offset: int) -> int | None:
        """Return the leader epoch of the last record before `offset`; None if it lies outside this run."""
        for position in (self.after, self._before):
            if offset == position.offset:
                return position.leader_epoch
        if not self._before.offset < offset < self.after.offset:
            return None
        latest = bisect_right(self._epochs, offset - 1, key=lambda entry: entry[0])
        return self._epochs[latest - 1][1] if latest else None

    def take(self, limit: int) -> list[Record]:
        return list(islice(self.ready, limit))

    # -- on the loop

    def take_columns(self, limit: int) -> Columns:
        """As `take`, for who uses the consumer and waits meanwhile."""
        first = self.index
        self._go_to(min(first + limit, len(self._columns.offsets)))
        return self._columns.part(first, first + limit)

    def withdraw(self) -> "RecordRun":
        """This one gives no more: what is left, as another run."""
        rest = RecordRun(self.name, self._before, self._columns, self.after, self._epochs)
        rest._go_to(len(self._columns.offsets) - len(list(self._offsets)))
        return rest

    def is_rest_of(self, other: "RecordRun") -> bool:
        """Of what is left of `other`, or was when it was withdrawn."""
        return self._columns is other._columns

    def give_back(self, index: int) -> None:
        """What was taken from there on comes again."""
        if index < self.index:
            self._go_to(index)

    def _go_to(self, index: int) -> None:
        columns = self._columns.part(index) if index else self._columns
        self._offsets = iter(columns.offsets)
        self.ready = records_of(*self.name, self._offsets, *columns[1:])
