"""The fetch stream from one broker: subscribes to partitions, grants credit, and delivers received batches."""

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from google.protobuf.message import DecodeError

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.consumer.reading.fetch_credit import FetchCredit
from lograft.clients.consumer.reading.fetched_chunk import Bytes
from lograft.clients.consumer.reading.fetched_partition import FetchedPartition
from lograft.clients.consumer.reading.metrics import FetchFigures
from lograft.clients.errors import LograftError, TimedOut, error_of
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import FETCH
from lograft.proto.wire_format import WireError, cut_out
from lograft.runtime.network import ConnectFailed, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first_ends
from lograft.runtime.tasks.retry import ExponentialWait
from lograft.runtime.tasks.silence import Silence

log = get_logger(__name__)

_FIRST_RETRY_MS = 20
_LAST_RETRY_MS = 500
_MOST_AT_ONCE = 5000  # partitions in one request: brokers accept at most twice that

_DATA = pb.FetchResponse.DATA_FIELD_NUMBER
_BATCHES = pb.FetchResponse.Data.BATCHES_FIELD_NUMBER


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """`window_bytes`: how much one broker may send ahead. `partition_bytes`: how much of one partition at a time.
    `rack`: the consumer's rack."""

    window_bytes: int = 16 * 1024 * 1024
    partition_bytes: int = 1024 * 1024
    client_id: str = ""
    rack: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Subscription:
    """A partition requested on this stream. Obsolete once the partition's generation has changed."""

    handle: int
    partition: FetchedPartition
    generation: int
    leader_epoch: int
    from_follower: bool

    @property
    def is_current(self) -> bool:
        return self.generation == self.partition.generation


class FetchListener(Protocol):
    """Notified of the results of subscriptions."""

    def arrived(self) -> None:
        """Some partitions received data."""
        ...

    def refused(self, subscription: Subscription, error: LograftError) -> None:
        """The broker refused or ended the subscription, which is gone."""
        ...

    def stream_lost(self) -> None:
        """The stream broke, and all its subscriptions are gone."""
        ...


class FetchStream:
    """The fetch stream from broker `broker_id`."""

    def __init__(
        self,
        cluster: ClusterClient,
        broker_id: int,
        settings: FetchSettings,
        listener: FetchListener,
        figures: FetchFigures,
    ) -> None:
        self.broker_id = broker_id
        self._cluster = cluster
        self._runtime = cluster.runtime
        self._settings = settings
        self._listener = listener
        self._figures = figures
        self._credit = FetchCredit(settings.window_bytes)
        self._subscriptions: dict[int, Subscription] = {}
        self._to_add: dict[int, Subscription] = {}
        self._to_remove: list[int] = []
        self._asked_ms: dict[int, float] = {}  # of subscriptions without a first answer, by handle
        self._handles = 0
        self._is_connected = False
        self._wanted = asyncio.Event()
        self._to_send = asyncio.Event()
        self._retry_wait = ExponentialWait(self._runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)

    # -- for the fetcher

    def subscribe(self, partition: FetchedPartition, leader_epoch: int, *, from_follower: bool = False) -> Subscription:
        """Request the partition from its `fetch_offset` on."""
        self._handles += 1
        subscription = Subscription(self._handles, partition, partition.generation, leader_epoch, from_follower)
        self._asked_ms[subscription.handle] = self._runtime.clock.monotonic_ms()
        self._subscriptions[subscription.handle] = self._to_add[subscription.handle] = subscription
        self._wanted.set()
        self._to_send.set()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End the subscription. Data still in flight is ignored."""
        if self._subscriptions.pop(subscription.handle, None) is None:
            return
        self._asked_ms.pop(subscription.handle, None)
        if self._to_add.pop(subscription.handle, None) is None:
            self._to_remove.append(subscription.handle)
            self._to_send.set()

    @property
    def held_bytes(self) -> int:
        return self._credit.held_bytes

    def is_subscribed(self, subscription: Subscription) -> bool:
        return subscription.handle in self._subscriptions

    def records_taken(self) -> None:
        """Grant more credit if the application's progress has made room."""
        if self._is_connected:
            self._to_send.set()

    # -- the stream

    async def run(self) -> None:
        """Receive until cancelled, reconnecting as needed."""
        while True:
            await self._wanted.wait()
            try:
                connection = await self._cluster.connect(self.broker_id)
                stream = connection.open(FETCH)
                silence = Silence(self._runtime.clock)
                self._is_connected = True
                await until_first_ends(
                    self._send_all(stream),
                    self._receive_all(stream, silence),
                    self._tire(silence),
                    connection.broken.wait(),
                )
                reason = "the connection was lost"
            except (ConnectFailed, StreamError, LograftError, DecodeError, WireError) as error:
                reason = str(error)
            log.info("fetch_stream_lost", broker=self.broker_id, reason=reason)
            self._forget_stream()
            await self._runtime.clock.sleep_ms(self._retry_wait.next_ms())

    def _forget_stream(self) -> None:
        self._is_connected = False
        self._subscriptions.clear()
        self._to_add.clear()
        self._asked_ms.clear()
        self._to_remove.clear()
        self._wanted.clear()
        self._listener.stream_lost()

    async def _tire(self, silence: Silence) -> None:
        await silence.too_long()
        raise TimedOut(f"nothing heard for {silence.limit_ms} ms")

    async def _send_all(self, stream: Stream) -> None:
        self._credit.stream_started()
        client_id = self._settings.client_id
        while True:
            request = pb.FetchRequest(
                remove=self._to_remove[:_MOST_AT_ONCE], credit_bytes=self._credit.grant(), client_id=client_id
            )
            del self._to_remove[:_MOST_AT_ONCE]
            for handle in list(islice(self._to_add, _MOST_AT_ONCE - len(request.remove))):
                self._add(request, self._to_add.pop(handle))
            client_id = ""
            if request.ByteSize():
                await stream.send(request.SerializeToString())
            else:
                self._to_send.clear()
                await self._to_send.wait()

    def _add(self, request: pb.FetchRequest, subscription: Subscription) -> None:
        partition = subscription.partition
        if subscription.is_current:
            request.add.add(
                handle=subscription.handle,
                topic_id=partition.topic_id,
                partition=partition.name.partition,
                leader_epoch=subscription.leader_epoch,
                offset=partition.fetch_offset,
                max_bytes=self._settings.partition_bytes,
                from_follower=subscription.from_follower,
                last_epoch=partition.fetch_epoch,
            )

    # -- receiving

    async def _receive_all(self, stream: Stream, silence: Silence) -> None:
        while (message := await stream.receive()) is not None:
            silence.heard()
            self._retry_wait.succeeded()
            _, parts = cut_out(memoryview(message), _DATA)
            for part in parts:
                fields, batches = cut_out(part, _BATCHES)
                self._take(pb.FetchResponse.Data.FromString(fields), batches[0] if batches else b"")
            if parts:
                self._listener.arrived()

    def _take(self, data: pb.FetchResponse.Data, batches: Bytes) -> None:
        self._credit.received(len(batches))
        now_ms = self._runtime.clock.monotonic_ms()
        self._figures.bytes.add(len(batches), now_ms)
        asked_ms = self._asked_ms.pop(data.handle, None)
        if asked_ms is not None:
            self._figures.latency.add(now_ms - asked_ms)
        subscription = self._subscriptions.get(data.handle)
        if subscription is None or not subscription.is_current:
            self._credit.freed(len(batches))
            self._to_send.set()
        elif data.HasField("error"):
            self._credit.freed(len(batches))
            del self._subscriptions[data.handle]
            self._listener.refused(subscription, error_of(data.error))
        else:
            high_watermark = data.high_watermark if data.HasField("high_watermark") else None
            subscription.partition.arrived(
                batches, data.next_offset, high_watermark, self._credit, subscription.leader_epoch, self.broker_id
            )
