"""A producer's unacknowledged records: collects them in a batch per partition, and keeps each batch until it has a
result. Pure.

The accumulator decides which batches can be sent; the sender decides where, and reports the results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lograft.clients.errors import LograftError
from lograft.clients.producer.pipeline.partition_queue import PartitionQueue, ProducerIdentity, QueueLimits
from lograft.clients.producer.pipeline.pending_batch import (
    BATCH_OVERHEAD_BYTES,
    BatchColumns,
    PartitionKey,
    PendingBatch,
    Stored,
)
from lograft.clients.producer.pipeline.submission import RecordColumns
from lograft.clients.records.list_columns import HeaderPairs, ListColumns, SizedLists, record_bytes


@dataclass(frozen=True, slots=True)
class AccumulatorLimits:
    """`batch_bytes`: the size at which a batch is sent; a single record may exceed it. `buffer_bytes`: the limit for
    all records."""

    batch_bytes: int = 512 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    queue: QueueLimits = field(default_factory=QueueLimits)


class Accumulator:
    """`is_idempotent`: batches have sequences, so they are only sent once there is a producer id."""

    def __init__(self, limits: AccumulatorLimits, *, is_idempotent: bool) -> None:
        self._limits = limits
        self._is_idempotent = is_idempotent
        self._identity: ProducerIdentity | None = None
        self._queues: dict[PartitionKey, PartitionQueue] = {}
        self._busy: dict[PartitionKey, PartitionQueue] = {}  # those that have batches
        self._batches = 0
        self.buffered_bytes = 0
        self.when_settled: Callable[[PendingBatch], None] | None = None

    def __iter__(self) -> Iterator[PendingBatch]:
        """Yield all batches without a result."""
        for queue in self._busy.values():
            yield from queue

    @property
    def partitions(self) -> list[PartitionKey]:
        """The partitions that have batches."""
        return list(self._busy)

    def queue(self, partition_key: PartitionKey) -> PartitionQueue | None:
        """Return the partition's queue if it has batches. Only the accumulator's methods may remove batches from it,
        because they count the bytes."""
        return self._busy.get(partition_key)

    # -- records in

    def has_room(self, size_bytes: int) -> bool:
        """Return True if a record of this size fits. One larger than the buffer fits if the buffer is empty."""
        return self.buffered_bytes == 0 or self.buffered_bytes + size_bytes <= self._limits.buffer_bytes

    def append(
        self,
        partition_key: PartitionKey,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderPairs,
        now_ms: int,
    ) -> tuple[PendingBatch, int]:
        """Add a record to a batch. Return the batch, and the record's index there."""
        queue = self._busy_queue(partition_key)
        size_bytes = record_bytes(key, value, headers)
        batch = queue.filling
        if batch is not None and batch.size_bytes + size_bytes > self._limits.batch_bytes:
            queue.close_filling()
            batch = None
        if batch is None:
            batch = queue.filling = self._new_batch(partition_key, topic, ListColumns(), now_ms)
        index = batch.add(key, value, timestamp, headers, size_bytes)
        self.buffered_bytes += size_bytes
        if batch.size_bytes >= self._limits.batch_bytes:
            queue.close_filling()
        return batch, index

    def fill(
        self,
        partition_key: PartitionKey,
        topic: str,
        columns: RecordColumns,
        start: int,
        now_ms: int,
        most_bytes: int | None = None,
    ) -> tuple[PendingBatch, int, int]:
        """Put records from `start` on into one batch: as many as fit, up to `most_bytes`, and at least one. Return the
        batch, the index of the first record there, and the index in `columns` of the first record left."""
        queue = self._busy_queue(partition_key)
        batch = queue.filling
        if batch is not None:
            first, end = batch.record_count, self._joint_end(batch, columns, start, most_bytes)
            if end == start:
                queue.close_filling()
                batch = None
            else:
                self._join(batch, columns, start, end)
        if batch is None:
            first, end = 0, self._batch_end(columns, start, most_bytes)
            batch = queue.filling = self._new_batch(partition_key, topic, self._cut(columns, start, end), now_ms)
        self.buffered_bytes += columns.bytes_between(start, end)
        # A batch of Arrow arrays cannot be extended.
        if batch.size_bytes >= self._limits.batch_bytes or not isinstance(batch.columns, ListColumns):
            queue.close_filling()
        return batch, first, end

    def _joint_end(self, batch: PendingBatch, columns: RecordColumns, start: int, most_bytes: int | None = None) -> int:
        """Return the end of the records to add to an existing batch: all that fit, but none if they are Arrow arrays
        large enough for a batch of their own."""
        room_bytes = self._limits.batch_bytes - batch.size_bytes
        end = columns.fitting(start, room_bytes)
        if end == start:
            return start
        if most_bytes is not None:
            end = min(end, max(columns.fitting(start, most_bytes), start + 1))
        if isinstance(columns, SizedLists):
            return end
        own_bytes = columns.bytes_between(start, self._batch_end(columns, start, most_bytes))
        return start if own_bytes >= self._small_bytes else end

    @staticmethod
    def _join(batch: PendingBatch, columns: RecordColumns, start: int, end: int) -> None:
        assert isinstance(batch.columns, ListColumns)
        size_bytes = columns.bytes_between(start, end)
        if isinstance(columns, SizedLists):
            batch.columns.extend(columns.lists, start, end, size_bytes)
        else:
            batch.columns.extend(columns.cut(start, end).as_lists(), 0, end - start, size_bytes)

    def least_bytes(self, columns: RecordColumns, start: int) -> int:
        """Return the smallest size that `fill` puts into one batch from `start` on: one record, or all that form a
        batch of their own."""
        own_bytes = columns.bytes_between(start, self._batch_end(columns, start))
        is_own = not isinstance(columns, SizedLists) and own_bytes >= self._small_bytes
        return own_bytes if is_own else columns.bytes_between(start, start + 1)

    def _cut(self, columns: RecordColumns, start: int, end: int) -> BatchColumns:
        """Return the contents of a new batch."""
        part = columns.cut(start, end)
        is_small = part.size_bytes < self._small_bytes
        return part.as_lists() if is_small and not isinstance(part, ListColumns) else part

    def _batch_end(self, columns: RecordColumns, start: int, most_bytes: int | None = None) -> int:
        """Return the end of a batch that begins at `start`: where it is full or has `most_bytes`."""
        room_bytes = self._limits.batch_bytes - BATCH_OVERHEAD_BYTES
        if most_bytes is not None:
            room_bytes = min(room_bytes, most_bytes)
        return max(columns.fitting(start, room_bytes), start + 1)

    @property
    def _small_bytes(self) -> int:
        """Arrow arrays smaller than this are better joined with other records than sent as a batch."""
        return self._limits.batch_bytes // 4

    def _busy_queue(self, partition_key: PartitionKey) -> PartitionQueue:
        queue = self._busy.get(partition_key)
        if queue is None:
            queue = self._queues.get(partition_key)
            if queue is None:
                queue = self._queues[partition_key] = PartitionQueue(self._limits.queue)
            self._busy[partition_key] = queue
        return queue

    def _new_batch(self, partition_key: PartitionKey, topic: str, columns: BatchColumns, now_ms: int) -> PendingBatch:
        self._batches += 1
        self.buffered_bytes += BATCH_OVERHEAD_BYTES
        return PendingBatch(topic, partition_key, (self._batches,), now_ms, columns)

    def close_all(self) -> None:
        """Close all batches, so that none lingers."""
        for queue in self._busy.values():
            queue.close_filling()

    # -- batches out

    @property
    def wants_identity(self) -> bool:
        """True if a batch waits for a (new) producer id."""
        return self._is_idempotent and any(not self._can_number(queue) for queue in self._busy.values())

    def identify(self, identity: ProducerIdentity) -> None:
        self._identity = identity

    def sendable_at_ms(self, partition_key: PartitionKey) -> float | None:
        """Return when `take` will return a batch; None if another event has to come first."""
        queue = self._busy.get(partition_key)
        if queue is None or not self._can_number(queue):
            return None
        return queue.sendable_at_ms()

    def take(self, partition_key: PartitionKey, now_ms: int) -> PendingBatch | None:
        """Return the next batch to send. It counts as in flight until one of the methods below is called for it."""
        queue = self._busy.get(partition_key)
        if queue is None or not self._can_number(queue):
            return None
        return queue.take(now_ms, self._identity)

    def _can_number(self, queue: PartitionQueue) -> bool:
        if not self._is_idempotent:
            return True
        return self._identity is not None and self._identity.producer_id != queue.used_up_id

    # -- results

    def stored(self, batch: PendingBatch, stored: Stored) -> None:
        if not batch.is_settled:
            self._settled(batch.partition_key, self._busy[batch.partition_key].stored(batch, stored))

    def refused(self, batch: PendingBatch, error: LograftError, now_ms: int) -> None:
        if batch.is_settled:
            return
        before = batch.size_bytes
        queue = self._busy[batch.partition_key]
        self._settled(batch.partition_key, queue.refused(batch, error, now_ms))
        if batch.halves is not None:
            self.buffered_bytes += sum(half.size_bytes for half in batch.halves) - before

    def lost(self, batch: PendingBatch) -> None:
        """Record that the batch was sent and will get no answer."""
        if not batch.is_settled:
            self._settled(batch.partition_key, self._busy[batch.partition_key].lost(batch))

    def not_sent(self, batch: PendingBatch) -> None:
        """Record that the batch was taken but not sent."""
        if not batch.is_settled:
            self._busy[batch.partition_key].not_sent(batch)

    # -- giving up

    def expires_at_ms(self) -> int | None:
        """Return when `expire` next has something to do."""
        moments = [moment for queue in self._busy.values() if (moment := queue.expires_at_ms()) is not None]
        return min(moments, default=None)

    def expire(self, now_ms: int) -> None:
        for partition_key, queue in list(self._busy.items()):
            self._settled(partition_key, queue.expire(now_ms))

    def abandon(self, partition_key: PartitionKey, error: LograftError) -> None:
        """Give up all batches of the partition."""
        # Keep the partition's sequences, even if its topic was deleted: a broker takes a reused one for a duplicate.
        queue = self._busy.get(partition_key)
        if queue is not None:
            self._settled(partition_key, queue.abandon(error))

    def _settled(self, partition_key: PartitionKey, batches: list[PendingBatch]) -> None:
        for batch in batches:
            self.buffered_bytes -= batch.size_bytes
            if self.when_settled is not None:
                self.when_settled(batch)
        assert self.buffered_bytes >= 0
        if self._busy[partition_key].is_empty:
            del self._busy[partition_key]
