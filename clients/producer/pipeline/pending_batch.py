"""A batch of records for one partition: filled by `send`, then sent until its outcome is known. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lograft.clients.errors import LograftError
from lograft.clients.records.list_columns import HeaderPairs, ListColumns
from lograft.clients.types import RecordMetadata
from lograft.storage.batch.codec import Compression, encode_arrow, encode_batch

if TYPE_CHECKING:  # it imports Arrow, which is slow and not always needed
    from lograft.clients.records.arrow_columns import ArrowColumns

BatchColumns: TypeAlias = "ListColumns | ArrowColumns"
"""The records of a batch."""

BATCH_OVERHEAD_BYTES = 320
"""An upper bound for header, section table and padding."""


class PartitionKey(NamedTuple):
    """A partition, identified by topic id, since a recreated topic of the same name is a different one."""

    topic_id: bytes
    partition: int


class SequenceStart(NamedTuple):
    """The producer id and epoch of a batch, and the sequence number of its first record."""

    producer_id: int
    epoch: int
    base: int


NO_SEQUENCE = SequenceStart(-1, -1, -1)

BatchContents: TypeAlias = tuple[BatchColumns, SequenceStart]
"""The input for encoding a batch. Its columns do not change after it was taken; its sequence may."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The batch is in the log. `append_time`: the timestamp that the broker set on all its records, if it did.
    `leader_epoch`: the epoch of the leader it was sent to, if known."""

    base_offset: int
    append_time: int | None = None
    leader_epoch: int | None = None


Outcome: TypeAlias = Stored | LograftError


@dataclass(slots=True, eq=False)
class PendingBatch:
    """`order` sorts a partition's batches by when they were filled.

    `sequence` is assigned when the batch is first sent, and kept as long as it may be in the log. `in_doubt`: an
    attempt may have stored it. `outcome` is set once. `behind`: the previously filled batch of the topic's records
    without a fixed partition, if this batch has such records, too; cleared once this one is sent.
    """

    topic: str
    partition_key: PartitionKey
    order: tuple[int, ...]
    created_ms: int
    columns: BatchColumns = field(default_factory=ListColumns)
    sequence: SequenceStart | None = None
    ticket: int = -1  # how many batches of the partition got a sequence before it
    encoded: bytes | None = None
    in_doubt: bool = False
    attempts: int = 0  # how often it was sent
    outcome: Outcome | None = None
    halves: "tuple[PendingBatch, PendingBatch] | None" = None
    behind: "PendingBatch | None" = None
    _listeners: list[Callable[[], object]] = field(default_factory=list)

    @property
    def record_count(self) -> int:
        return len(self.columns)

    @property
    def size_bytes(self) -> int:
        return BATCH_OVERHEAD_BYTES + self.columns.size_bytes

    @property
    def contents(self) -> BatchContents:
        return self.columns, self.sequence or NO_SEQUENCE

    def add(self, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderPairs, size_bytes: int) -> int:
        """Add a record, and return its index in the batch."""
        assert isinstance(self.columns, ListColumns)
        self.columns.add(key, value, timestamp, headers, size_bytes)
        return len(self.columns) - 1

    def split(self) -> "tuple[PendingBatch, PendingBatch]":
        """Replace this batch with two halves. Listeners of this batch are called when both are settled."""
        middle = self.record_count // 2
        assert middle > 0
        self.halves = (self._part(0, 0, middle), self._part(1, middle, self.record_count))
        for half in self.halves:
            half._listeners = [self._half_settled]
        self._let_go()
        return self.halves

    def _part(self, number: int, start: int, end: int) -> "PendingBatch":
        columns = self.columns.part(start, end)
        return PendingBatch(self.topic, self.partition_key, (*self.order, number), self.created_ms, columns)

    # -- the end

    @property
    def is_settled(self) -> bool:
        if self.halves is not None:
            return all(half.is_settled for half in self.halves)
        return self.outcome is not None

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome, release the records except for their timestamps, and call the listeners."""
        assert self.outcome is None, "settled twice"
        assert self.halves is None, "settled whole after it was split"
        self.outcome = outcome
        self._let_go()
        self._tell()

    def _let_go(self) -> None:
        self.encoded = self.behind = None
        self.columns = self.columns.only_timestamps()

    def _half_settled(self) -> None:
        if self.is_settled:
            self._tell()

    def _tell(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def is_known(self, _index: int) -> bool:
        """Return True if a record's result is known."""
        return self.is_settled

    def listen(self, _index: int, listener: Callable[[], object]) -> None:
        """Call `listener` when a record's result is known, as soon as the whole batch is settled; at once if it is."""
        if self.is_settled:
            listener()
        else:
            self._listeners.append(listener)

    def results(self, first: int, count: int) -> Iterator[tuple[int, RecordMetadata | LograftError]]:
        """Yield the results of `count` records of a settled batch: pairs of how many records share a result, and the
        first one's result."""
        if self.halves is None:
            yield count, self.result(first)
            return
        middle = self.halves[0].record_count
        if first < middle:
            yield from self.halves[0].results(first, min(count, middle - first))
        if first + count > middle:
            skipped = max(middle - first, 0)
            yield from self.halves[1].results(first + skipped - middle, count - skipped)

    def result(self, index: int) -> RecordMetadata | LograftError:
        """Return the result of one record of a settled batch."""
        if self.halves is not None:
            first, second = self.halves
            count = first.record_count
            return first.result(index) if index < count else second.result(index - count)
        outcome = self.outcome
        assert outcome is not None, "not settled"
        if isinstance(outcome, LograftError):
            return outcome
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        timestamp = self.columns.timestamp(index) if outcome.append_time is None else outcome.append_time
        return RecordMetadata(self.topic, self.partition_key.partition, offset, timestamp)


def encode(contents: Sequence[BatchContents], compression: Compression) -> list[bytes]:
    """Return the encoded batches. Uses no state of the loop, so it may run on another thread."""
    return [_encode(columns, sequence, compression) for columns, sequence in contents]


def _encode(columns: BatchColumns, sequence: SequenceStart, compression: Compression) -> bytes:
    if isinstance(columns, ListColumns):
        return encode_batch(
            columns.values,
            keys=columns.keys,
            timestamps=columns.timestamps,
            headers=columns.headers,
            compression=compression,
            producer_id=sequence.producer_id,
            producer_epoch=sequence.epoch,
            base_sequence=sequence.base,
        )
    return encode_arrow(
        columns.values,
        keys=columns.keys,
        timestamps=columns.timestamps,
        headers=columns.headers,
        compression=compression,
        producer_id=sequence.producer_id,
        producer_epoch=sequence.epoch,
        base_sequence=sequence.base,
    )
