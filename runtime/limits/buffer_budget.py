"""The memory that a server holds for its clients: received messages in progress, and messages waiting to be sent.

with budget.open(stream) as own:
    claim = await own.take(least, most)      # waits for its turn
    async with own.sending(claim):           # always released afterwards
        await stream.send(message)

Messages between nodes are not counted. A client's message is held until followers have it, so with a shared budget
replication could wait for itself.
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
"""Messages up to this size are not counted, so that answers and acknowledgements do not wait."""

LARGE_BYTES = 8 * _MEBIBYTE
"""Messages of at least this size take turns, and are refused if there is no memory for them."""

_LOOK_MS = 500
_EXPECTED_FOR_MS = 200
_LARGEST_PART = 8
_FIRST_BYTES = 256 * 1024


def default_budget_bytes(memory_bytes: int) -> int:
    """Return an eighth of the memory, within bounds: while messages are copied, they briefly take up to four times
    their size."""
    return max(64 * _MEBIBYTE, min(memory_bytes // 8, 1024 * _MEBIBYTE))


class BufferBudget:
    """The budget of one node for all its clients.

    `large_turns`: serializes large messages, from reading to storing. Together they would keep the disks and the event
    loop busy for many seconds, and delay the messages of all other clients. A turn ends when the leader has stored the
    message, whether or not followers have it.
    """

    def __init__(self, limit_bytes: int, clock: Clock) -> None:
        self.bytes = ByteBudget(limit_bytes)
        self.large_turns = asyncio.Semaphore(1)
        self.large: dict[Claim, None] = {}  # claims of received large messages
        self.cut_off = 0
        self._clock = clock
        self._sending: dict[StreamBudget, int] = {}  # by time since when, the earliest first

    def open(self, stream: Stream) -> "StreamBudget":
        """Return the budget of one stream; close it afterwards. All streams of a connection share an account."""
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
        """End streams whose clients have stopped reading, because other streams wait for memory."""
        since_ms = self._clock.monotonic_ms() - STALLED_MS
        while self._sending:  # every waiting stream calls this, so the cost must not grow with the number of receivers
            own, began_ms = next(iter(self._sending.items()))
            if began_ms > since_ms:
                return
            del self._sending[own]
            self.cut_off += 1
            log.warning("slow_reader_cut_off", peer=own.stream.peer, held_bytes=own.held_bytes)
            own.stream.reset()


class LargeTurn:
    """The turn of one stream or call, taken for each of its large messages. `end` has no effect without a turn."""

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
    """The memory of one stream. `close` releases all of it.

    `proven_bytes`: the most to send at once. It doubles with each message that the client has taken, so the server
    never holds much for a client that does not read.
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
        """Wait for this stream's turn, and return a claim of `least` to `most` bytes; `claim.size_bytes` has the
        number."""
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
        """Return a claim at once, without waiting for the grant. `claim.is_waiting` is True until the claim is granted;
        then `granted` is called. While it waits, the caller must call `look_for_stalled` periodically."""
        claim = self._budget.bytes.claim(self._account, least, most, granted)
        self._claims[claim] = None
        return claim

    def look_for_stalled(self) -> None:
        self._budget.cut_off_stalled()

    def charge(self, size_bytes: int) -> Claim:
        """Claim the memory of a received message, which may exceed the limit. Raise `StreamError` for a large message
        over the limit, unless it is the only large one; the sender must retry it later."""
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
        """Hold the claims while their messages are sent, then release them."""
        self._budget.began_sending(self)
        try:
            yield
            self.proven_bytes *= 2
        finally:
            self._budget.ended_sending(self)
            for claim in claims:
                self.release(claim)

    async def ready_to_receive(self, expected_bytes: int) -> None:
        """Return when there is memory for one more message, of about this expected size.

        Reserve the memory until the message arrives, but only briefly, because that may take long.
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
        """Return how much memory must be free for a message: limited, so that a large message does not wait forever."""
        return min(size_bytes, self._budget.bytes.limit_bytes // _LARGEST_PART)

    async def take_for(self, message: bytes) -> Claim:
        """Wait for a turn, and return a claim for a message that is in memory and waits to be sent."""
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
    """Return the handlers, wrapped so that the budget counts their larger messages, for services unaware of it."""
    return {method: _budgeted(handler, budget) for method, handler in handlers.items()}


def _budgeted(handler: Handler, budget: BufferBudget) -> Handler:
    async def serve(stream: Stream) -> None:
        with budget.open(stream) as own:
            await handler(_BudgetedStream(stream, own))

    return serve


class _BudgetedStream:
    """Holds the memory of each received message until the next one arrives, and of each outgoing one until it is
    sent."""

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
            # The request is being answered. And a stream must not hold memory while it waits for more.
            self._own.release(self._received)
            self._received = None
        if len(message) <= FREE_BYTES:
            await self._stream.send(message)
            return
        async with self._own.sending(await self._own.take_for(message)):
            await self._stream.send(message)
