"""The producer, for ordinary functions: the same as for asyncio, on a loop in another thread.

`send` puts records into submissions, one for each topic. The loop takes a submission whole, which costs the same for
one record as for a thousand.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from lograft.clients.cluster.dropped_client import when_dropped
from lograft.clients.cluster.sync_client import SyncClient
from lograft.clients.errors import BufferFull
from lograft.clients.producer import aio_producer
from lograft.clients.producer.aio_producer import DROPPED, partly_taken, pieces_of, serializers_of
from lograft.clients.producer.backlog import ProducerBacklog, unlimited
from lograft.clients.producer.pipeline.column_input import given_columns
from lograft.clients.producer.pipeline.metrics import ProducerMetrics
from lograft.clients.producer.pipeline.options import ProducerKeywords, ProducerOptions
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.producer.sync_delivery import Deliveries, Delivery
from lograft.clients.records.list_columns import RECORD_OVERHEAD_BYTES, HeaderPairs, record_bytes
from lograft.clients.records.serializers import serialize
from lograft.clients.records.validation import HeadersOption, check_place, check_record, check_timestamp
from lograft.runtime.clock import wall_ns

__all__ = ["Deliveries", "Delivery", "Producer"]


class Producer(SyncClient):
    """Stores records, in the order they are sent to each partition, and each once. `send` from any thread.

    with Producer("localhost:9092") as producer:
        delivery = producer.send("orders", b"value", key=b"k")
        metadata = delivery.result(timeout=10)

    Options, all by name, with their defaults:

    acks="all": when a record counts as stored: all in-sync replicas have it ("all"), the leader has it (1), or as soon
        as it is sent (0).
    compression=None: of batches: "none", "gzip", "snappy", "lz4" or "zstd".
    linger_ms=0: how long a batch that is not full waits for more records. While the one before it is under way, a batch
        waits 5 ms at least, or until that one is acknowledged.
    batch_bytes=524288: send a batch when it has that much.
    buffer_bytes=33554432: for all records that are not acknowledged. When it is full, `send` blocks.
    max_block_ms=60000: how long `send` blocks while the buffer is full or nothing is known of the topic.
    delivery_timeout_ms=120000: a record that is not acknowledged by then has failed.
    request_timeout_ms=30000: how long a broker waits for replicas at a time.
    partitioner=None: a function of topic, key, value and the number of partitions that returns a partition, or None for
        the default: the key decides, and without a key partitions take turns.
    key_serializer=None, value_serializer=None: what makes bytes of keys and values: "bytes", "string", "json", or a
        function of the topic and the key or value.
    client_id="lograft-python": the name of this client in brokers' logs and metrics.
    first_contact_ms=None: give up when no broker at all was reached for so long; None: as long as a call may take.
    """

    def __init__(self, bootstrap: str | Iterable[str], **options: Unpack[ProducerKeywords]) -> None:
        super().__init__()
        self._options = ProducerOptions.of(options)
        self._serializers = serializers_of(self._options)
        self._is_serializing = bool(self._serializers)
        inner = aio_producer.Producer(bootstrap, **unlimited(options))
        self._backlog = ProducerBacklog(self._loop, inner, self._options)
        self._lock = self._backlog.lock
        self._open_submissions = self._backlog.open_submissions
        self._wait(self._start)

    async def _start(self) -> None:
        await self._backlog.start()
        self._keep = when_dropped(self, self._backlog.close, DROPPED)

    # -- records

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: HeadersOption | None = None,
    ) -> Delivery:
        """Buffer a record to be stored, and return as soon as there is room for it. The `Delivery` has the result.

        Key and value are bytes or None, or what the producer's serializers take. `timestamp` is in milliseconds, by
        default now. `headers` are a dict, or pairs, of names and bytes. Without a `partition` the key decides; without
        a key, partitions take turns, a batch each.
        """
        # What nearly every record is, spelt out: calls, and questions asked again, would take as long as all of this.
        if (
            value.__class__ is bytes
            and key is None
            and headers is None
            and timestamp is None
            and partition is None
            and topic.__class__ is str
            and not self._is_serializing
            and self._loop.is_alive
        ):
            size_bytes = RECORD_OVERHEAD_BYTES + len(value)
            timestamp = wall_ns() // 1_000_000
            with self._lock:
                filling = self._open_submissions.get(topic)
                if filling is None or filling.size_bytes + size_bytes > filling.limit_bytes:
                    filling = self._backlog.open_submission(topic, size_bytes)
                index = len(filling.ends)
                try:
                    if filling.is_plain:
                        filling.values.append(value)
                        filling.timestamps.append(timestamp)
                        filling.size_bytes += size_bytes
                        filling.ends.append(filling.size_bytes)
                    else:
                        filling.add(None, value, timestamp, (), None, size_bytes)
                except BaseException:
                    filling.cut(index)
                    raise
            return Delivery(filling.submission, index)
        return self._send_any(topic, value, key, partition, timestamp, headers)

    def _send_any(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: HeadersOption | None,
    ) -> Delivery:
        """Whatever the record is."""
        if self._is_serializing:
            key = serialize(self._serializers.key, topic, "key", key)
            value = serialize(self._serializers.value, topic, "value", value)
        pairs: HeaderPairs = ()
        if value.__class__ is bytes and key.__class__ is bytes and headers is None:
            size_bytes = RECORD_OVERHEAD_BYTES + len(value) + len(key)
        else:
            pairs = check_record(key, value, headers)
            size_bytes = record_bytes(key, value, pairs)
        if timestamp is None:
            timestamp = wall_ns() // 1_000_000
        else:
            check_timestamp(timestamp)
        if partition is not None:
            check_place(topic, partition)
        # Before anything is locked: in a forked child the lock may be held by nobody at all.
        if not self._loop.is_alive:
            raise self._backlog.lost()
        with self._lock:
            filling = self._open_submissions.get(topic) if topic.__class__ is str else None
            if filling is None or filling.size_bytes + size_bytes > filling.limit_bytes:
                filling = self._backlog.open_submission(topic, size_bytes)
            index = filling.add(key, value, timestamp, pairs, partition, size_bytes)
        return Delivery(filling.submission, index)

    def send_many(
        self,
        topic: str,
        values: Any,
        *,
        keys: Any = None,
        partition: int | None = None,
        timestamps: Any = None,
        headers: Any = None,
    ) -> Deliveries:
        """Buffer many records to be stored, given as columns of equal length, and return as soon as there was room for
        all. The `Deliveries` have the results.

        Columns are lists, or Arrow arrays of any type that casts to binary; or `values` is a table or record batch
        with the columns `value` and optionally `key`, `timestamp`, `headers`, `partition`. `timestamps` may be one
        for all. If any record is invalid, none is taken; if the buffer stays full, `BufferFull` has the `Deliveries`
        of those that were.
        """
        check_place(topic, partition)
        given = given_columns(topic, values, keys, timestamps, headers, self._serializers, wall_ns() // 1_000_000)
        taken: list[Submission] = []
        for piece in pieces_of(given, self._options):
            submission = Submission(
                topic, piece.columns, partition=partition, partitions=piece.partitions, loop=self._loop
            )
            try:
                self._backlog.put(submission)
            except BufferFull as error:
                so_far = Deliveries(self._loop, taken)
                raise (partly_taken(error, so_far, len(given.columns)) if taken else error) from None
            taken.append(submission)
        return Deliveries(self._loop, taken)

    def flush(self, timeout: float | None = None) -> None:
        """Return when every record sent before has a result. Raise `TimedOut` after `timeout` seconds."""
        self._wait(self._backlog.flush, timeout)

    def partitions_for(self, topic: str) -> int:
        """Return how many partitions the topic has."""
        return self._wait(self._backlog.inner.partitions_for, topic)

    def metrics(self) -> ProducerMetrics:
        """Return the producer's current figures."""
        return self._wait(self._backlog.metrics)

    # -- life

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds, and end. Records that are not acknowledged by then have
        failed."""
        self._loop.check_may_wait()  # or it would be neither closed nor flushed when the program ends
        self._keep()
        self._backlog.wish_nothing()
        self._wait(self._backlog.close, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        is_hasty = error is not None and not isinstance(error, Exception)
        self.close(timeout=0 if is_hasty else None)
