"""`lograft.v1.Log/Fetch`: committed batches of many partitions, pushed as they come, within the client's credit."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from lograft.broker.fetch.outbox import FetchOutbox
from lograft.broker.replica.interfaces import ServedReplica
from lograft.broker.replica.partition_lookup import PartitionLookup, check_offset, check_past, epoch_given, not_readable
from lograft.broker.requests.call_stats import ServerStats
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import FETCH
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.rpc.request_limits import check_item_count
from lograft.rpc.unary import invalid
from lograft.runtime.histogram import Histogram
from lograft.runtime.limits.buffer_budget import DEFAULT_BUDGET_BYTES, FREE_BYTES, BufferBudget
from lograft.runtime.limits.byte_budget import Claim
from lograft.runtime.network import Handler, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.world import Runtime
from lograft.storage.errors import OffsetOutOfRange
from lograft.storage.log.log_reader import Batches

log = get_logger(__name__)

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch stream.

    `message_bytes`: send a message once it has this size. `partition_bytes`: the most that one partition sends before
    others get a turn; the client may ask for less. `unsent_bytes`: read no request while this much is unsent."""

    message_bytes: int = _MEBIBYTE
    partition_bytes: int = _MEBIBYTE
    unsent_bytes: int = 4 * _MEBIBYTE
    partitions: int = 20_000
    alive_every_ms: int = 500


class FetchService:
    """Serves any number of streams."""

    def __init__(
        self,
        runtime: Runtime,
        logs: PartitionLookup,
        limits: FetchLimits | None = None,
        stats: ServerStats | None = None,
        budget: BufferBudget | None = None,
    ) -> None:
        self.clock = runtime.clock
        self.budget = budget or BufferBudget(DEFAULT_BUDGET_BYTES, runtime.clock)
        self.stats = stats or ServerStats()
        self.seconds = Histogram()  # from commit to send, of records that a client was waiting for
        self.logs = logs
        self.limits = limits or FetchLimits()

    def handlers(self) -> Mapping[str, Handler]:
        return {FETCH: self.serve}

    async def serve(self, stream: Stream) -> None:
        """Serve one stream, until the client has finished sending."""
        conversation = _FetchStream(self, stream)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(conversation.push(), name="fetch-push")
                await conversation.listen()
        finally:
            conversation.forget()


@dataclass(slots=True, eq=False)
class _Fetched:
    """A partition of a stream, until the client removes it or it fails. Either it is queued for a turn, or its replica
    will wake it; `withdraw` cancels the wake-up."""

    handle: int
    key: tuple[bytes, int]  # the topic's id, and the partition's number
    replica: ServedReplica
    leader_epoch: int | None
    offset: int
    max_bytes: int
    from_follower: bool
    seek: int = 0  # the number of the latest seek
    is_queued: bool = False
    is_over: bool = False
    woken_seconds: float | None = None  # when data arrived after a wait; None if nothing was awaited
    withdraw: Callable[[], None] = field(default=lambda: None)


class _FetchStream:
    """One stream: one task reads the client's requests, another pushes batches."""

    def __init__(self, service: FetchService, stream: Stream) -> None:
        self._clock = service.clock
        self._logs = service.logs
        self._stats = service.stats.of(FETCH)
        self._slow = service.stats.slow
        self._seconds = service.seconds
        self._limits = service.limits
        self._stream = stream
        self._client_id = ""
        self._credit_bytes = 0
        self._partitions: dict[int, _Fetched] = {}
        self._turns: deque[_Fetched] = deque()  # the partitions that may have data to send
        self._outbox = FetchOutbox()
        self._own = service.budget.open(stream)
        self._held: list[Claim] = []  # memory of the outbox's contents
        self._asked: Claim | None = None  # memory for the next turn
        self._news = asyncio.Event()
        self._drained = asyncio.Event()
        self._sent_ms = self._clock.monotonic_ms()
        self._has_ended = False  # the client has finished sending

    def forget(self) -> None:
        """Release everything: the stream has ended."""
        for fetched in self._partitions.values():
            fetched.withdraw()
        self._own.close()

    # -- listening

    async def listen(self) -> None:
        """Read requests until the client has finished sending."""
        while (data := await self._stream.receive()) is not None:
            request = self._read(data)
            for handle in request.remove:
                self._remove(handle)
            for add in request.add:
                self._add(add)
            for seek in request.seek:
                self._seek(seek)
            self._credit_bytes += request.credit_bytes
            self._news.set()
            while self._outbox.size_bytes > self._limits.unsent_bytes:
                self._drained.clear()
                await self._drained.wait()
        self._has_ended = True
        self._news.set()

    def _read(self, data: bytes) -> pb.FetchRequest:
        try:
            request = pb.FetchRequest.FromString(data)
            # A request is handled without yielding: a larger one would block all other streams.
            check_item_count(len(request.add) + len(request.remove) + len(request.seek), "partitions")
        except DecodeError as error:
            raise self._unreadable(f"not a FetchRequest: {error}") from None
        except ControllerError as error:
            raise self._unreadable(error.message) from None
        self._client_id = self._client_id or request.client_id
        return request

    def _unreadable(self, reason: str) -> StreamError:
        log.info("fetch_refused", client_id=self._client_id, peer=self._stream.peer, reason=reason)
        return invalid(reason)

    def _add(self, add: pb.FetchRequest.Add) -> None:
        try:
            self._check_add(add)
            fetched = _Fetched(
                handle=add.handle,
                key=(add.topic_id, add.partition),
                replica=self._logs.find(add.topic_id, add.partition),
                leader_epoch=epoch_given(add.leader_epoch, add.HasField("leader_epoch")),
                offset=add.offset,
                max_bytes=min(add.max_bytes or self._limits.partition_bytes, self._limits.partition_bytes),
                from_follower=add.from_follower,
            )
            self._begin(fetched, epoch_given(add.last_epoch, add.HasField("last_epoch")))
        except SERVICE_ERRORS as error:
            self._tell_error(add.handle, 0, error)
        else:
            self._partitions[add.handle] = fetched

    def _check_add(self, add: pb.FetchRequest.Add) -> None:
        if add.handle in self._partitions:
            # Further responses under this handle would be ambiguous, so end both partitions.
            self._remove(add.handle)
            raise _invalid(f"handle {add.handle} is already in use: use a new handle for each add")
        if len(self._partitions) >= self._limits.partitions:
            raise _invalid(f"a stream is limited to {self._limits.partitions} partitions: open another stream")
        if add.max_bytes < 0:
            raise _invalid(f"max_bytes cannot be {add.max_bytes}: expected 1 or more, or 0 for the broker's default")

    def _seek(self, seek: pb.FetchRequest.Seek) -> None:
        fetched = self._partitions.get(seek.handle)
        if fetched is None:
            return
        fetched.withdraw()
        fetched.offset, fetched.seek = seek.offset, seek.number
        fetched.woken_seconds = None  # no wait preceded the data at the new offset
        try:
            self._begin(fetched)
        except SERVICE_ERRORS as error:
            self._end(fetched, error)

    def _begin(self, fetched: _Fetched, last_epoch: int | None = None) -> None:
        """Report the partition's state at once, and give it its first turn."""
        fetched.replica.check_serves(fetched.leader_epoch, from_follower=fetched.from_follower)
        # Check the epoch before the offset: an offset beyond the end may result from truncated records before it.
        if last_epoch is not None:
            check_past(fetched.replica, last_epoch, fetched.offset)
        check_offset(fetched.replica, fetched.offset)
        self._outbox.add_data(fetched.handle, fetched.seek, fetched.replica, Batches([], fetched.offset))
        self._queue(fetched)

    def _remove(self, handle: int) -> None:
        fetched = self._partitions.pop(handle, None)
        if fetched is not None:
            fetched.is_over = True
            fetched.withdraw()

    def _end(self, fetched: _Fetched, error: Exception) -> None:
        self._remove(fetched.handle)
        self._tell_error(fetched.handle, fetched.seek, error)

    def _tell_error(self, handle: int, seek: int, error: Exception) -> None:
        detail = self._logs.detail(error)
        self._stats.failed(detail)
        self._outbox.add_error(handle, seek, detail)

    # -- pushing

    async def push(self) -> None:
        """Send available data, packed into messages, and keep-alives while idle. Return when the client has finished
        sending."""
        while not self._has_ended:
            self._news.clear()
            await self._take_turns()
            if self._outbox.size_bytes:
                await self._send()
            elif not self._news.is_set():
                await self._wait_for_news()

    async def _take_turns(self) -> None:
        """Serve partitions in turn, so that none waits for long."""
        while self._turns and self._credit_bytes > 0 and self._outbox.size_bytes < self._limits.message_bytes:
            claim = self._claim_for_turn(self._turns[0])
            if claim is None:
                return
            try:
                fetched = self._turns.popleft()
                fetched.is_queued = False
                if not fetched.is_over:
                    await self._take_turn(fetched, claim)
            finally:
                if claim not in self._held:
                    self._own.release(claim)
        if self._asked is not None:  # no turn is left that needs it
            self._own.release(self._asked)
            self._asked = None

    def _claim_for_turn(self, fetched: _Fetched) -> Claim | None:
        """Claim memory for the next read. Return None if none is free yet, and set `_news` once it is. Data already
        read, answers and keep-alives do not wait for memory."""
        if self._asked is None:
            most = min(fetched.max_bytes, self._credit_bytes, self._own.proven_bytes)
            self._asked = self._own.ask(min(most, FREE_BYTES), most, self._news.set)
        if self._asked.is_waiting:
            return None
        claim, self._asked = self._asked, None
        return claim

    async def _take_turn(self, fetched: _Fetched, claim: Claim) -> None:
        offset, seek, replica = fetched.offset, fetched.seek, fetched.replica
        try:
            replica.check_serves(fetched.leader_epoch, from_follower=fetched.from_follower)
            check_offset(replica, offset)
            max_bytes = min(fetched.max_bytes, self._credit_bytes, claim.size_bytes)
            batches = await self._read_timed(fetched, offset, max_bytes)
        except SERVICE_ERRORS as error:
            if not fetched.is_over and (offset, seek) == (fetched.offset, fetched.seek):
                self._end(fetched, error)
            return
        if fetched.is_over or (offset, seek) != (fetched.offset, fetched.seek):
            return  # removed, or moved by a seek, meanwhile
        if batches.buffers:
            self._own.resize(claim, batches.size_bytes)  # a single batch may exceed the claim
            self._held.append(claim)
            self._outbox.add_data(fetched.handle, seek, replica, batches)
            size_bytes = batches.size_bytes
            replica.traffic.gave_out(size_bytes, batches.next_offset - offset)
            self._credit_bytes -= size_bytes
            if fetched.woken_seconds is not None:
                self._seconds.observe(self._clock.monotonic_seconds() - fetched.woken_seconds)
                fetched.woken_seconds = None
            fetched.offset = batches.next_offset
            if fetched.offset < replica.high_watermark:
                self._queue(fetched)
                return
        # If nothing is readable below the watermark, wait for the watermark: its own offset would wake it at once.
        wanted = max(fetched.offset, replica.high_watermark)
        fetched.withdraw = replica.when_readable(wanted, lambda: self._wake(fetched))

    async def _read_timed(self, fetched: _Fetched, offset: int, max_bytes: int) -> Batches:
        began_seconds = self._clock.monotonic_seconds()
        batches = await self._read_from(fetched.replica, offset, max_bytes)
        seconds = self._clock.monotonic_seconds() - began_seconds
        if seconds >= self._slow.threshold_seconds:
            topic_id, partition = fetched.key
            self._slow.note(
                self._stats.method, seconds, waited_for="reading",
                topic=self._logs.name_of(topic_id), partition=partition, offset=offset,
                client_id=self._client_id, peer=self._stream.peer,
            )  # fmt: skip
        return batches

    async def _read_from(self, replica: ServedReplica, offset: int, max_bytes: int) -> Batches:
        if offset >= replica.high_watermark:
            return Batches([], offset)
        try:
            return await replica.read(offset, max_bytes)
        except OffsetOutOfRange:
            raise not_readable(replica, offset) from None

    def _wake(self, fetched: _Fetched) -> None:
        """Queue a turn: the partition has new data, or the replica's role has ended."""
        fetched.woken_seconds = self._clock.monotonic_seconds()
        self._queue(fetched)

    def _queue(self, fetched: _Fetched) -> None:
        if not fetched.is_queued and not fetched.is_over:
            fetched.is_queued = True
            self._turns.append(fetched)
            self._news.set()

    async def _send(self) -> None:
        held, self._held = self._held, []
        async with self._own.sending(*held):
            for message in self._outbox.take():
                await self._stream.send(message)
        self._sent_ms = self._clock.monotonic_ms()
        self._drained.set()

    async def _wait_for_news(self) -> None:
        silence_ms = self._clock.monotonic_ms() - self._sent_ms
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((self._limits.alive_every_ms - silence_ms) / 1000):
                await self._news.wait()
                return
        if self._asked is not None:
            self._own.look_for_stalled()
        await self._stream.send(b"")
        self._sent_ms = self._clock.monotonic_ms()


def _invalid(message: str) -> ReplicaError:
    return ReplicaError(errors_pb2.INVALID_REQUEST, message)
