"""The batches of one partition, from the first record to the last answer: their order, sequences and results. Pure.

Sequences keep the order. The broker stores a batch only after its predecessor, and recognizes duplicates. So up to five
batches may be in flight; failed batches are retried under the same sequence; and a batch that arrives out of order is
refused and retried in its turn.

A batch that is given up without certainly being stored leaves a hole: the batches after it cannot be stored under their
sequences. So all batches that may be in the log are settled first, and all others are renumbered in the next epoch.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from lograft.clients.errors import (
    BatchTooLarge,
    ConnectionLost,
    DeliveryTimedOut,
    DuplicateSequence,
    LograftError,
    OutOfOrderSequence,
    UnknownProducerId,
)
from lograft.clients.producer.pipeline.pending_batch import PendingBatch, SequenceStart, Stored
from lograft.runtime.tasks.retry import ExponentialWait

MAX_IN_FLIGHT = 5
"""The number of batches that a broker remembers per producer."""

MAX_EPOCH = 2**15 - 1
_SEQUENCE_MASK = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The result of InitProducer: a unique id and its first epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """`linger_ms`: how long a batch that is not full waits for more records. `hold_ms`: the minimum wait while another
    batch is in flight. `retry_first_ms`, `retry_last_ms`: the delay after a refusal, which doubles each time."""

    linger_ms: float = 0
    hold_ms: float = 5
    delivery_timeout_ms: int = 120_000
    max_in_flight: int = MAX_IN_FLIGHT
    retry_first_ms: int = 20
    retry_last_ms: int = 500


class PartitionQueue:
    """Invariants: `waiting` and `in_flight` are in the order in which batches were filled; in `waiting`, batches with a
    sequence come first. Methods that settle batches return them."""

    def __init__(self, limits: QueueLimits) -> None:
        self.filling: PendingBatch | None = None
        self.waiting: deque[PendingBatch] = deque()
        self.in_flight: list[PendingBatch] = []
        self.used_up_id: int | None = None  # a producer id that has no epochs left in this partition
        self.trouble = ""  # why the last attempt failed, for error messages
        self._limits = limits
        self._identity: ProducerIdentity | None = None  # its epoch is incremented per partition
        self._next_sequence = 0
        self._tickets = 0
        self._has_hole = False
        self._leader_epoch = -1
        self._retry_at_ms: float = 0
        self._retry_wait = ExponentialWait(None, limits.retry_first_ms, limits.retry_last_ms)

    def __iter__(self) -> Iterator[PendingBatch]:
        yield from self.in_flight
        yield from self.waiting
        if self.filling is not None:
            yield self.filling

    @property
    def is_empty(self) -> bool:
        return self.filling is None and not self.waiting and not self.in_flight

    def close_filling(self) -> None:
        """Close the batch being filled, so that it takes no more records."""
        if self.filling is not None:
            self.waiting.append(self.filling)
            self.filling = None

    # -- sending

    def sendable_at_ms(self) -> float | None:
        """Return when `take` will return a batch; None if another event has to come first."""
        if len(self.in_flight) >= self._limits.max_in_flight:
            return None
        if self._next_waiting() is not None:
            return self._retry_at_ms
        if self.filling is not None and not self.waiting and not self._has_hole and self._may_number:
            return max(self._retry_at_ms, self.filling.created_ms + self._patience_ms)
        return None

    @property
    def _patience_ms(self) -> float:
        """How long the batch being filled waits. A message costs the same whatever its size, here and on every replica.
        So a batch that is not full is sent at once if nothing is in flight; under load, it waits to collect more
        records. An unsettled `behind` batch counts as in flight, too: otherwise records without a key, spread over many
        partitions, would make that many more batches."""
        limits = self._limits
        batch = self.filling
        is_behind = batch is not None and batch.behind is not None and not batch.behind.is_settled
        return max(limits.linger_ms, limits.hold_ms) if self.in_flight or is_behind else limits.linger_ms

    def _next_waiting(self) -> PendingBatch | None:
        """Return the next waiting batch. While there is a hole, only batches that may be in the log are sent again, to
        settle them."""
        batch = next((batch for batch in self.waiting if batch.in_doubt or not self._has_hole), None)
        return batch if batch is not None and (batch.sequence is not None or self._may_number) else None

    @property
    def _may_number(self) -> bool:
        """True if another batch may get a sequence. A broker only remembers the latest batches, and must not forget an
        unsettled one."""
        unsettled = [*self.in_flight, *([self.waiting[0]] if self.waiting else ())]
        oldest = min((each.ticket for each in unsettled if each.sequence is not None), default=self._tickets)
        return self._tickets - oldest < self._limits.max_in_flight

    def take(self, now_ms: int, identity: ProducerIdentity | None) -> PendingBatch | None:
        """Return the next batch to send, and count it as in flight. Without an `identity`, batches have no sequence."""
        at_ms = self.sendable_at_ms()
        if at_ms is None or now_ms < at_ms:
            return None
        if not self.waiting:
            self.close_filling()
        batch = self._next_waiting()
        assert batch is not None
        if batch.sequence is None and identity is not None:
            self._number(batch, identity)
        self.waiting.remove(batch)
        self.in_flight.append(batch)
        batch.behind = None
        return batch

    @property
    def next_bytes(self) -> int:
        """The approximate size of the batch that `take` would return."""
        batch = self._next_waiting() if self.waiting else self.filling
        return batch.size_bytes if batch is not None else 0

    def _number(self, batch: PendingBatch, identity: ProducerIdentity) -> None:
        if self._identity is None:
            assert identity.producer_id != self.used_up_id
            self._identity, self._next_sequence = identity, 0
        batch.sequence = SequenceStart(self._identity.producer_id, self._identity.epoch, self._next_sequence)
        self._next_sequence = (self._next_sequence + batch.record_count) & _SEQUENCE_MASK
        batch.ticket = self._tickets
        self._tickets += 1

    def leader_seen(self, epoch: int) -> None:
        """Retry at once if a new leader was elected."""
        if epoch > self._leader_epoch:
            self._leader_epoch = epoch
            self._retry_at_ms = 0
            self._retry_wait.succeeded()

    # -- results of batches in flight

    def stored(self, batch: PendingBatch, stored: Stored) -> list[PendingBatch]:
        """Settle the batch as stored."""
        self.in_flight.remove(batch)
        self._retry_wait.succeeded()
        self.trouble = ""
        batch.settle(stored)
        self._mend()
        return [batch]

    def not_sent(self, batch: PendingBatch) -> None:
        """Return a batch that was not sent to the waiting ones."""
        self._wait_again(batch)

    def lost(self, batch: PendingBatch) -> list[PendingBatch]:
        """Handle the loss of the connection or leader that the batch was sent to: it may be stored or not."""
        if batch.sequence is None:  # the broker would not recognize a retry as a duplicate
            self.in_flight.remove(batch)
            batch.settle(ConnectionLost("the connection was lost while it was sent: it may be stored or not"))
            return [batch]
        batch.in_doubt = True
        self._wait_again(batch)
        return []

    def refused(self, batch: PendingBatch, error: LograftError, now_ms: int) -> list[PendingBatch]:
        """Handle the broker's `error`: settle, split, or retry the batch."""
        self.trouble = str(error)
        if isinstance(error, DuplicateSequence):
            return self.stored(batch, Stored(-1))
        if isinstance(error, OutOfOrderSequence | UnknownProducerId):
            return self._missed_before(batch, error, now_ms)
        if isinstance(error, BatchTooLarge) and batch.record_count > 1 and not batch.in_doubt:
            self._split(batch)
        elif error.retriable:
            batch.in_doubt = batch.in_doubt or error.outcome_unknown
            self._wait_again(batch)
            self._back_off(now_ms)
        else:
            self.in_flight.remove(batch)
            self._give_up(batch, _in_doubt(error) if batch.in_doubt else error)
            self._mend()
            return [batch]
        return []

    def _missed_before(self, batch: PendingBatch, error: LograftError, now_ms: int) -> list[PendingBatch]:
        """Handle a leader that lacks the batch's predecessor. That leader has not stored the batch, or it would have
        recognized it, but a former leader that may lead again could have stored it. Renumbering a batch in doubt would
        risk a duplicate."""
        if not any(other.order < batch.order for other in self):
            self._has_hole = True  # the predecessors were forgotten, or lost with another leader
        if self._has_hole and batch.in_doubt:
            self.in_flight.remove(batch)
            self._give_up(batch, _in_doubt(error))
            self._mend()
            return [batch]
        self._wait_again(batch)
        self._back_off(now_ms)
        return []

    def _back_off(self, now_ms: int) -> None:
        """Wait longer after each failure, counting batches refused together once."""
        if now_ms >= self._retry_at_ms:
            self._retry_at_ms = now_ms + self._retry_wait.next_ms()

    def _wait_again(self, batch: PendingBatch) -> None:
        self.in_flight.remove(batch)
        self._insert(batch)
        self._mend()

    def _insert(self, batch: PendingBatch) -> None:
        """Insert the batch at its place in the order of `waiting`."""
        position = sum(other.order < batch.order for other in self.waiting)
        self.waiting.insert(position, batch)

    def _split(self, batch: PendingBatch) -> None:
        """Replace a batch that is too large for the topic with two halves, which will be renumbered."""
        self.in_flight.remove(batch)
        for half in batch.split():
            self._insert(half)
        self._has_hole = self._has_hole or batch.sequence is not None
        self._mend()

    def _mend(self) -> None:
        """Close the hole once no unsettled batch may be in the log: renumber the waiting batches in a new epoch."""
        if not self._has_hole or self.in_flight or any(batch.in_doubt for batch in self.waiting):
            return
        self._has_hole = False
        self._next_sequence = 0
        for batch in self.waiting:
            batch.sequence, batch.encoded = None, None
        own = self._identity
        assert own is not None, "a hole in sequences that there are none of"
        if own.epoch < MAX_EPOCH:
            self._identity = ProducerIdentity(own.producer_id, own.epoch + 1)
        else:
            self._identity, self.used_up_id = None, own.producer_id

    # -- giving up

    def expire(self, now_ms: int) -> list[PendingBatch]:
        """Give up batches that were not acknowledged in time."""
        timeout_ms = self._limits.delivery_timeout_ms
        expired = [batch for batch in self if batch.created_ms + timeout_ms <= now_ms]
        if not expired:
            return []
        why = f" ({self.trouble})" if self.trouble else ""
        late = f"not acknowledged within {timeout_ms} ms{why}"
        error = DeliveryTimedOut(f"{late}: it is not stored", outcome_unknown=False)
        in_doubt = DeliveryTimedOut(f"{late}: it may be stored or not", outcome_unknown=True)
        return self._abandon(expired, error, in_doubt)

    def expires_at_ms(self) -> int | None:
        """Return when `expire` next has something to do; None if there are no batches."""
        oldest = [*self.in_flight, *([self.waiting[0]] if self.waiting else ())]
        if self.filling is not None:
            oldest.append(self.filling)
        oldest_ms = min((batch.created_ms for batch in oldest), default=None)
        return None if oldest_ms is None else oldest_ms + self._limits.delivery_timeout_ms

    def abandon(self, error: LograftError) -> list[PendingBatch]:
        """Give up all batches. `error` is for those that are certainly not stored."""
        return self._abandon(list(self), error, _in_doubt(error))

    def _abandon(self, batches: list[PendingBatch], error: LograftError, in_doubt: LograftError) -> list[PendingBatch]:
        for batch in batches:
            if batch is self.filling:
                self.filling = None
                self._give_up(batch, error)
            elif batch in self.in_flight:
                self.in_flight.remove(batch)
                self._give_up(batch, in_doubt)
            else:
                self.waiting.remove(batch)
                self._give_up(batch, in_doubt if batch.in_doubt else error)
        self._mend()
        return batches

    def _give_up(self, batch: PendingBatch, error: LograftError) -> None:
        self._has_hole = self._has_hole or batch.sequence is not None
        batch.settle(error)


def _in_doubt(error: LograftError) -> LograftError:
    """Return the error for a batch that an earlier attempt may have stored."""
    if error.outcome_unknown:
        return error
    return type(error)(f"{error.message} (an earlier attempt may have stored it)", outcome_unknown=True)
