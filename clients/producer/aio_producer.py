"""The producer for asyncio."""

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from lograft.clients.cluster.bootstrap import parse_bootstrap
from lograft.clients.cluster.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.cluster.dropped_client import when_dropped
from lograft.clients.cluster.shared_cluster import join_cluster
from lograft.clients.errors import BufferFull
from lograft.clients.producer.aio_delivery import Deliveries, Delivery
from lograft.clients.producer.pipeline.accumulator import Accumulator, AccumulatorLimits
from lograft.clients.producer.pipeline.broker_stream import ProduceSettings
from lograft.clients.producer.pipeline.column_input import PIECE_BYTES, GivenColumns, Serializers, given_columns
from lograft.clients.producer.pipeline.metrics import ProducerMetrics
from lograft.clients.producer.pipeline.options import ProducerKeywords, ProducerOptions
from lograft.clients.producer.pipeline.partition_queue import QueueLimits
from lograft.clients.producer.pipeline.pending_batch import BATCH_OVERHEAD_BYTES
from lograft.clients.producer.pipeline.router import Router
from lograft.clients.producer.pipeline.sender import Sender
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.producer.producer_work import ProducerWork
from lograft.clients.records.list_columns import HeaderPairs, record_bytes
from lograft.clients.records.serializers import find_serializer, serialize
from lograft.clients.records.validation import HeadersOption, check_place, check_record, check_size, check_timestamp
from lograft.clients.types import check_topic
from lograft.proto import log_pb2 as pb
from lograft.runtime.world import Runtime

__all__ = ["Deliveries", "Delivery", "Producer"]

DROPPED = "a producer was dropped without being closed: what it was given is still delivered, if that can be"


class Producer:
    """Stores records exactly once, and in the order they are sent within each partition.

    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("orders", b"value", key=b"k")
        metadata = await delivery

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

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        runtime: Runtime | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        self._options = ProducerOptions.of(options)
        self._bootstrap = parse_bootstrap(bootstrap, "Producer")
        self._given_runtime = runtime
        self._runtime: Runtime
        self._cluster: ClusterClient
        self._accumulator: Accumulator
        self._sender: Sender
        self._router: Router
        self._work = ProducerWork()
        self._task = self._work.task
        self._serializers = serializers_of(self._options)
        self._keep: Callable[[], object] = lambda: None

    # -- life

    async def start(self) -> None:
        """Start the producer; `async with` does it. It does not wait for the cluster; the first `send` does."""
        if self._task.is_running:
            return
        self._task.check_may_start()
        options = self._options
        times = ClusterTimes(first_contact_ms=options.first_contact_ms)
        self._cluster = join_cluster(self._given_runtime, self._bootstrap, times)
        self._runtime = self._cluster.runtime
        queue = QueueLimits(linger_ms=options.linger_ms, delivery_timeout_ms=options.delivery_timeout_ms)
        limits = AccumulatorLimits(options.batch_bytes, options.buffer_bytes, queue)
        self._accumulator = Accumulator(limits, is_idempotent=options.wire_acks != pb.ACKS_NONE)
        settings = ProduceSettings(
            options.wire_acks, options.compression_codec, options.request_timeout_ms, options.client_id
        )
        self._sender = Sender(self._cluster, self._accumulator, settings)
        self._router = Router(self._accumulator, options.partitioner, self._runtime.rng, options.batch_bytes)
        self._work.start(self._cluster, self._accumulator, self._sender)
        if self._given_runtime is None:
            self._keep = when_dropped(self, self._work.close, DROPPED)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver buffered records for up to `timeout` seconds, then close. Records not acknowledged by then fail."""
        self._keep()
        await self._work.close(timeout)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A cancelled or interrupted caller should not wait.
        is_hasty = error is not None and not isinstance(error, Exception)
        await self.close(timeout=0 if is_hasty else None)

    # -- records

    async def send(
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
        check_place(topic, partition)
        if self._serializers:
            key = serialize(self._serializers.key, topic, "key", key)
            value = serialize(self._serializers.value, topic, "value", value)
        pairs = check_record(key, value, headers)
        check_timestamp(timestamp)
        size_bytes = record_bytes(key, value, pairs)
        check_size(size_bytes)
        while True:
            delivery = self._send_now(topic, value, key, partition, timestamp, pairs, size_bytes)
            if delivery is not None:
                return delivery
            await self._until_possible(topic, partition or 0, size_bytes + BATCH_OVERHEAD_BYTES)

    def _send_now(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: HeaderPairs,
        size_bytes: int,
    ) -> Delivery | None:
        """Like `send`, for a validated record. Return None if it would have to wait."""
        self._task.check()
        view = self._cluster.known_topic(topic)
        if view is None or not self._accumulator.has_room(size_bytes + BATCH_OVERHEAD_BYTES):
            return None
        if partition is not None and not 0 <= partition < view.partition_count:
            return None  # it may be new
        clock = self._runtime.clock
        moment = clock.wall_ms() if timestamp is None else timestamp
        batch, index = self._router.place_one(view, partition, key, value, moment, headers, clock.monotonic_ms())
        self._sender.wake()
        return Delivery(batch, index)

    async def send_many(
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
        self._task.check()
        given = given_columns(
            topic, values, keys, timestamps, headers, self._serializers, self._runtime.clock.wall_ms()
        )
        taken: list[Submission] = []
        for piece in pieces_of(given, self._options):
            submission = Submission(topic, piece.columns, partition=partition, partitions=piece.partitions)
            try:
                await self.place(submission)
            except BufferFull as error:
                raise (partly_taken(error, Deliveries(taken), len(given.columns)) if taken else error) from None
            taken.append(submission)
        return Deliveries(taken)

    async def place(self, submission: Submission) -> None:
        """Put a submission's records into batches once there is room. Raise `UnknownPartition` if a record names a
        partition that does not exist."""
        columns = submission.columns
        assert columns is not None
        needed_bytes = columns.size_bytes + BATCH_OVERHEAD_BYTES
        while True:
            self._task.check()
            view = self._cluster.known_topic(submission.topic)
            fits = self._accumulator.has_room(needed_bytes)
            if view is not None and fits and submission.wants_only(view.partition_count):
                break
            await self._until_possible(submission.topic, submission.strangest_partition, needed_bytes)
        self._router.place(submission, view, self._runtime.clock.monotonic_ms())
        self._sender.wake()

    async def _until_possible(self, topic: str, partition: int, size_bytes: int) -> None:
        """Wait until the topic and this partition are known, and there is room. Raise after `max_block_ms`."""
        max_block_ms = self._options.max_block_ms
        async with self._cluster.within(max_block_ms, f"nothing could be learnt of topic {topic!r}"):
            await self._cluster.partition(topic, partition)
        timeout = asyncio.timeout(max_block_ms / 1000)
        try:
            async with timeout:
                while not self._accumulator.has_room(size_bytes):
                    await self._sender.progress.wait()
                    self._task.check()
        except TimeoutError:
            if not timeout.expired():
                raise
            raise buffer_full(self._options) from None

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before has a result. Raise `TimedOut` after `timeout` seconds."""
        await self._work.flush(timeout)

    def metrics(self) -> ProducerMetrics:
        """Return the producer's current metrics."""
        self._task.check()
        now_ms = self._runtime.clock.monotonic_ms()
        return self._sender.counters.read(now_ms, self.buffered_bytes, self._options.buffer_bytes)

    def refused(self, records: int) -> None:
        """Count records that failed before they were placed, for `metrics`."""
        self._sender.counters.refused(records)

    def when_progress(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever results may have arrived and there may be more room."""
        self._sender.when_progress = callback

    @property
    def buffered_bytes(self) -> int:
        """The size of all unacknowledged records."""
        return self._accumulator.buffered_bytes

    @property
    def unsettled_records(self) -> int:
        """The number of records without a result."""
        return sum(batch.record_count for batch in list(self._accumulator))

    async def partitions_for(self, topic: str) -> int:
        """Return the topic's number of partitions."""
        self._task.check()
        check_topic(topic)
        async with self._cluster.within(self._options.max_block_ms, f"nothing could be learnt of topic {topic!r}"):
            return (await self._cluster.topic(topic)).partition_count


def buffer_full(options: ProducerOptions) -> BufferFull:
    return BufferFull(
        f"the buffer of {options.buffer_bytes} bytes stayed full for {options.max_block_ms} ms: "
        "send less, or give the producer a larger buffer_bytes or max_block_ms"
    )


def partly_taken(error: BufferFull, taken: Any, count: int) -> BufferFull:
    return BufferFull(f"{error.message}; {len(taken)} of {count} records were taken", taken=taken)


def pieces_of(given: GivenColumns, options: ProducerOptions) -> list[GivenColumns]:
    """Split many records into pieces to submit one by one, none of which fills the buffer alone."""
    most_bytes = max(min(PIECE_BYTES, options.buffer_bytes // 4), 1)
    return given.pieces(most_bytes, options.batch_bytes - BATCH_OVERHEAD_BYTES)


def serializers_of(options: ProducerOptions) -> Serializers:
    return Serializers(
        find_serializer("key_serializer", options.key_serializer),
        find_serializer("value_serializer", options.value_serializer),
    )
