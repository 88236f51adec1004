"""`lograft.v1.Log/Produce`: assigns offsets in order of arrival, and answers each batch once its acks are satisfied."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from lograft.broker.produce.backpressure import StreamInFlight, TotalInFlight
from lograft.broker.produce.batch_admission import AdmissionQueue, admit_quickly
from lograft.broker.produce.produce_requests import ProduceItem, ProduceMessage, UnreadableMessage, read_produce
from lograft.broker.replica.interfaces import Acks, PendingAppend, ServedReplica
from lograft.broker.replica.partition_lookup import PartitionLookup, check_writable
from lograft.broker.requests.call_stats import ServerStats
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.proto import log_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.proto.methods import PRODUCE
from lograft.rpc.unary import invalid
from lograft.runtime.histogram import Histogram
from lograft.runtime.limits.buffer_budget import DEFAULT_BUDGET_BYTES, LARGE_BYTES, BufferBudget, LargeTurn
from lograft.runtime.limits.byte_budget import Claim
from lograft.runtime.network import Handler, Stream
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.world import Runtime
from lograft.storage.log.admission import Admitted

log = get_logger(__name__)

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProduceLimits:
    """Limits for unanswered data, of one stream and of all streams together. A stream over a limit reads no further.
    It checks after each message, so a single message may exceed the limits."""

    stream_bytes: int = 32 * _MEBIBYTE
    stream_batches: int = 2000
    total_bytes: int = 256 * _MEBIBYTE
    alive_every_ms: int = 500


class ProduceService:
    """Serves any number of streams."""

    def __init__(
        self,
        runtime: Runtime,
        logs: PartitionLookup,
        limits: ProduceLimits | None = None,
        stats: ServerStats | None = None,
        budget: BufferBudget | None = None,
    ) -> None:
        self.runtime = runtime
        self.budget = budget or BufferBudget(DEFAULT_BUDGET_BYTES, runtime.clock)
        self.stats = stats or ServerStats()
        self.logs = logs
        self.limits = limits or ProduceLimits()
        self.total = TotalInFlight(self.limits.total_bytes)
        self.admission = AdmissionQueue(runtime.clock, runtime.blocking)
        self.seconds = Histogram()  # from arrival to outcome, of each batch

    def handlers(self) -> Mapping[str, Handler]:
        return {PRODUCE: self.serve}

    async def serve(self, stream: Stream) -> None:
        """Serve one stream, until the client has finished sending and has received all answers."""
        conversation = _ProduceStream(self, stream)
        try:
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(conversation.answer(), name="produce-answers")
                keeping_alive = group.create_task(conversation.keep_alive(), name="produce-alive")
                await conversation.take_in(group)
                await answering
                keeping_alive.cancel()
        finally:
            conversation.forget()


@dataclass(slots=True, eq=False)
class _Entry:
    """A batch that is not answered yet."""

    key: tuple[bytes, int]
    number: int
    size_bytes: int
    is_silent: bool
    began_seconds: float
    message: "_Message"
    pending: PendingAppend | None = None
    error: ErrorDetail | None = None

    @property
    def is_settled(self) -> bool:
        return self.error is not None or (self.pending is not None and self.pending.done())


@dataclass(slots=True, eq=False)
class _Line:
    """One partition's batches on this stream, in order. `entries`: those not answered yet. `waiting`: those without an
    offset yet, because the first of them is being converted."""

    key: tuple[bytes, int]
    entries: deque[_Entry] = field(default_factory=deque)
    waiting: deque[tuple[_Entry, ProduceItem, ProduceMessage]] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Message:
    """A request's batches. `open`: how many are not acknowledged or refused yet; the message keeps its memory until
    then. `unstored`: how many are not stored or refused yet; a large message keeps its turn until then."""

    claim: Claim
    open: int
    unstored: int
    is_large: bool


class _ProduceStream:
    """One stream: one task receives, another answers, and further tasks convert batches."""

    def __init__(self, service: ProduceService, stream: Stream) -> None:
        self._clock = service.runtime.clock
        self._admission = service.admission
        self._logs = service.logs
        self._stats = service.stats.of(PRODUCE)
        self._slow = service.stats.slow
        self._seconds = service.seconds
        self._alive_every_ms = service.limits.alive_every_ms
        self._in_flight = StreamInFlight(service.limits.stream_bytes, service.limits.stream_batches, service.total)
        self._stream = stream
        self._own = service.budget.open(stream)
        self._large_turn = LargeTurn(service.budget.large_turns)
        self._waits = False
        self._client_id = ""
        self._lines: dict[tuple[bytes, int], _Line] = {}
        self._ready: list[_Entry] = []  # settled, and preceded only by settled ones in their line
        self._news = asyncio.Event()  # an answer is ready, or a keep-alive is due
        self._busy = asyncio.Event()  # a batch is in flight, or the stream waits
        self._sent_ms = 0
        self._heard_seconds = 0.0  # when the latest message arrived
        self._must_speak = False
        self._has_all = False  # the client has finished sending

    def forget(self) -> None:
        """Release everything: the stream has ended. Batches with an offset are stored nevertheless."""
        self._in_flight.clear()
        self._own.close()
        self._large_turn.end()

    # -- receiving

    async def take_in(self, group: asyncio.TaskGroup) -> None:
        """Receive until the client has finished sending."""
        while (data := await self._stream.receive()) is not None:
            self._heard_seconds = self._clock.monotonic_seconds()
            size_bytes = len(data)
            claim = self._own.charge(size_bytes)
            if size_bytes >= LARGE_BYTES:
                with self._waiting():
                    await self._large_turn.take()
            touched = self._take_all(data, claim, group)
            del data  # waiting entries hold the batches that they need
            with self._waiting():
                for replica in touched:
                    await replica.room()
                await self._in_flight.room()
                await self._own.ready_to_receive(size_bytes)
        self._has_all = True
        self._news.set()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Mark the stream as waiting for room, or for a turn. It reads no messages meanwhile, so it sends
        keep-alives."""
        self._waits = True
        self._busy.set()
        try:
            yield
        finally:
            self._waits = False

    def _take_all(self, data: bytes, claim: Claim, group: asyncio.TaskGroup) -> dict[ServedReplica, None]:
        """Handle all items of a message. Return the replicas that they concern."""
        message = self._read(data)
        held = _Message(claim, len(message.items), len(message.items), len(data) >= LARGE_BYTES)
        if not message.items:
            self._own.release(held.claim)
            self._large_turn.end()
        touched: dict[ServedReplica, None] = {}
        for item in message.items:
            self._take(item, message, held, touched, group)
        return touched

    def _read(self, data: bytes) -> ProduceMessage:
        try:
            message = read_produce(data)
        except UnreadableMessage as error:
            log.info("produce_refused", client_id=self._client_id, peer=self._stream.peer, reason=str(error))
            raise invalid(str(error)) from None
        self._client_id = self._client_id or message.client_id
        return message

    def _take(
        self,
        item: ProduceItem,
        message: ProduceMessage,
        held: _Message,
        touched: dict[ServedReplica, None],
        group: asyncio.TaskGroup,
    ) -> None:
        key = (item.topic_id, item.partition)
        entry = _Entry(key, item.number, len(item.batch), message.acks is Acks.NONE, self._heard_seconds, held)
        self._in_flight.add(entry.size_bytes)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(key)
        line.entries.append(entry)
        if line.waiting:
            line.waiting.append((entry, item, message))
            return
        try:
            replica = self._find(item, message)
            touched[replica] = None
            admitted = admit_quickly(item.batch, replica.log_config, self._clock.wall_ms())
            if admitted is not None:
                self._append(line, entry, item, message, replica, admitted)
            else:
                line.waiting.append((entry, item, message))
                group.create_task(self._convert(line), name="produce-conversion")
        except SERVICE_ERRORS as error:
            self._refuse(line, entry, error)

    def _find(self, item: ProduceItem, message: ProduceMessage) -> ServedReplica:
        if message.refusal is not None:
            raise message.refusal
        replica = self._logs.find(item.topic_id, item.partition)
        check_writable(replica)
        replica.check_leads(item.leader_epoch)
        return replica

    async def _convert(self, line: _Line) -> None:
        """Convert and append the waiting batches of a line, one by one."""
        while line.waiting:
            entry, item, message = line.waiting[0]
            try:
                replica = self._find(item, message)
                await replica.room()
                admitted = await self._admission.admit(item.batch, replica.log_config)
                self._append(line, entry, item, message, replica, admitted)
            except SERVICE_ERRORS as error:
                self._refuse(line, entry, error)
            line.waiting.popleft()

    def _append(
        self,
        line: _Line,
        entry: _Entry,
        item: ProduceItem,
        message: ProduceMessage,
        replica: ServedReplica,
        admitted: Admitted,
    ) -> None:
        entry.pending = replica.begin_append(
            admitted,
            acks=message.acks,
            leader_epoch=item.leader_epoch,
            timeout_ms=message.timeout_ms,
            when_stored=partial(self._stored, entry.message) if entry.message.is_large else None,
        )
        if entry.pending.done():
            self._settled(line)
        else:
            entry.pending.add_done_callback(partial(self._settled, line))

    def _refuse(self, line: _Line, entry: _Entry, error: Exception) -> None:
        entry.error = self._logs.detail(error)
        if entry.message.is_large:
            self._stored(entry.message)
        self._settled(line)

    def _stored(self, message: _Message) -> None:
        """Note that one more batch of a large message is stored or refused. End the message's turn after the last."""
        message.unstored -= 1
        if not message.unstored:
            self._large_turn.end()

    # -- answering

    def _settled(self, line: _Line) -> None:
        """Queue the settled batches at the head of the line for answers, so that answers keep the line's order."""
        while line.entries and line.entries[0].is_settled:
            entry = line.entries.popleft()
            self._ready.append(entry)
            self._news.set()
            entry.message.open -= 1
            if not entry.message.open:  # the answer needs little memory, so do not wait for it
                self._own.release(entry.message.claim)
        if not line.entries:
            self._lines.pop(line.key, None)

    async def answer(self) -> None:
        """Send outcomes as they become known, all available ones in one message, until all batches are answered."""
        while not self._has_all or self._in_flight.count:
            await self._news.wait()
            self._news.clear()
            ready, self._ready = self._ready, []
            response = pb.ProduceResponse()
            for entry in ready:
                if not entry.is_silent:
                    self._tell(entry, response)
            if ready:
                self._measure(ready)
            if response.results or self._must_speak:
                self._must_speak = False
                await self._stream.send(response.SerializeToString())
                self._sent_ms = self._clock.monotonic_ms()
            # Only after sending: the stream must not read from a client that does not read its answers.
            self._in_flight.remove(sum(entry.size_bytes for entry in ready), len(ready))

    def _measure(self, ready: list[_Entry]) -> None:
        now_seconds = self._clock.monotonic_seconds()
        slowest = ready[0]
        for entry in ready:
            self._seconds.observe(now_seconds - entry.began_seconds)
            if entry.error is not None:
                self._stats.failed(entry.error)
            if entry.began_seconds < slowest.began_seconds:
                slowest = entry
        seconds = now_seconds - slowest.began_seconds
        if seconds >= self._slow.threshold_seconds:
            topic_id, partition = slowest.key
            self._slow.note(
                self._stats.method, seconds,
                # A batch with an offset waits for disks and replicas.
                waited_for="admission" if slowest.pending is None else "acknowledgement",
                batches=len(ready), topic=self._logs.name_of(topic_id), partition=partition,
                client_id=self._client_id, peer=self._stream.peer,
            )  # fmt: skip

    def _tell(self, entry: _Entry, response: pb.ProduceResponse) -> None:
        if entry.error is None:
            assert entry.pending is not None
            try:
                appended = entry.pending.result()
            except SERVICE_ERRORS as error:
                entry.error = self._logs.detail(error)
            else:
                response.results.add(
                    number=entry.number,
                    base_offset=appended.base_offset,
                    append_time=appended.append_time_ms,
                    log_start=appended.log_start,
                )
                return
        response.results.add(number=entry.number, error=entry.error)

    async def keep_alive(self) -> None:
        """Send keep-alives while a batch is in flight or the stream waits, so that the client can tell waiting from a
        stalled broker. Send nothing on idle streams."""
        period_ms = self._alive_every_ms // 2
        while True:
            await self._busy.wait()
            await self._clock.sleep_ms(period_ms)
            if self._in_flight.count == 0 and not self._waits:
                self._busy.clear()
            elif self._clock.monotonic_ms() - self._sent_ms >= period_ms:
                self._must_speak = True
                self._news.set()
