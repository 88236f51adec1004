"""A run of records of one partition, handed to the consumer's caller. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import NamedTuple

from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import Columns, Record, records_of


class Position(NamedTuple):
    """The offset of the next record to return. `leader_epoch`: that of the previous record, if known, by which brokers
    detect that an unclean election has removed it."""

    offset: int
    leader_epoch: int | None = None


class RecordRun:
    """All records of one partition between two positions, in order. `ready` yields those not taken yet. It creates
    records one by one, because short-lived objects cost the least.

    A run is created and withdrawn on the client's loop, but its records may be taken on another thread. Both sides only
    share an iterator over the offsets, whose steps are atomic, so each record goes either to the taker or to the
    withdrawn rest. `position` is never beyond the taken records.
    """

    __slots__ = ("_before", "_columns", "_epochs", "_offsets", "after", "name", "ready")

    ready: Iterator[Record]
    _offsets: Iterator[int]  # of the records left in `ready`

    def __init__(
        self,
        name: TopicPartition,
        before: Position,
        columns: Columns,
        after: Position,
        epochs: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Create a run. `epochs`: the first offset and the leader epoch of each batch."""
        self.name = name
        self.after = after
        self._before = before
        self._columns = columns
        self._epochs = epochs
        self._go_to(0)

    @property
    def left(self) -> int:
        """The number of records not taken yet."""
        return length_hint(self._offsets)

    @property
    def index(self) -> int:
        """The index of the next record, from 0."""
        return len(self._columns.offsets) - self.left

    @property
    def position(self) -> Position:
        """The position of the next record. After `withdraw`, only that of the returned run is valid."""
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
        """Like `take`, as columns. Called on the loop while the consumer's user waits."""
        first = self.index
        self._go_to(min(first + limit, len(self._columns.offsets)))
        return self._columns.part(first, first + limit)

    def withdraw(self) -> "RecordRun":
        """Empty this run, and return the records left as another run."""
        rest = RecordRun(self.name, self._before, self._columns, self.after, self._epochs)
        rest._go_to(len(self._columns.offsets) - len(list(self._offsets)))
        return rest

    def is_rest_of(self, other: "RecordRun") -> bool:
        """Return True if this run is `other`, or the rest of it after it was withdrawn."""
        return self._columns is other._columns

    def give_back(self, index: int) -> None:
        """Make the records from `index` on available again."""
        if index < self.index:
            self._go_to(index)

    def _go_to(self, index: int) -> None:
        columns = self._columns.part(index) if index else self._columns
        self._offsets = iter(columns.offsets)
        self.ready = records_of(*self.name, self._offsets, *columns[1:])
