"""The produce stream to one broker: sends the batches of its partitions, and reports the answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import BatchTooLarge, LograftError, TimedOut, error_of
from lograft.clients.producer.pipeline.accumulator import Accumulator
from lograft.clients.producer.pipeline.metrics import ProducerCounters
from lograft.clients.producer.pipeline.pending_batch import BatchContents, PartitionKey, PendingBatch, Stored, encode
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE
from lograft.proto.wire_format import Buffer, message_field
from lograft.runtime.network import ConnectFailed, MessageTooLarge, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first_ends
from lograft.runtime.tasks.retry import ExponentialWait
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS, Silence
from lograft.storage.batch.codec import Compression

log = get_logger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""The limit for batches in one message; a larger batch is sent alone."""

# Over a slow connection, it takes a while until the broker has something to answer.
_SLOWEST_BYTES_A_SECOND = 512 * 1024
_LOOK_AGAIN_MS = 200
_MOST_PATIENCE = 8

_ITEMS = pb.ProduceRequest.ITEMS_FIELD_NUMBER
_BATCH = pb.ProduceRequest.Item.BATCH_FIELD_NUMBER


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """`request_timeout_ms`: how long the broker may wait for replicas before it answers."""

    acks: pb.Acks = pb.ACKS_ALL
    compression: Compression = Compression.NONE
    request_timeout_ms: int = 30_000
    client_id: str = ""
    first_retry_ms: int = 20
    last_retry_ms: int = 500


@dataclass(slots=True, eq=False)
class _Sent:
    """A batch in flight on this stream. `is_out`: it was written to the stream, for the leader of `leader_epoch`, in a
    message of `message_bytes`."""

    batch: PendingBatch
    sent_ms: int
    is_out: bool = False
    leader_epoch: int | None = None
    message_bytes: int = 0


class ProduceStream:
    """The stream to broker `broker_id`. `changed` is called whenever the sender should check again."""

    def __init__(
        self,
        cluster: ClusterClient,
        accumulator: Accumulator,
        broker_id: int,
        settings: ProduceSettings,
        counters: ProducerCounters,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._runtime = cluster.runtime
        self._accumulator = accumulator
        self._broker_id = broker_id
        self._settings = settings
        self._counters = counters
        self._changed = changed
        self._ready: dict[PartitionKey, None] = {}
        self._has_ready = asyncio.Event()
        self._sent = asyncio.Event()  # pulsed
        self._under_way: dict[int, _Sent] = {}
        self._numbers = 0
        self._patience = 1  # doubles with each timeout of a silent broker
        self._retry_wait = ExponentialWait(self._runtime.rng, settings.first_retry_ms, settings.last_retry_ms)

    # -- for the sender

    def want(self, key: PartitionKey) -> None:
        """Send the batches of this partition, which this broker leads."""
        self._ready[key] = None
        self._has_ready.set()

    def recall(self) -> None:
        """Give back batches of partitions that this broker no longer leads, so that they go to the new leader."""
        for number, sent in list(self._under_way.items()):
            if not self._leads(sent.batch.partition_key):
                del self._under_way[number]
                self._give_back(sent)

    def _leads(self, key: PartitionKey) -> bool:
        leader = self._cluster.view.leader(*key)
        return leader is not None and leader.broker_id == self._broker_id

    # -- the stream

    async def run(self) -> None:
        """Send until cancelled, reconnecting as needed."""
        while True:
            await self._has_ready.wait()
            try:
                connection = await self._cluster.connect(self._broker_id)
                stream = connection.open(PRODUCE)
                silence = Silence(self._runtime.clock, SILENCE_LIMIT_MS * self._patience)
                await until_first_ends(
                    self._send_all(stream, silence),
                    self._receive_all(stream, silence),
                    self._tire(silence),
                    connection.broken.wait(),
                )
                reason = "the connection was lost"
            except TimedOut as error:
                # If every client gave up and retried this soon, an overloaded broker would only get more load.
                self._patience = min(2 * self._patience, _MOST_PATIENCE)
                reason = str(error)
            except MessageTooLarge as error:
                self._refuse_larger(error)
                reason = str(error)
            except (ConnectFailed, StreamError, LograftError, DecodeError) as error:
                reason = str(error)
            finally:
                touched = [*self._ready, *(sent.batch.partition_key for sent in self._under_way.values())]
                self._give_all_back()
            log.info("produce_stream_lost", broker=self._broker_id, reason=reason)
            for key in touched:
                if (queue := self._accumulator.queue(key)) is not None:
                    queue.trouble = f"broker {self._broker_id}: {reason}"
            self._ready.clear()
            self._has_ready.clear()
            await self._runtime.clock.sleep_ms(self._retry_wait.next_ms())
            self._changed()

    def _refuse_larger(self, error: MessageTooLarge) -> None:
        """Refuse batches over the broker's message limit. The broker rejected the whole message, and would reject them
        again."""
        for number, sent in list(self._under_way.items()):
            if sent.message_bytes > error.limit_bytes:
                del self._under_way[number]
                self._accumulator.refused(sent.batch, BatchTooLarge(error.message), self._runtime.clock.monotonic_ms())

    def _give_all_back(self) -> None:
        under_way, self._under_way = self._under_way, {}
        for sent in under_way.values():
            self._give_back(sent)

    def _give_back(self, sent: _Sent) -> None:
        if sent.is_out:
            self._accumulator.lost(sent.batch)
        else:
            self._accumulator.not_sent(sent.batch)

    async def _tire(self, silence: Silence) -> None:
        """Raise if the broker is silent although it has batches to answer: it should send something every 500 ms."""
        while True:
            await silence.too_long()
            out_bytes = sum(sent.batch.size_bytes for sent in self._under_way.values() if sent.is_out)
            if not out_bytes:
                await self._sent.wait()
                silence.heard()
            elif silence.lasted_ms > silence.limit_ms + out_bytes * 1000 // _SLOWEST_BYTES_A_SECOND:
                raise TimedOut(f"nothing heard for {silence.lasted_ms} ms")
            else:
                await self._runtime.clock.sleep_ms(_LOOK_AGAIN_MS)

    # -- sending

    async def _send_all(self, stream: Stream, silence: Silence) -> None:
        while True:
            await self._has_ready.wait()
            sent = self._take()
            if not sent:
                self._has_ready.clear()
                continue
            await self._encode(sent)
            if not any(each.is_out for each in self._under_way.values()):
                silence.heard()  # until now the broker had nothing to answer
            request = self._request(sent)
            self._sent.set()
            self._sent.clear()
            if request is not None:
                await stream.send(request)
            if self._settings.acks == pb.ACKS_NONE:
                self._count_as_stored(sent)

    def _take(self) -> dict[int, _Sent]:
        """Return the batches to send in one message, by number. A partition with more batches stays ready, after the
        others."""
        now_ms = self._runtime.clock.monotonic_ms()
        taken: dict[int, _Sent] = {}
        size_bytes = 0
        while self._ready and size_bytes < MAX_MESSAGE_BYTES:
            key = next(iter(self._ready))
            queue = self._accumulator.queue(key)
            if taken and queue is not None and size_bytes + queue.next_bytes > MAX_MESSAGE_BYTES:
                break
            del self._ready[key]
            batch = self._accumulator.take(key, now_ms) if self._leads(key) else None
            if batch is None:
                continue
            size_bytes += batch.size_bytes
            self._numbers += 1
            taken[self._numbers] = self._under_way[self._numbers] = _Sent(batch, now_ms)
            self._ready[key] = None
        return taken

    async def _encode(self, sent: dict[int, _Sent]) -> None:
        """Encode batches that are not encoded yet. Meanwhile they may be recalled, expire, or be renumbered."""
        unencoded = {number: each.batch for number, each in sent.items() if each.batch.encoded is None}
        parts = [batch.contents for batch in unencoded.values()]
        compression = self._settings.compression
        if compression is Compression.NONE:
            encoded = encode(parts, compression)
        else:
            encoded = await self._encode_beside(parts)
        for (number, batch), data in zip(unencoded.items(), encoded, strict=True):
            if number in self._under_way and not batch.is_settled:
                batch.encoded = data

    async def _encode_beside(self, parts: Sequence[BatchContents]) -> list[bytes]:
        compression = self._settings.compression
        try:
            return await self._runtime.blocking.run_blocking(encode, parts, compression)
        except RuntimeError:
            return encode(parts, compression)  # at interpreter shutdown, no new threads can be started

    def _request(self, sent: dict[int, _Sent]) -> bytes | None:
        """Return the message, and count its batches as sent; None if no batch needs to be sent after all."""
        settings = self._settings
        parts: list[Buffer] = []
        for number, each in sent.items():
            if number not in self._under_way:
                continue
            if each.batch.encoded is None:
                del self._under_way[number]  # it was given up meanwhile
                continue
            topic_id, partition = each.batch.partition_key
            leader = self._cluster.view.leader(topic_id, partition)
            each.leader_epoch = leader.epoch if leader is not None else None
            item = pb.ProduceRequest.Item(
                number=number, topic_id=topic_id, partition=partition, leader_epoch=each.leader_epoch
            )
            parts += message_field(_ITEMS, item.SerializeToString(), _BATCH, [each.batch.encoded])
            each.is_out = True
            self._counters.sent(each.batch, len(each.batch.encoded), self._runtime.clock.monotonic_ms())
            each.batch.attempts += 1
        if not parts:
            return None
        common = pb.ProduceRequest(
            acks=settings.acks, timeout_ms=settings.request_timeout_ms, client_id=settings.client_id
        )
        message = b"".join([common.SerializeToString(), *parts])
        for each in sent.values():
            each.message_bytes = len(message)
        return message

    def _count_as_stored(self, sent: dict[int, _Sent]) -> None:
        """Count batches as stored: with acks=0 no answer comes."""
        for number, each in sent.items():
            if self._under_way.pop(number, None) is not None:
                self._accumulator.stored(each.batch, Stored(-1))
        self._changed()

    # -- answers

    async def _receive_all(self, stream: Stream, silence: Silence) -> None:
        while (data := await stream.receive()) is not None:
            silence.heard()
            self._retry_wait.succeeded()
            self._patience = 1
            for result in pb.ProduceResponse.FromString(data).results:
                sent = self._under_way.pop(result.number, None)
                if sent is not None:
                    self._take_result(sent, result)
            self._changed()

    def _take_result(self, sent: _Sent, result: pb.ProduceResponse.Result) -> None:
        batch = sent.batch
        self._counters.answered(self._runtime.clock.monotonic_ms() - sent.sent_ms)
        if not result.HasField("error"):
            append_time = result.append_time if result.HasField("append_time") else None
            self._accumulator.stored(batch, Stored(result.base_offset, append_time, sent.leader_epoch))
            return
        error = error_of(result.error)
        self._accumulator.refused(batch, error, self._runtime.clock.monotonic_ms())
        self._cluster.hinted(*batch.partition_key, error)
