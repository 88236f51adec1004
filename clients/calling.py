"""Calls over the runtime's streams, and what goes with streams that must not be silent or fail for ever."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from lograft.clients.errors import Internal, error_of_stream
from lograft.runtime.cancellation import keep_cancellation
from lograft.runtime.clock import Clock
from lograft.runtime.network import Connection, StreamError
from lograft.runtime.rng import Rng

R = TypeVar("R", bound=Message)

SILENCE_LIMIT_MS = 1500
"""Brokers say something every 500 ms on streams that are watched."""

# A deadline noticed this late means that our own loop stood still: what came meanwhile is read before it counts.
_STALL_MS = 100
_SETTLE_MS = 20


async def call(connection: Connection, method: str, request: Message, response_type: type[R]) -> R:
    """The answer to one request. `LograftError` if it is refused, or its outcome cannot be known."""
    stream = connection.open(method)
    try:
        await stream.send(request.SerializeToString())
    except StreamError as error:
        raise error_of_stream(error, was_sent=False) from None
    try:
        await stream.half_close()
        answer = await stream.receive()
    except StreamError as error:
        raise error_of_stream(error) from None
    if answer is None:
        raise Internal(f"{stream.peer} ended {method} without an answer")
    # It has answered: what becomes of the stream afterwards changes nothing.
    with contextlib.suppress(StreamError):
        if await stream.receive() is not None:
            stream.reset()
    return read_answer(response_type, answer)


def read_answer(response_type: type[R], answer: bytes) -> R:
    """`Internal` if it is no such message: the request may have been carried out."""
    try:
        return response_type.FromString(answer)
    except DecodeError as error:
        raise Internal(f"the answer is not a {response_type.DESCRIPTOR.name}: {error}") from None


async def until_first(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all at once until one returns or raises; the others are cancelled, and have ended when this returns.

    What the first that failed raised is raised. A task group whose member fails just when it is cancelled forgets the
    cancellation: hence the keeping.
    """
    try:
        await keep_cancellation(_race(*coroutines))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _race(*coroutines: Coroutine[Any, Any, object]) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


class Silence:
    """Since when nothing was heard. Begins when it is made."""

    def __init__(self, clock: Clock, limit_ms: int = SILENCE_LIMIT_MS) -> None:
        self._clock = clock
        self.limit_ms = limit_ms
        self._heard_ms = clock.monotonic_ms()

    def heard(self) -> None:
        self._heard_ms = self._clock.monotonic_ms()

    @property
    def lasted_ms(self) -> int:
        return self._clock.monotonic_ms() - self._heard_ms

    async def too_long(self) -> None:
        """Return when nothing was heard for the limit, unless it was our own loop that stood still."""
        while True:
            deadline_ms = self._heard_ms + self.limit_ms
            await self._clock.sleep_ms(max(deadline_ms - self._clock.monotonic_ms(), 0))
            if self._clock.monotonic_ms() - deadline_ms > _STALL_MS:
                await self._clock.sleep_ms(_SETTLE_MS)
            if self._heard_ms + self.limit_ms <= self._clock.monotonic_ms():
                return


class Backoff:
    """Delays that double with each failure; with jitter, lest those who failed together come back together."""

    def __init__(self, rng: Rng, first_ms: int, last_ms: int) -> None:
        self._rng = rng
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._failures = 0

    def next_ms(self) -> float:
        """How long to wait before the next attempt."""
        longest_ms = min(self._last_ms, self._first_ms << min(self._failures, 16))
        self._failures += 1
        return self._rng.uniform(longest_ms / 2, longest_ms)

    def succeeded(self) -> None:
        self._failures = 0
