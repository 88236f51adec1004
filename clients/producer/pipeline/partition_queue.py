"""The batches of one partition, from the first record to the last answer: their order, sequences and results. Pure.

Sequences keep the order. The broker stores a batch only after the one before it, and recognises one that it has. So
up to five may be in flight; batches that fail are sent again under the same sequence; and a batch that arrives
before its turn is refused, and waits for it.

A batch that leaves without having certainly been stored leaves a hole: the batches behind it cannot be stored under
their sequences. So all batches that may be in the log are settled first, and all others are renumbered in the next
epoch.
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
"""As many as a broker remembers of each producer."""

MAX_EPOCH = 2**15 - 1
_SEQUENCE_MASK = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What InitProducer gave: an id of our own, and its first epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """`linger_ms`: how long a batch that is not full waits for more records. `hold_ms`: how long it does while another
    is under way, at least. `retry_first_ms`, `retry_last_ms`: how long to wait after a refusal, doubling each time."""

    linger_ms: float = 0
    hold_ms: float = 5
    delivery_timeout_ms: int = 120_000
    max_in_flight: int = MAX_IN_FLIGHT
    retry_first_ms: int = 20
    retry_last_ms: int = 500


class PartitionQueue:
    """Invariants: `waiting` and `in_flight` are in the order in which batches were filled; of those that wait, the ones
    that have a sequence come first. Methods that settle batches return them."""

    def __init__(self, limits: QueueLimits) -> None:
        self.filling: PendingBatch | None = None
        self.waiting: deque[PendingBatch] = deque()
        self.in_flight: list[PendingBatch] = []
        self.used_up_id: int | None = None  # a producer id that has no epochs left here
        self.trouble = ""  # why the last attempt failed, for people
        self._limits = limits
        self._identity: ProducerIdentity | None = None  # of this partition: its epoch is counted up here
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
        """The batch that is being filled takes no more."""
        if self.filling is not None:
            self.waiting.append(self.filling)
            self.filling = None

    # -- sending

    def sendable_at_ms(self) -> float | None:
        """From when on `take` gives a batch, unless something happens before. None: not until something does."""
        if len(self.in_flight) >= self._limits.max_in_flight:
            return None
        if self._next_waiting() is not None:
            return self._retry_at_ms
        if self.filling is not None and not self.waiting and not self._has_hole and self._may_number:
            return max(self._retry_at_ms, self.filling.created_ms + self._patience_ms)
        return None

    @property
    def _patience_ms(self) -> float:
        """Of the batch that is being filled. A message costs the same whatever its size, here and on every replica: so
        one that is not full goes when nothing is under way, and under load what comes meanwhile goes together. The
        batch that it is `behind` counts, too: spread over many partitions, there would be as many times the batches."""
        limits = self._limits
        batch = self.filling
        is_behind = batch is not None and batch.behind is not None and not batch.behind.is_settled
        return max(limits.linger_ms, limits.hold_ms) if self.in_flight or is_behind else limits.linger_ms

    def _next_waiting(self) -> PendingBatch | None:
        """While there is a hole, only what may be in the log is sent, to find out."""
        batch = next((batch for batch in self.waiting if batch.in_doubt or not self._has_hole), None)
        return batch if batch is not None and (batch.sequence is not None or self._may_number) else None

    @property
    def _may_number(self) -> bool:
        """A broker remembers only the latest batches: none may be sent that would make it forget an unsettled one."""
        unsettled = [*self.in_flight, *([self.waiting[0]] if self.waiting else ())]
        oldest = min((each.ticket for each in unsettled if each.sequence is not None), default=self._tickets)
        return self._tickets - oldest < self._limits.max_in_flight

    def take(self, now_ms: int, identity: ProducerIdentity | None) -> PendingBatch | None:
        """The next batch to be sent; it counts as under way. Without an `identity` batches have no sequence."""
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
        """About the size of the batch that `take` would give."""
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
        """A new leader was elected: retry at once."""
        if epoch > self._leader_epoch:
            self._leader_epoch = epoch
            self._retry_at_ms = 0
            self._retry_wait.succeeded()

    # -- what became of a batch under way

    def stored(self, batch: PendingBatch, stored: Stored) -> list[PendingBatch]:
        """The broker has stored the batch."""
        self.in_flight.remove(batch)
        self._retry_wait.succeeded()
        self.trouble = ""
        batch.settle(stored)
        self._mend()
        return [batch]

    def not_sent(self, batch: PendingBatch) -> None:
        """The batch was taken but not sent."""
        self._wait_again(batch)

    def lost(self, batch: PendingBatch) -> list[PendingBatch]:
        """The connection or the leader it was sent to is gone: the batch may be stored or not."""
        if batch.sequence is None:  # sent again, it would not be recognised
            self.in_flight.remove(batch)
            batch.settle(ConnectionLost("the connection was lost while it was sent: it may be stored or not"))
            return [batch]
        batch.in_doubt = True
        self._wait_again(batch)
        return []

    def refused(self, batch: PendingBatch, error: LograftError, now_ms: int) -> list[PendingBatch]:
        """The broker answered with `error`."""
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
        """The leader misses what comes before the batch. It has not stored it either, or would have recognised it; but
        another may have, that led before and will again. Numbered anew it would be there twice."""
        if not any(other.order < batch.order for other in self):
            self._has_hole = True  # what came before was forgotten, or lost with another leader
        if self._has_hole and batch.in_doubt:
            self.in_flight.remove(batch)
            self._give_up(batch, _in_doubt(error))
            self._mend()
            return [batch]
        self._wait_again(batch)
        self._back_off(now_ms)
        return []

    def _back_off(self, now_ms: int) -> None:
        """Wait longer after each failure, once for all batches that are refused together."""
        if now_ms >= self._retry_at_ms:
            self._retry_at_ms = now_ms + self._retry_wait.next_ms()

    def _wait_again(self, batch: PendingBatch) -> None:
        self.in_flight.remove(batch)
        self._insert(batch)
        self._mend()

    def _insert(self, batch: PendingBatch) -> None:
        """To where it belongs among those that wait."""
        position = sum(other.order < batch.order for other in self.waiting)
        self.waiting.insert(position, batch)

    def _split(self, batch: PendingBatch) -> None:
        """Too large for the topic: two halves take its place, to be numbered anew."""
        self.in_flight.remove(batch)
        for half in batch.split():
            self._insert(half)
        self._has_hole = self._has_hole or batch.sequence is not None
        self._mend()

    def _mend(self) -> None:
        """Once nothing is left that may be in the log: what waits is numbered anew, in an epoch of its own."""
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
        """When `expire` has something to do; None if there is nothing to wait for."""
        oldest = [*self.in_flight, *([self.waiting[0]] if self.waiting else ())]
        if self.filling is not None:
            oldest.append(self.filling)
        oldest_ms = min((batch.created_ms for batch in oldest), default=None)
        return None if oldest_ms is None else oldest_ms + self._limits.delivery_timeout_ms

    def abandon(self, error: LograftError) -> list[PendingBatch]:
        """Give up all there is; `error` is that of a batch which is certainly not stored."""
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
    """The same for a batch that an earlier attempt may have stored."""
    if error.outcome_unknown:
        return error
    return type(error)(f"{error.message} (an earlier attempt may have stored it)", outcome_unknown=True)
