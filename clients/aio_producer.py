"""The producer, for asyncio."""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

from lograft.clients.accumulator import Accumulator, AccumulatorLimits
from lograft.clients.bootstrap import parse_bootstrap
from lograft.clients.client_task import ClientTask, open_runtime
from lograft.clients.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.cluster_view import TopicView
from lograft.clients.delivery import Delivery
from lograft.clients.errors import BatchTooLarge, BufferFull, ClientClosed, InvalidArgument, LograftError, TimedOut
from lograft.clients.partition_queue import QueueLimits
from lograft.clients.partitioning import StickyPartitions, partition_of_key
from lograft.clients.pending_batch import BATCH_OVERHEAD_BYTES, HeaderPairs, PartitionKey, record_bytes
from lograft.clients.produce_line import ProduceSettings
from lograft.clients.producer_options import MAX_RECORD_BYTES, ProducerKeywords, ProducerOptions
from lograft.clients.sender import Sender
from lograft.clients.topic_partition import check_topic, is_text
from lograft.proto import log_pb2 as pb
from lograft.runtime.client_runtime import close_client_runtime
from lograft.runtime.world import Runtime
from lograft.storage.header import MAX_TIMESTAMP

__all__ = ["Delivery", "Producer"]


class Producer:
    """Stores records, in the order they are sent to each partition, and each once.

    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("orders", b"value", key=b"k")
        metadata = await delivery
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        runtime: Runtime | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        self._options = ProducerOptions(**options)
        self._bootstrap = parse_bootstrap(bootstrap)
        self._given_runtime = runtime
        self._runtime: Runtime
        self._cluster: ClusterClient
        self._accumulator: Accumulator
        self._sender: Sender
        self._sticky: StickyPartitions
        self._task = ClientTask("producer", self._run)

    # -- life

    async def start(self) -> None:
        """Begin; `async with` does it. Does not wait for the cluster: the first `send` does."""
        if self._task.is_running:
            return
        options = self._options
        self._runtime = open_runtime(self._given_runtime)
        times = ClusterTimes(first_contact_ms=options.first_contact_ms)
        self._cluster = ClusterClient(self._runtime, self._bootstrap, times)
        queue = QueueLimits(linger_ms=options.linger_ms, delivery_timeout_ms=options.delivery_timeout_ms)
        limits = AccumulatorLimits(options.batch_bytes, options.buffer_bytes, queue)
        self._accumulator = Accumulator(limits, is_idempotent=options.wire_acks != pb.ACKS_NONE)
        settings = ProduceSettings(
            options.wire_acks, options.compression_codec, options.request_timeout_ms, options.client_id
        )
        self._sender = Sender(self._cluster, self._accumulator, settings)
        self._sticky = StickyPartitions(self._runtime.rng)
        self._task.start()
        self._task.when_failed(self._abandon_all)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run(), name="follow-metadata")
            group.create_task(self._sender.run(), name="send")

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds, and end. What is left over by then has failed."""
        if not self._task.is_running:
            return
        try:
            await self.flush(timeout)
        except LograftError:
            pass  # each record's delivery tells of it
        finally:
            self._task.closing()
            self._abandon_all(ClientClosed("the producer was closed before the record was acknowledged"))
            await self._task.close()
            await self._cluster.close()
            if self._given_runtime is None:
                await close_client_runtime(self._runtime)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Whoever was cancelled, or interrupted, wants to be gone.
        is_hasty = error is not None and not isinstance(error, Exception)
        await self.close(timeout=0 if is_hasty else None)

    def _abandon_all(self, error: LograftError) -> None:
        for key in self._accumulator.partitions:
            self._accumulator.abandon(key, error)
        self._sender.tell_progress()

    # -- records

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
    ) -> Delivery:
        """Take a record to be stored. Returns as soon as there is room for it; the `Delivery` tells what became of it.

        `timestamp` is in milliseconds, by default now. Without a `partition` the key decides, or, if there is none,
        chance: then records go to one partition until its batch is sent.
        """
        check_place(topic, partition)
        pairs = check_record(key, value, headers)
        check_timestamp(timestamp)
        size_bytes = record_bytes(key, value, pairs)
        check_size(size_bytes)
        while True:
            delivery = self.send_now(topic, value, key, partition, timestamp, pairs, size_bytes)
            if delivery is not None:
                return delivery
            await self._until_possible(topic, partition, size_bytes + BATCH_OVERHEAD_BYTES)

    def send_now(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: HeaderPairs,
        size_bytes: int,
    ) -> Delivery | None:
        """As `send`, of a record that was checked; None if it would have to wait."""
        self._task.check()
        view = self._cluster.view.topic(topic)
        if view is None or not self._accumulator.has_room(size_bytes + BATCH_OVERHEAD_BYTES):
            return None
        if partition is None:
            partition = self._partition(view, key, value)
        elif not 0 <= partition < view.partition_count:
            return None  # it may be new
        clock = self._runtime.clock
        moment = clock.wall_ms() if timestamp is None else timestamp
        batch, index = self._accumulator.append(
            PartitionKey(view.id, partition), topic, key, value, moment, headers, clock.monotonic_ms()
        )
        self._sender.wake()
        return Delivery(batch, index)

    def _partition(self, view: TopicView, key: bytes | None, value: bytes | None) -> int:
        chosen = self._chosen(view, key, value)
        if chosen is not None:
            return chosen
        if key is not None:
            return partition_of_key(key, view.partition_count)
        return self._sticky.partition(
            view.id, view.partition_count, lambda number: self._accumulator.is_filling(PartitionKey(view.id, number))
        )

    def _chosen(self, view: TopicView, key: bytes | None, value: bytes | None) -> int | None:
        """By the user's partitioner, if there is one, and it cares."""
        if self._options.partitioner is None:
            return None
        try:
            chosen = self._options.partitioner(view.name, key, value, view.partition_count)
        except Exception as error:
            raise InvalidArgument(f"the partitioner failed: {error!r}") from error
        if chosen is not None and not (isinstance(chosen, int) and 0 <= chosen < view.partition_count):
            raise InvalidArgument(f"the partitioner chose {chosen!r} of {view.partition_count} partitions")
        return chosen

    async def _until_possible(self, topic: str, partition: int | None, size_bytes: int) -> None:
        """Return when the topic is known, with that partition, and there is room."""
        max_block_ms = self._options.max_block_ms
        async with self._cluster.within(max_block_ms, f"nothing could be learnt of topic {topic!r}"):
            await self._cluster.partition(topic, partition or 0)
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
        """Return when the fate of all that was sent before is known. `TimedOut` after `timeout` seconds."""
        self._task.check()
        self._accumulator.close_all()
        self._sender.wake()
        waited_for = list(self._accumulator)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                while not all(batch.is_settled for batch in waited_for):
                    await self._sender.progress.wait()
                    self._task.check()
        except TimeoutError:
            if not limit.expired():
                raise
            raise not_flushed(timeout) from None

    @property
    def unsettled_records(self) -> int:
        """How many were taken whose fate is not known."""
        return sum(batch.record_count for batch in list(self._accumulator))

    async def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        self._task.check()
        check_topic(topic)
        async with self._cluster.within(self._options.max_block_ms, f"nothing could be learnt of topic {topic!r}"):
            return (await self._cluster.topic(topic)).partition_count


def check_place(topic: object, partition: object) -> None:
    check_topic(topic)
    if partition is not None and not isinstance(partition, int):
        raise InvalidArgument(f"the partition is {partition!r}: give its number, or None")


def check_record(
    key: object, value: object, headers: Iterable[tuple[str, bytes | None]] | None
) -> tuple[tuple[str, bytes | None], ...]:
    """The headers as they are kept; `InvalidArgument` for what is not bytes."""
    for name, content in (("key", key), ("value", value)):
        if content is not None and not isinstance(content, bytes):
            raise InvalidArgument(f"the {name} is of type {type(content).__name__}: give bytes, or None")
    if not headers:
        return ()
    pairs = tuple(tuple(pair) for pair in headers)
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], bytes | None):
            raise InvalidArgument(f"{pair!r} is not a header: give pairs of a string and bytes (or None)")
        if not pair[0].isascii() and not is_text(pair[0]):
            raise InvalidArgument(f"the header name {pair[0]!r} cannot be written as UTF-8")
    return pairs  # type: ignore[return-value]


def check_timestamp(timestamp: int | None) -> None:
    if timestamp is not None and (not isinstance(timestamp, int) or not 0 <= timestamp <= MAX_TIMESTAMP):
        raise InvalidArgument(f"the timestamp is {timestamp!r}: give milliseconds since 1970, or None for now")


def check_size(size_bytes: int) -> None:
    if size_bytes > MAX_RECORD_BYTES:
        raise BatchTooLarge(f"a record of {size_bytes} bytes is over the limit of {MAX_RECORD_BYTES}")


def not_flushed(timeout: float | None) -> TimedOut:
    return TimedOut(f"not all that was sent was acknowledged within {timeout} s")


def buffer_full(options: ProducerOptions) -> BufferFull:
    return BufferFull(
        f"the buffer of {options.buffer_bytes} bytes stayed full for {options.max_block_ms} ms: "
        "send less, or give the producer a larger buffer_bytes or max_block_ms"
    )
