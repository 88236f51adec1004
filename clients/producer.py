"""The producer, for ordinary functions: the same as for asyncio, on a loop in another thread."""

import asyncio
import sys
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Self, Unpack

from lograft.clients import aio_producer
from lograft.clients.aio_producer import (
    buffer_full,
    check_place,
    check_record,
    check_size,
    check_timestamp,
    not_flushed,
)
from lograft.clients.client_task import ClientTask
from lograft.clients.errors import ClientClosed, LograftError
from lograft.clients.pending_batch import HeaderPairs, record_bytes
from lograft.clients.producer_options import ProducerKeywords, ProducerOptions
from lograft.clients.sync_client import SyncClient
from lograft.clients.sync_delivery import Delivery
from lograft.runtime.clock import LoopClock
from lograft.runtime.loop_thread import Inbox, InboxClosed, LoopLost

__all__ = ["Delivery", "Producer"]

# What is on its way is counted here, before it is handed over: there it always finds room.
_NO_LIMIT = 2**62
_RECORDS_AT_A_TIME = 500
# For who forgot to close it: long enough for a cluster that is well, and not so long as to look like a hang.
_EXIT_SECONDS = 5.0


class _Item(NamedTuple):
    """A record on its way to the loop."""

    delivery: Delivery
    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp: int
    headers: HeaderPairs
    weight: int


class Producer(SyncClient):
    """Stores records, in the order they are sent to each partition, and each once. `send` from any thread.

    with Producer("localhost:9092") as producer:
        delivery = producer.send("orders", b"value", key=b"k")
        metadata = delivery.result(timeout=10)
    """

    def __init__(self, bootstrap: str | Iterable[str], **options: Unpack[ProducerKeywords]) -> None:
        super().__init__()
        self._options = ProducerOptions(**options)
        inner_options: ProducerKeywords = {**options, "buffer_bytes": _NO_LIMIT}
        self._inner = aio_producer.Producer(bootstrap, **inner_options)
        self._inbox: Inbox[_Item] = Inbox(self._loop, self._options.buffer_bytes, self._take)
        self._clock = LoopClock()
        self._taken: deque[_Item] = deque()
        self._taken_count = 0
        self._handed_on_count = 0
        self._has_taken = asyncio.Event()
        self._progress = asyncio.Event()  # pulsed
        self._handing_on = ClientTask("producer", self._hand_on_all)
        self._is_closed = False
        self._wait(self._start())
        self._loop.before_stop(self._flush_at_exit)

    # -- records

    def send(
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
        weight = record_bytes(key, value, pairs)
        check_size(weight)
        delivery = Delivery(self._loop)
        moment = self._clock.wall_ms() if timestamp is None else timestamp
        item = _Item(delivery, topic, key, value, partition, moment, pairs, weight)
        try:
            if not self._inbox.put(item, weight, self._options.max_block_ms / 1000):
                raise buffer_full(self._options)
        except InboxClosed:
            raise ClientClosed("the producer is closed: make another one") from None
        except LoopLost as error:
            raise ClientClosed(str(error)) from None
        return delivery

    def flush(self, timeout: float | None = None) -> None:
        """Return when the fate of all that was sent before is known. `TimedOut` after `timeout` seconds."""
        self._wait(self._flush(timeout))

    def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        return self._wait(self._inner.partitions_for(topic))

    # -- life

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds, and end. What is left over by then has failed."""
        self._loop.take_back(self._flush_at_exit)
        self._wait(self._close(timeout))

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
            left = self._taken_count - self._handed_on_count + self._inner.unsettled_records
            sys.stderr.write(
                f"lograft: {left} records were not acknowledged when the program ended, and may be lost: "
                "use the producer in a `with` block, or close it\n"
            )

    # -- on the loop

    async def _start(self) -> None:
        await self._inner.start()
        self._handing_on.start()
        self._handing_on.when_failed(self._refuse_all)

    def _refuse_all(self, error: LograftError) -> None:
        """Of those that were not handed on, and of all to come."""
        self._inbox.close()
        for item in self._taken:
            item.delivery.fail(error)
        self._taken.clear()
        self._progress.set()

    def _take(self, items: list[_Item]) -> None:
        self._taken.extend(items)
        self._taken_count += len(items)
        self._has_taken.set()

    async def _hand_on_all(self) -> None:
        """In the order they were sent. One whose topic is not known yet holds up those behind it, for a while."""
        while True:
            await self._has_taken.wait()
            self._has_taken.clear()
            while self._taken:
                await self._hand_on(self._taken[0])
                self._taken.popleft()
                self._handed_on_count += 1
                if self._handed_on_count % _RECORDS_AT_A_TIME == 0:
                    await asyncio.sleep(0)  # others have work to do, too: to send them, for one
            self._progress.set()
            self._progress.clear()

    async def _hand_on(self, item: _Item) -> None:
        try:
            delivery = self._inner.send_now(
                item.topic, item.value, item.key, item.partition, item.timestamp, item.headers, item.weight
            )
            if delivery is None:
                delivery = await self._inner.send(
                    item.topic,
                    item.value,
                    key=item.key,
                    partition=item.partition,
                    timestamp=item.timestamp,
                    headers=item.headers,
                )
        except LograftError as error:
            self._inbox.done(item.weight)
            item.delivery.fail(error)
            return
        if delivery.index == 0:
            batch = delivery.batch
            batch.listen(lambda: self._inbox.done(batch.records_bytes))
        item.delivery.bind(delivery)

    async def _flush(self, timeout: float | None) -> None:
        deadline = asyncio.timeout(timeout)
        self._inbox.deliver_all()  # what this thread put there may be waiting for another to say so
        wanted = self._taken_count
        try:
            async with deadline:
                while self._handed_on_count < wanted:
                    self._handing_on.check()
                    await self._progress.wait()
                await self._inner.flush()
        except TimeoutError:
            if not deadline.expired():
                raise
            raise not_flushed(timeout) from None

    async def _close(self, timeout: float | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._inbox.close()
        try:
            await self._flush(timeout)
        except LograftError:
            pass  # each record's delivery tells of it
        finally:
            await self._handing_on.close()
            self._refuse_all(ClientClosed("the producer was closed before the record could be sent"))
            await self._inner.close(timeout=0)
