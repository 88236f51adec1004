"""Records for one topic that were sent together, from the caller to their batches; and how the result of each is found
from there. Pure."""

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
"""What a submission consists of."""


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """Consecutive records of a `PartitionSlice` in one batch, where the first is at `first`; here it is at `start`."""

    batch: PendingBatch
    first: int
    start: int


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """The records of a submission, by their `indices`, that go to one partition, or without a key to any."""

    indices: Sequence[int]
    batches: list[BatchSlice] = field(default_factory=list)

    def find(self, index: int) -> tuple[PendingBatch, int]:
        position = bisect_left(self.indices, index)
        piece = self.batches[bisect_right(self.batches, position, key=lambda piece: piece.start) - 1]
        return piece.batch, piece.first + position - piece.start


class Submission:
    """Records of one topic: filled by the thread that sends them, then handed to the loop, which alone changes it then.

    `loop` is how other threads ask about it, if they may. `partition` is that of all records, `partitions` that of each
    (None: the producer chooses). `placed` or `fail` is called once, and lets go of the columns.
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
        self.refused: dict[int, LograftError] = {}  # records that never came into a batch
        self._error: LograftError | None = None
        self._groups: dict[int, PartitionSlice] | None = None
        self._group_of: Sequence[int] | None = None
        self._when_placed: list[Callable[[], object]] = []

    def __len__(self) -> int:
        return self._count if self.columns is None else len(self.columns)

    @property
    def size_bytes(self) -> int:
        """The bytes of the records that are not in batches yet."""
        return 0 if self.columns is None else self.columns.size_bytes

    @property
    def strangest_partition(self) -> int:
        """Of those that are asked for, the one that is least likely to be there: below 0, or the highest."""
        wanted = [self.partition or 0] if self.partitions is None else [each or 0 for each in self.partitions]
        return min(wanted) if min(wanted) < 0 else max(wanted)

    def wants_only(self, partition_count: int) -> bool:
        """Return whether all partitions asked for are below `partition_count`."""
        return (self.partition is None and self.partitions is None) or 0 <= self.strangest_partition < partition_count

    def refuse_strangers(self, partition_count: int, error: LograftError) -> None:
        """Fail the records that ask for partitions from `partition_count` on, and those alone."""
        wanted: Sequence[int | None] = self.partitions or [self.partition] * len(self)
        for index, partition in enumerate(wanted):
            if partition is not None and not 0 <= partition < partition_count:
                self.refused[index] = error
        self.partition, self.partitions = (
            None,
            [None if index in self.refused else each for index, each in enumerate(wanted)],
        )

    # -- what became of it

    def placed(self, groups: dict[int, PartitionSlice], group_of: Sequence[int] | None) -> None:
        """All records that are not refused are in batches. `group_of` has the slice of each record; None: there is only
        one."""
        self._group_of = group_of
        self._groups = groups
        self._let_go()

    def fail(self, error: LograftError) -> None:
        """Fail all records: none was taken."""
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
        """The batches that its records are in; one may come more than once."""
        for group in (self._groups or {}).values():
            for piece in group.batches:
                yield piece.batch

    # -- one record

    def is_known(self, index: int) -> bool:
        """Return whether a record's result is known."""
        if not self.is_placed:
            return False
        found = self._find(index)
        return isinstance(found, LograftError) or found[0].is_settled

    def result(self, index: int) -> RecordMetadata | LograftError:
        """Return a record's result, once it is known."""
        found = self._find(index)
        return found if isinstance(found, LograftError) else found[0].result(found[1])

    def listen(self, index: int, listener: Callable[[], object]) -> None:
        """Call `listener` when the record's result is known: at once, if it is."""
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
        """Call `listener` when all results are known: at once, if they are."""
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
        """Yield the results, once all are known: how many records share a result, and the first one's."""
        if self._error is not None:
            yield len(self), self._error
        for error in self.refused.values():
            yield 1, error
        for group in (self._groups or {}).values():
            ends = [*(piece.start for piece in group.batches[1:]), len(group.indices)]
            for piece, end in zip(group.batches, ends, strict=True):
                yield from piece.batch.results(piece.first, end - piece.start)
