"""The producer for synchronous code: runs the awaitable client on an event loop in another thread.

`send` adds records to one open submission per topic. The loop takes a submission as a whole, at the same cost for one
record as for a thousand.
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
    """Stores records exactly once, and in the order they are sent within each partition. Thread-safe.

    with Producer("localhost:9092") as producer:
        delivery = producer.send("orders", b"value", key=b"k")
        metadata = delivery.result(timeout=10)

    Options, all by name, with their defaults:

    acks="all": when a record counts as stored: when all in-sync replicas have it ("all"), when the leader has it (1),
        or as soon as it is sent (0).
    compression=None: the compression of batches: "none", "gzip", "snappy", "lz4" or "zstd".
    linger_ms=0: how long a batch that is not full waits for more records. While the previous batch is in flight, a
        batch waits at least 5 ms, or until the previous one is acknowledged.
    batch_bytes=524288: the size at which a batch is sent.
    buffer_bytes=33554432: the memory for all unacknowledged records. When it is full, `send` blocks.
    max_block_ms=60000: how long `send` blocks while the buffer is full or the topic's metadata is unavailable.
    delivery_timeout_ms=120000: how long a record may take to be acknowledged before it fails.
    request_timeout_ms=30000: how long a broker waits for replicas per request.
    partitioner=None: a function of topic, key, value and the number of partitions that returns a partition, or None for
        the default: hash the key, and rotate partitions for records without a key.
    key_serializer=None, value_serializer=None: how to encode keys and values: "bytes", "string", "json", or a function
        of the topic and the key or value.
    client_id="lograft-python": the name of this client in brokers' logs and metrics.
    first_contact_ms=None: give up if no broker was reached within this time; None: wait as long as the call allows.
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
        """Buffer a record for sending, and return as soon as it is buffered. The `Delivery` has the result.

        Key and value are bytes or None, or whatever the producer's serializers accept. `timestamp` is in milliseconds,
        by default now. `headers` are a dict, or pairs, of names and bytes. Without a `partition`, the key decides;
        without a key, partitions rotate batch by batch.
        """
        # The fast path for nearly all records, inlined: function calls and repeated checks would double its cost.
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
        """Send any record, with all checks."""
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
        # Check before taking the lock, which in a forked child may be held by a thread that does not exist.
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
        """Buffer many records for sending, given as columns of equal length, and return as soon as all are buffered.
        The `Deliveries` have the results.

        Columns are lists, or Arrow arrays of any type that casts to binary; or `values` is a table or record batch
        with the columns `value` and optionally `key`, `timestamp`, `headers`, `partition`. `timestamps` may be a single
        one for all. If any record is invalid, none is accepted. If the buffer stays full, raise `BufferFull`, which has
        the `Deliveries` of the accepted records.
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
        """Wait until every record sent before has a result. Raise `TimedOut` after `timeout` seconds."""
        self._wait(self._backlog.flush, timeout)

    def partitions_for(self, topic: str) -> int:
        """Return the topic's number of partitions."""
        return self._wait(self._backlog.inner.partitions_for, topic)

    def metrics(self) -> ProducerMetrics:
        """Return the producer's current metrics."""
        return self._wait(self._backlog.metrics)

    # -- life

    def close(self, timeout: float | None = None) -> None:
        """Deliver buffered records for up to `timeout` seconds, then close. Records not acknowledged by then fail."""
        self._loop.check_may_wait()  # before cancelling the flush at exit, which must run if this cannot wait
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
