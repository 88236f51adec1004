"""Records on their way to one partition: filled by `send`, then sent as one batch until its fate is known. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from lograft.clients.errors import LograftError
from lograft.clients.topic_partition import RecordMetadata

HeaderPairs: TypeAlias = Sequence[tuple[str, bytes | None]]

BATCH_OVERHEAD_BYTES = 160
"""Header, section table and padding, at most."""

_RECORD_OVERHEAD_BYTES = 16  # timestamp delta, and the offsets of key and value
_HEADER_OVERHEAD_BYTES = 8


class PartitionKey(NamedTuple):
    """A partition of a topic that is meant by its id: one of the same name, created later, is another."""

    topic_id: bytes
    partition: int


class SequenceStart(NamedTuple):
    """The producer and the number that the first record of a batch is sent under."""

    producer_id: int
    epoch: int
    base: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The batch is in the log. `append_time`: the timestamp that all its records were given, if they were.
    `leader_epoch`: of the leader that says so, if it was asked for one."""

    base_offset: int
    append_time: int | None = None
    leader_epoch: int | None = None


Outcome: TypeAlias = Stored | LograftError


def record_bytes(key: bytes | None, value: bytes | None, headers: HeaderPairs) -> int:
    """About how much of a batch a record takes; not less than it does."""
    size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size


@dataclass(slots=True, eq=False)
class PendingBatch:
    """Invariant: the columns are of one length. `order` says which of two batches of a partition was first filled.

    `sequence` is given when it is first sent, and kept for as long as it may be in the log. `in_doubt`: some attempt
    may have stored it. `outcome` is set once, for good.
    """

    topic: str
    partition_key: PartitionKey
    order: tuple[int, ...]
    created_ms: int
    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[HeaderPairs] = field(default_factory=list)
    size_bytes: int = BATCH_OVERHEAD_BYTES
    has_headers: bool = False
    sequence: SequenceStart | None = None
    ticket: int = -1  # how many batches of the partition were given a sequence before it
    encoded: bytes | None = None
    in_doubt: bool = False
    outcome: Outcome | None = None
    halves: "tuple[PendingBatch, PendingBatch] | None" = None
    _listeners: list[Callable[[], object]] = field(default_factory=list)

    @property
    def record_count(self) -> int:
        return len(self.timestamps)

    @property
    def records_bytes(self) -> int:
        """Of all records, as `record_bytes` has it."""
        return self.size_bytes - BATCH_OVERHEAD_BYTES

    def add(self, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderPairs, size_bytes: int) -> int:
        """The record's place in the batch."""
        self.values.append(value)
        self.keys.append(key)
        self.timestamps.append(timestamp)
        self.headers.append(headers)
        self.has_headers = self.has_headers or bool(headers)
        self.size_bytes += size_bytes
        return len(self.timestamps) - 1

    def split(self) -> "tuple[PendingBatch, PendingBatch]":
        """Two batches instead of this one; whoever asks about a record here is told of its half."""
        middle = self.record_count // 2
        assert middle > 0
        self.halves = (self._part(0, slice(None, middle)), self._part(1, slice(middle, None)))
        for half in self.halves:
            half._listeners = [self._half_settled]
        self._let_go()
        return self.halves

    def _part(self, number: int, part: slice) -> "PendingBatch":
        half = PendingBatch(self.topic, self.partition_key, (*self.order, number), self.created_ms)
        for record in zip(self.keys[part], self.values[part], self.timestamps[part], self.headers[part], strict=True):
            half.add(*record, size_bytes=record_bytes(record[0], record[1], record[3]))
        return half

    # -- the end

    @property
    def is_settled(self) -> bool:
        if self.halves is not None:
            return all(half.is_settled for half in self.halves)
        return self.outcome is not None

    def settle(self, outcome: Outcome) -> None:
        """What became of it; whoever listens is told. All of the records is let go but their timestamps."""
        assert self.outcome is None, "settled twice"
        assert self.halves is None, "settled whole after it was split"
        self.outcome = outcome
        self._let_go()
        self._tell()

    def _let_go(self) -> None:
        self.encoded = None
        self.values, self.keys, self.headers = [], [], []

    def _half_settled(self) -> None:
        if self.is_settled:
            self._tell()

    def _tell(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the fate of all records is known; it is not known yet."""
        assert not self.is_settled
        self._listeners.append(listener)

    def result(self, index: int) -> RecordMetadata | LograftError:
        """What became of one record, once the batch is settled."""
        if self.halves is not None:
            first, second = self.halves
            count = first.record_count
            return first.result(index) if index < count else second.result(index - count)
        outcome = self.outcome
        assert outcome is not None, "not settled"
        if isinstance(outcome, LograftError):
            return outcome
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        timestamp = self.timestamps[index] if outcome.append_time is None else outcome.append_time
        return RecordMetadata(self.topic, self.partition_key.partition, offset, timestamp)
