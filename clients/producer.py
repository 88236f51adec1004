"""The producer, for ordinary functions: the same as for asyncio, on a loop in another thread.

Whoever sends puts records into parcels, one for each topic, and the loop takes them whole: it costs the same for one
record as for a thousand.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from lograft.clients import aio_producer
from lograft.clients.aio_producer import buffer_full, not_flushed, partly_taken, pieces_of, serializers_of
from lograft.clients.client_task import ClientTask
from lograft.clients.errors import BufferFull, ClientClosed, LograftError, UnknownPartition
from lograft.clients.given_columns import given_columns
from lograft.clients.producer_metrics import ProducerMetrics
from lograft.clients.producer_options import ProducerKeywords, ProducerOptions
from lograft.clients.record_checks import check_place, check_record, check_size, check_timestamp
from lograft.clients.record_columns import RECORD_OVERHEAD_BYTES, HeaderPairs, record_bytes
from lograft.clients.serializers import serialize
from lograft.clients.staging import PARCEL_BYTES, OpenParcel, Staging
from lograft.clients.sync_client import SyncClient
from lograft.clients.sync_delivery import Deliveries, Delivery, SentParcel
from lograft.clients.topic_partition import check_topic
from lograft.runtime.clock import wall_ns
from lograft.runtime.handover import Handover
from lograft.runtime.loop_thread import LoopLost

__all__ = ["Deliveries", "Delivery", "Producer"]

# What is on its way is counted here, before it is handed over: there it always finds room.
_NO_LIMIT = 2**62
# For who forgot to close it: long enough for a cluster that is well, and not so long as to look like a hang.
_EXIT_SECONDS = 5.0


class Producer(SyncClient):
    """Stores records, in the order they are sent to each partition, and each once. `send` from any thread.

    with Producer("localhost:9092") as producer:
        delivery = producer.send("orders", b"value", key=b"k")
        metadata = delivery.result(timeout=10)
    """

    def __init__(self, bootstrap: str | Iterable[str], **options: Unpack[ProducerKeywords]) -> None:
        super().__init__()
        self._options = ProducerOptions(**options)
        self._serializers = serializers_of(self._options)
        self._is_serializing = bool(self._serializers)
        inner_options: ProducerKeywords = {**options, "buffer_bytes": _NO_LIMIT}
        self._inner = aio_producer.Producer(bootstrap, **inner_options)
        # Looked at and changed with the lock held.
        self._handover = Handover(self._loop, self._take)
        self._lock = self._handover.lock
        self._staging = Staging(partial(SentParcel, self._loop))
        self._open_parcels = self._staging.open_parcels
        self._is_closed = False
        # On the loop; what is left to be placed is counted for others to see.
        self._taken: deque[SentParcel] = deque()
        self._taken_bytes = 0
        self._taken_count = 0
        self._placed_count = 0
        self._has_taken = asyncio.Event()
        self._progress = asyncio.Event()  # pulsed
        self._placing = ClientTask("producer", self._place_all)
        self._wait(self._start)
        self._loop.before_stop(self._flush_at_exit)

    # -- records

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
    ) -> Delivery:
        """Take a record to be stored. Returns as soon as there is room for it; the `Delivery` tells what became of it.

        Key and value are bytes or None, or what the producer's serializers take. `timestamp` is in milliseconds, by
        default now. Without a `partition` the key decides; if there is none, partitions take turns, a batch each.
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
                filling = self._open_parcels.get(topic)
                if filling is None or filling.size_bytes + size_bytes > filling.limit_bytes:
                    filling = self._open_parcel(topic, size_bytes)
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
            return Delivery(filling.parcel, index)
        return self._send_any(topic, value, key, partition, timestamp, headers)

    def _send_any(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: Iterable[tuple[str, bytes | None]] | None,
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
            raise self._lost()
        with self._lock:
            filling = self._open_parcels.get(topic) if topic.__class__ is str else None
            if filling is None or filling.size_bytes + size_bytes > filling.limit_bytes:
                filling = self._open_parcel(topic, size_bytes)
            index = filling.add(key, value, timestamp, pairs, partition, size_bytes)
        return Delivery(filling.parcel, index)

    def _open_parcel(self, topic: str, size_bytes: int) -> OpenParcel[SentParcel]:
        """With the lock held: one with room for a record of that size. The loop comes to take it."""
        check_topic(topic)
        check_size(size_bytes)
        room_bytes = self._wait_for_room(size_bytes)
        # Announced first: an interrupt between the two must not leave a parcel that nobody comes for.
        self._handover.announce()
        return self._staging.open(topic, max(min(PARCEL_BYTES, room_bytes), size_bytes))

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
        """Take many records to be stored, given as columns of one length. Returns as soon as there was room for all of
        them; the `Deliveries` tell what became of them.

        Columns are lists, or Arrow arrays (of any type that casts to binary); or `values` is a table, or a record
        batch, with the columns `value` and, as it likes, `key`, `timestamp`, `headers`, `partition`. `timestamps` may
        be one for all. If something is wrong with any record, none is taken; if the buffer stays full, `BufferFull`
        tells how many were.
        """
        check_place(topic, partition)
        given = given_columns(topic, values, keys, timestamps, headers, self._serializers, wall_ns() // 1_000_000)
        taken: list[SentParcel] = []
        for piece in pieces_of(given, self._options):
            parcel = SentParcel(self._loop, topic, piece.columns, partition=partition, partitions=piece.partitions)
            try:
                self._put(parcel)
            except BufferFull as error:
                so_far = Deliveries(self._loop, taken)
                raise (partly_taken(error, so_far, len(given.columns)) if taken else error) from None
            taken.append(parcel)
        return Deliveries(self._loop, taken)

    def _put(self, parcel: SentParcel) -> None:
        if not self._loop.is_alive:
            raise self._lost()
        size_bytes = parcel.size_bytes
        with self._lock:
            self._wait_for_room(size_bytes)
            self._staging.put(parcel)
            self._handover.announce()

    def _wait_for_room(self, size_bytes: int) -> int:
        """With the lock held: how much there is. `ClientClosed` or `BufferFull` if there is too little."""
        if not self._is_closed and not self._has_room(size_bytes):
            self._staging.close_all()
        if not self._is_closed and not self._has_room(size_bytes):
            # Once it is full, it is left to empty for a while: few long waits cost less than many short ones.
            spare_bytes = self._options.buffer_bytes // 4
            fits = self._handover.wait_for_room(
                lambda: self._is_closed or self._has_room(size_bytes + spare_bytes), self._options.max_block_ms / 1000
            )
            if not fits and not self._has_room(size_bytes):
                raise buffer_full(self._options)
        if self._is_closed:
            raise ClientClosed("the producer is closed: make another one")
        return self._options.buffer_bytes - self._used_bytes

    def _has_room(self, size_bytes: int) -> bool:
        """What is larger than the buffer goes alone."""
        used_bytes = self._used_bytes
        return used_bytes == 0 or used_bytes + size_bytes <= self._options.buffer_bytes

    @property
    def _used_bytes(self) -> int:
        """At most, as it may be on its way from one to the other."""
        return self._staging.size_bytes + self._taken_bytes + self._inner.buffered_bytes

    def _lost(self) -> ClientClosed:
        try:
            self._loop.check()
        except LoopLost as error:
            return ClientClosed(str(error))
        return ClientClosed("the producer is closed: make another one")

    def flush(self, timeout: float | None = None) -> None:
        """Return when the fate of all that was sent before is known. `TimedOut` after `timeout` seconds."""
        self._wait(self._flush, timeout)

    def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        return self._wait(self._inner.partitions_for, topic)

    def metrics(self) -> ProducerMetrics:
        """The producer's figures, as of now."""
        return self._wait(self._metrics)

    # -- life

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds, and end. What is left over by then has failed."""
        self._loop.take_back(self._flush_at_exit)
        self._wait(self._close, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        is_hasty = error is not None and not isinstance(error, Exception)
        self.close(timeout=0 if is_hasty else None)

    def _flush_at_exit(self) -> None:
        """Nobody closed it, and the program ends."""
        try:
            self.flush(_EXIT_SECONDS)
        except LograftError:
            left = sum(map(len, self._taken)) + self._inner.unsettled_records
            sys.stderr.write(
                f"lograft: {left} records were not acknowledged when the program ended, and may be lost: "
                "use the producer in a `with` block, or close it\n"
            )

    # -- on the loop

    async def _start(self) -> None:
        await self._inner.start()
        self._inner.when_progress(self._handover.made_room)
        self._placing.start()
        self._placing.when_failed(self._refuse_all)

    def _take(self) -> None:
        """With the lock held."""
        parcels = self._staging.take()
        self._taken.extend(parcels)
        self._taken_count += len(parcels)
        self._taken_bytes += sum(parcel.size_bytes for parcel in parcels)
        self._has_taken.set()

    def _take_last(self) -> None:
        """Take what is there, and let nobody put anything there any more."""
        with self._lock:
            self._is_closed = True
            self._take()
        self._handover.made_room()

    def _refuse_all(self, error: LograftError) -> None:
        """Those that were not placed, and all to come."""
        self._take_last()
        for parcel in self._taken:
            parcel.fail(error)
        self._taken.clear()
        self._taken_bytes = 0
        self._progress.set()

    async def _place_all(self) -> None:
        """In the order they were sent. One whose topic is not known yet holds up those behind it, for a while."""
        while True:
            await self._has_taken.wait()
            self._has_taken.clear()
            while self._taken:
                parcel = self._taken[0]
                size_bytes = parcel.size_bytes
                await self._place(parcel)
                self._taken.popleft()
                self._taken_bytes -= size_bytes
                self._placed_count += 1
                self._handover.made_room()  # if it failed
                await asyncio.sleep(0)  # others have work to do, too: to send them, for one
            self._progress.set()
            self._progress.clear()

    async def _place(self, parcel: SentParcel) -> None:
        try:
            try:
                await self._inner.place(parcel)
            except UnknownPartition as error:
                parcel.refuse_strangers(await self._inner.partitions_for(parcel.topic), error)
                await self._inner.place(parcel)
            self._inner.refused(len(parcel.refused))
        except LograftError as error:
            self._inner.refused(len(parcel))
            parcel.fail(error)

    async def _metrics(self) -> ProducerMetrics:
        with self._lock:
            used_bytes = self._used_bytes
        return replace(self._inner.metrics(), buffer_bytes=used_bytes, buffer_limit_bytes=self._options.buffer_bytes)

    async def _flush(self, timeout: float | None) -> None:
        deadline = asyncio.timeout(timeout)
        self._handover.take()  # what this thread put there may be waiting for another to say so
        wanted = self._taken_count
        try:
            async with deadline:
                while self._placed_count < wanted:
                    self._placing.check()
                    await self._progress.wait()
                await self._inner.flush()
        except TimeoutError:
            if not deadline.expired():
                raise
            raise not_flushed(timeout) from None

    async def _close(self, timeout: float | None) -> None:
        if self._is_closed:
            return
        self._take_last()
        try:
            await self._flush(timeout)
        except LograftError:
            pass  # each record's delivery tells of it
        finally:
            await self._placing.close()
            self._refuse_all(ClientClosed("the producer was closed before the record could be sent"))
            await self._inner.close(timeout=0)
