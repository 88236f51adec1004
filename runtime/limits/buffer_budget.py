"""The memory a server holds for its clients: received messages in progress, and messages waiting to be sent.

with budget.open(stream) as own:
    claim = await own.take(least, most)      # waits for its turn
    async with own.sending(claim):           # released afterwards, whatever happens
        await stream.send(message)

Messages between nodes are not counted: a client's message is held until followers have it, so with a shared budget
replication would wait for itself.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Self

from lograft.proto import errors_pb2
from lograft.proto.errors import error_detail
from lograft.runtime.clock import Clock
from lograft.runtime.limits.byte_budget import Account, ByteBudget, Claim
from lograft.runtime.network import Handler, Status, Stream, StreamError
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

STALLED_MS = 5000
"""A client that reads nothing for this long, while others wait for memory, is cut off."""

_MEBIBYTE = 1024 * 1024
DEFAULT_BUDGET_BYTES = 256 * _MEBIBYTE

FREE_BYTES = 64 * 1024
"""Smaller messages are not counted: answers and acknowledgements wait for nothing."""

LARGE_BYTES = 8 * _MEBIBYTE
"""Messages of this size and more take turns, and are refused where there is no room for them."""

_LOOK_MS = 500
_EXPECTED_FOR_MS = 200
_LARGEST_PART = 8
_FIRST_BYTES = 256 * 1024


def default_budget_bytes(memory_bytes: int) -> int:
    """Return an eighth of the memory: what is held takes up to four times as much for a moment, while it is copied."""
    return max(64 * _MEBIBYTE, min(memory_bytes // 8, 1024 * _MEBIBYTE))


class BufferBudget:
    """Of one node, for all its clients.

    `large_turns`: large messages are read and stored one after the other. Together they would keep disks and loop busy
    for many seconds, and all that others sent would come after them. A turn ends when the leader has stored the
    message, whether followers have it or not.
    """

    def __init__(self, limit_bytes: int, clock: Clock) -> None:
        self.bytes = ByteBudget(limit_bytes)
        self.large_turns = asyncio.Semaphore(1)
        self.large: dict[Claim, None] = {}  # claims of large messages that came
        self.cut_off = 0
        self._clock = clock
        self._sending: dict[StreamBudget, int] = {}  # since when: the earliest comes first

    def open(self, stream: Stream) -> "StreamBudget":
        """For one stream, until it is closed. All streams of a connection share an account."""
        return StreamBudget(self, stream)

    @property
    def clock(self) -> Clock:
        return self._clock

    def began_sending(self, own: "StreamBudget") -> None:
        self._sending.pop(own, None)
        self._sending[own] = self._clock.monotonic_ms()

    def ended_sending(self, own: "StreamBudget") -> None:
        self._sending.pop(own, None)

    def cut_off_stalled(self) -> None:
        """End streams whose other end reads nothing, because others wait for memory."""
        since_ms = self._clock.monotonic_ms() - STALLED_MS
        while self._sending:  # every waiting stream checks: the cost must not grow with the number of receivers
            own, began_ms = next(iter(self._sending.items()))
            if began_ms > since_ms:
                return
            del self._sending[own]
            self.cut_off += 1
            log.warning("slow_reader_cut_off", peer=own.stream.peer, held_bytes=own.held_bytes)
            own.stream.reset()


class LargeTurn:
    """The turn of one stream or call, taken for each of its large messages. `end` does nothing if there is none."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self.is_taken = False

    async def take(self) -> None:
        await self._turns.acquire()
        self.is_taken = True

    def end(self) -> None:
        if self.is_taken:
            self.is_taken = False
            self._turns.release()


class StreamBudget:
    """What one stream holds. `close` releases all of it.

    `proven_bytes`: how much may be sent at once, because the other end took half of that before: one that reads nothing
    makes nobody hold much.
    """

    def __init__(self, budget: BufferBudget, stream: Stream) -> None:
        self.stream = stream
        self._budget = budget
        self._account: Account = budget.bytes.open(stream.peer)
        self._claims: dict[Claim, None] = {}
        self._expected: Claim | None = None
        self.proven_bytes = _FIRST_BYTES
        self._is_closed = False

    @property
    def held_bytes(self) -> int:
        return sum(claim.size_bytes for claim in self._claims)

    async def take(self, least: int, most: int) -> Claim:
        """From `least` to `most` bytes, when it is this stream's turn; `claim.size_bytes` says how many."""
        granted = asyncio.Event()
        claim = self._budget.bytes.claim(self._account, least, most, granted.set)
        self._claims[claim] = None
        try:
            while not granted.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_MS / 1000):
                        await granted.wait()
                        break
                self._budget.cut_off_stalled()
        except BaseException:
            self.release(claim)
            raise
        return claim

    def ask(self, least: int, most: int, granted: Callable[[], None]) -> Claim:
        """As `take`, for who has other things to do meanwhile: `claim.is_waiting` says whether it was granted, and
        `granted` is called when it is. Whoever still waits calls `look_for_stalled` now and then."""
        claim = self._budget.bytes.claim(self._account, least, most, granted)
        self._claims[claim] = None
        return claim

    def look_for_stalled(self) -> None:
        self._budget.cut_off_stalled()

    def charge(self, size_bytes: int) -> Claim:
        """What has come already. `StreamError` for a large message beyond the limit, unless it is the only one: nothing
        was done with it, and its sender keeps it until there is room."""
        if self._expected is not None:
            self.release(self._expected)
            self._expected = None
        budget = self._budget
        is_large = size_bytes >= LARGE_BYTES
        if is_large and budget.large and budget.bytes.held_bytes + size_bytes > budget.bytes.limit_bytes:
            raise _no_room(size_bytes)
        claim = budget.bytes.charge(self._account, size_bytes)
        self._claims[claim] = None
        if is_large:
            budget.large[claim] = None
        return claim

    def resize(self, claim: Claim, size_bytes: int) -> None:
        if claim in self._claims:
            self._budget.bytes.resize(claim, size_bytes)

    def release(self, claim: Claim) -> None:
        self._claims.pop(claim, None)
        self._budget.large.pop(claim, None)
        self._budget.bytes.release(claim)

    @contextlib.asynccontextmanager
    async def sending(self, *claims: Claim) -> AsyncIterator[None]:
        """While that is sent: then it is released."""
        self._budget.began_sending(self)
        try:
            yield
            self.proven_bytes *= 2
        finally:
            self._budget.ended_sending(self)
            for claim in claims:
                self.release(claim)

    async def ready_to_receive(self, expected_bytes: int) -> None:
        """Return when there is room for one more message, of about this size as it seems.

        The room is kept until it comes, but for a moment only: that may be long.
        """
        if expected_bytes <= FREE_BYTES and not self._budget.bytes.waiting and self._budget.bytes.room(self._account):
            return
        least = self._at_least(expected_bytes)
        claim = await self.take(least, least)
        if expected_bytes <= FREE_BYTES:
            self.release(claim)
        else:
            self._expected = claim
            asyncio.get_running_loop().call_later(_EXPECTED_FOR_MS / 1000, self.release, claim)

    def _at_least(self, size_bytes: int) -> int:
        """Return how much must be free for so much: what is larger than a part of all is not to wait for ever."""
        return min(size_bytes, self._budget.bytes.limit_bytes // _LARGEST_PART)

    async def take_for(self, message: bytes) -> Claim:
        """For what is in memory and waits to be sent."""
        least = self._at_least(len(message))
        claim = await self.take(least, least)
        self.resize(claim, len(message))
        return claim

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._budget.ended_sending(self)
        for claim in list(self._claims):
            self.release(claim)
        self._budget.bytes.close(self._account)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _no_room(size_bytes: int) -> StreamError:
    message = (
        f"there is no memory for a message of {size_bytes} bytes beside the large ones that others sent: send it again "
        "later; smaller ones wait instead, and a larger network_buffer_bytes takes more at once"
    )
    return StreamError(Status.UNAVAILABLE, message, error_detail(errors_pb2.UNAVAILABLE, message).SerializeToString())


def budgeted(handlers: Mapping[str, Handler], budget: BufferBudget) -> dict[str, Handler]:
    """Handlers whose large messages are counted, for services that know nothing of it."""
    return {method: _budgeted(handler, budget) for method, handler in handlers.items()}


def _budgeted(handler: Handler, budget: BufferBudget) -> Handler:
    async def serve(stream: Stream) -> None:
        with budget.open(stream) as own:
            await handler(_BudgetedStream(stream, own))

    return serve


class _BudgetedStream:
    """Holds what comes until the next message does, and what is sent until it is."""

    def __init__(self, stream: Stream, own: StreamBudget) -> None:
        self._stream = stream
        self._own = own
        self._received: Claim | None = None
        self.half_close = stream.half_close
        self.reset = stream.reset

    @property
    def peer(self) -> str:
        return self._stream.peer

    async def receive(self) -> bytes | None:
        message = await self._stream.receive()
        if message is not None:
            if self._received is not None:
                self._own.release(self._received)
                self._received = None
            if len(message) > FREE_BYTES:
                self._received = self._own.charge(len(message))
        return message

    async def send(self, message: bytes) -> None:
        if self._received is not None:
            # It is answered now. And nobody is to wait for room who keeps it from others.
            self._own.release(self._received)
            self._received = None
        if len(message) <= FREE_BYTES:
            await self._stream.send(message)
            return
        async with self._own.sending(await self._own.take_for(message)):
            await self._stream.send(message)
