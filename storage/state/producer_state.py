"""The state of a partition's idempotent producers, by which a batch sent twice is stored once. Pure.

Per producer: its epoch and its last five batches with their offsets. The state follows from the log alone: recovery
rebuilds it from a snapshot and later batches, the log replicates it, and truncation cuts it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lograft.storage.batch.header import BatchHeader
from lograft.storage.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer

WINDOW_BATCHES = 5
NO_PRODUCER = -1
EXPIRY_MS = 24 * 3600 * 1000
SEQUENCE_MASK = 0x7FFFFFFF

_PRODUCER = struct.Struct(">qhB")
_BATCH = struct.Struct(">iiqq")


class SequencedBatch(NamedTuple):
    """Where a producer's batch was stored."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """One producer. Invariant: `batches` has at most five, in the order of the log."""

    epoch: int
    batches: list[SequencedBatch]
    seen_ms: int  # by the broker's monotonic clock: clients choose record timestamps

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


class ProducerState:
    """All producers of one partition."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def entries(self) -> Iterator[tuple[int, ProducerEntry]]:
        yield from self._producers.items()

    def check(self, header: BatchHeader) -> SequencedBatch | None:
        """Check a batch the leader wants to append. Return None if it may, the stored batch if it is a duplicate; else
        raise a ProducerError."""
        if header.producer_id == NO_PRODUCER:
            return None
        entry = self._producers.get(header.producer_id)
        if entry is None:
            if header.base_sequence != 0:
                raise UnknownProducer(
                    f"producer {header.producer_id} is not known, and its sequence is {header.base_sequence}, not 0"
                )
            return None
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {entry.epoch}, and the batch has {header.producer_epoch}"
            )
        if header.producer_epoch > entry.epoch:
            expected = 0
        else:
            for batch in entry.batches:
                if (batch.base_sequence, batch.last_sequence) == (header.base_sequence, header.last_sequence):
                    return batch
            expected = (entry.batches[-1].last_sequence + 1) & SEQUENCE_MASK if entry.batches else 0
        if header.base_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} was next"
            )
        return None

    def update(self, header: BatchHeader, now_ms: int) -> None:
        """Record a batch that is in the log with its final offsets."""
        if header.producer_id == NO_PRODUCER:
            return
        batch = SequencedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
        entry = self._producers.get(header.producer_id)
        # A falling epoch was accepted by a leader that had expired the producer: drop the older state.
        if entry is None or header.producer_epoch != entry.epoch:
            self._producers[header.producer_id] = ProducerEntry(header.producer_epoch, [batch], now_ms)
            return
        entry.batches.append(batch)
        del entry.batches[:-WINDOW_BATCHES]
        entry.seen_ms = now_ms

    def expire(self, now_ms: int) -> None:
        """Forget producers not heard of for 24 hours."""
        cutoff_ms = now_ms - EXPIRY_MS
        for producer_id in [key for key, entry in self._producers.items() if entry.seen_ms < cutoff_ms]:
            del self._producers[producer_id]

    def last_offsets(self) -> dict[int, int]:
        """Return each live producer's last stored offset: compaction keeps the batches that end there."""
        return {producer_id: entry.last_offset for producer_id, entry in self._producers.items()}

    def encode(self) -> bytes:
        """Return the state as bytes; `seen_ms` is left out: it is meaningless to another process."""
        parts = []
        for producer_id, entry in self._producers.items():
            parts.append(_PRODUCER.pack(producer_id, entry.epoch, len(entry.batches)))
            parts.extend(_BATCH.pack(*batch) for batch in entry.batches)
        return b"".join(parts)

    @classmethod
    def decode(cls, content: bytes, now_ms: int) -> "ProducerState":
        """Return the inverse of `encode`; every producer counts as seen now. `ValueError` if malformed."""
        state = cls()
        position = 0
        try:
            while position < len(content):
                producer_id, epoch, count = _PRODUCER.unpack_from(content, position)
                position += _PRODUCER.size
                batches = [
                    SequencedBatch(*_BATCH.unpack_from(content, position + i * _BATCH.size)) for i in range(count)
                ]
                position += count * _BATCH.size
                state._producers[producer_id] = ProducerEntry(epoch, batches, now_ms)
        except struct.error as error:
            raise ValueError(f"producer snapshot is cut short: {error}") from None
        return state
