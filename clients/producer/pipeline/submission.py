"""A submission: records for one topic that were sent together. Leads from each record to its batch and result. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from lograft.clients.errors import LograftError
from lograft.clients.producer.pipeline.pending_batch import PendingBatch
from lograft.clients.records.list_columns import SizedLists
from lograft.clients.types import RecordMetadata

if TYPE_CHECKING:
    from lograft.clients.records.arrow_columns import ArrowColumns
    from lograft.runtime.tasks.loop_thread import LoopThread

RecordColumns: TypeAlias = "SizedLists | ArrowColumns"
"""The records of a submission."""


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """Consecutive records of a `PartitionSlice` in one batch: the first is at `first` there, and at `start` here."""

    batch: PendingBatch
    first: int
    start: int


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """The records of a submission, by `indices`, that go to one partition, or that share turns over all of them."""

    indices: Sequence[int]
    batches: list[BatchSlice] = field(default_factory=list)

    def find(self, index: int) -> tuple[PendingBatch, int]:
        position = bisect_left(self.indices, index)
        piece = self.batches[bisect_right(self.batches, position, key=lambda piece: piece.start) - 1]
        return piece.batch, piece.first + position - piece.start


class Submission:
    """Records of one topic. The sending thread fills it and hands it to the loop; from then on, only the loop changes
    it.

    `loop`: the loop by which other threads may access it, if any. `partition`: that of all records; `partitions`: that
    of each record (None: the producer chooses). `placed` or `fail` is called once, and releases the columns.
    """

    def __init__(
        self,
        topic: str,
        columns: RecordColumns,
        *,
        partition: int | None = None,
        partitions: list[int | None] | None = None,
        loop: "LoopThread | None" = None,
    ) -> None:
        self.topic = topic
        self.columns: RecordColumns | None = columns
        self._count = 0
        self.partition = partition
        self.partitions = partitions
        self.loop = loop
        self.refused: dict[int, LograftError] = {}  # records that failed before placement
        self._error: LograftError | None = None
        self._groups: dict[int, PartitionSlice] | None = None
        self._group_of: Sequence[int] | None = None
        self._when_placed: list[Callable[[], object]] = []

    def __len__(self) -> int:
        return self._count if self.columns is None else len(self.columns)

    @property
    def size_bytes(self) -> int:
        """The size of the records that are not in batches yet."""
        return 0 if self.columns is None else self.columns.size_bytes

    @property
    def strangest_partition(self) -> int:
        """The named partition that is least likely to exist: a negative one, or the highest."""
        wanted = [self.partition or 0] if self.partitions is None else [each or 0 for each in self.partitions]
        return min(wanted) if min(wanted) < 0 else max(wanted)

    def wants_only(self, partition_count: int) -> bool:
        """Return True if all named partitions exist among `partition_count`."""
        return (self.partition is None and self.partitions is None) or 0 <= self.strangest_partition < partition_count

    def refuse_strangers(self, partition_count: int, error: LograftError) -> None:
        """Fail only the records that name partitions outside of `partition_count`."""
        wanted: Sequence[int | None] = self.partitions or [self.partition] * len(self)
        for index, partition in enumerate(wanted):
            if partition is not None and not 0 <= partition < partition_count:
                self.refused[index] = error
        self.partition, self.partitions = (
            None,
            [None if index in self.refused else each for index, each in enumerate(wanted)],
        )

    # -- placement

    def placed(self, groups: dict[int, PartitionSlice], group_of: Sequence[int] | None) -> None:
        """Note that all records not refused are in batches. `group_of`: the slice of each record; None if there is only
        one."""
        self._group_of = group_of
        self._groups = groups
        self._let_go()

    def fail(self, error: LograftError) -> None:
        """Fail all records; none was placed."""
        assert self._groups is None
        self._error = error
        self._let_go()

    def _let_go(self) -> None:
        self._count = len(self)
        self.columns = self.partitions = None
        listeners, self._when_placed = self._when_placed, []
        for listener in listeners:
            listener()

    @property
    def is_placed(self) -> bool:
        """True once all records are in batches or have failed."""
        return self._groups is not None or self._error is not None

    @property
    def batches(self) -> Iterator[PendingBatch]:
        """The batches that its records are in; one may be repeated."""
        for group in (self._groups or {}).values():
            for piece in group.batches:
                yield piece.batch

    # -- one record

    def is_known(self, index: int) -> bool:
        """Return True if a record's result is known."""
        if not self.is_placed:
            return False
        found = self._find(index)
        return isinstance(found, LograftError) or found[0].is_settled

    def result(self, index: int) -> RecordMetadata | LograftError:
        """Return a record's result, which must be known."""
        found = self._find(index)
        return found if isinstance(found, LograftError) else found[0].result(found[1])

    def listen(self, index: int, listener: Callable[[], object]) -> None:
        """Call `listener` when the record's result is known; at once if it is."""
        if not self.is_placed:
            self._when_placed.append(lambda: self.listen(index, listener))
            return
        found = self._find(index)
        if isinstance(found, LograftError):
            listener()
        else:
            found[0].listen(found[1], listener)

    def _find(self, index: int) -> tuple[PendingBatch, int] | LograftError:
        error = self._error or self.refused.get(index)
        if error is not None:
            return error
        assert self._groups is not None
        return self._groups[self._group_of[index] if self._group_of is not None else 0].find(index)

    # -- all of them

    @property
    def is_settled(self) -> bool:
        """True once all results are known."""
        return self.is_placed and all(batch.is_settled for batch in self.batches)

    def listen_to_all(self, listener: Callable[[], object]) -> None:
        """Call `listener` when all results are known; at once if they are."""
        if not self.is_placed:
            self._when_placed.append(lambda: self.listen_to_all(listener))
            return
        unsettled = {id(batch): batch for batch in self.batches if not batch.is_settled}
        if not unsettled:
            listener()
            return
        left = len(unsettled)

        def one_settled() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                listener()

        for batch in unsettled.values():
            batch.listen(0, one_settled)

    def results(self) -> Iterator[tuple[int, RecordMetadata | LograftError]]:
        """Yield the results, all of which must be known: pairs of how many records share a result, and the first one's
        result."""
        if self._error is not None:
            yield len(self), self._error
        for error in self.refused.values():
            yield 1, error
        for group in (self._groups or {}).values():
            ends = [*(piece.start for piece in group.batches[1:]), len(group.indices)]
            for piece, end in zip(group.batches, ends, strict=True):
                yield from piece.batch.results(piece.first, end - piece.start)
