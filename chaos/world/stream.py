"""The two ends of a simulated stream, which behave like those of `lograft.runtime.production.grpc_streams`."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.link import Credit, Frame, HalfClose, Message, ResetStream
from lograft.runtime.network import Status, StreamError, refuse_oversized
from lograft.runtime.rng import Rng

_MESSAGE_OVERHEAD_BYTES = 64  # empty messages need a bound, too


@dataclass(frozen=True, slots=True)
class Wire:
    """The parts of its connection that a stream uses."""

    stream_id: int
    peer: str
    transmit: Callable[[Frame], None]
    window_bytes: int
    rng: Rng


class VirtualStream:
    """Base of both ends: an inbox, a send window, and one waiter for each."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._inbox: deque[bytes] = deque()
        self._unacknowledged_bytes = 0
        self._send_waiter: asyncio.Future[None] | None = None
        self._receive_waiter: asyncio.Future[None] | None = None
        self._sending = False
        self._receiving = False
        self._crashed = False
        self.drop_reason = ""

    @property
    def peer(self) -> str:
        return self._wire.peer

    async def send(self, message: bytes) -> None:
        assert not self._sending, "two sends at once on one stream"
        refuse_oversized(message)
        self._sending = True
        try:
            if self._wire.rng.random() < 0.5:
                await asyncio.sleep(0)  # gRPC's send usually yields to other tasks
            while self._can_send() and self._unacknowledged_bytes >= self._wire.window_bytes:
                self._send_waiter = asyncio.get_running_loop().create_future()
                await self._send_waiter
        except asyncio.CancelledError:
            self._drop("a send was cancelled")
            raise
        finally:
            self._sending = False
        if self._can_send():
            self._unacknowledged_bytes += len(message) + _MESSAGE_OVERHEAD_BYTES
            self._wire.transmit(Message(self._wire.stream_id, message))

    async def receive(self) -> bytes | None:
        assert not self._receiving, "two receives at once on one stream"
        self._receiving = True
        try:
            self._raise_if_dropped()
            while not self._inbox and not self._has_ended():
                self._receive_waiter = asyncio.get_running_loop().create_future()
                await self._receive_waiter
                self._raise_if_dropped()
        except asyncio.CancelledError:
            self._drop("a receive was cancelled")
            raise
        finally:
            self._receiving = False
        if not self._inbox:
            return None
        message = self._inbox.popleft()
        self._wire.transmit(Credit(self._wire.stream_id, len(message) + _MESSAGE_OVERHEAD_BYTES))
        return message

    # -- events from the connection

    def message_arrived(self, body: bytes) -> None:
        self._inbox.append(body)
        self._wake()

    def credit_arrived(self, size: int) -> None:
        self._unacknowledged_bytes -= size
        assert self._unacknowledged_bytes >= 0
        self._wake()

    def crash(self) -> None:
        """Unwind any code that still uses the stream: its host has crashed."""
        self._crashed = True
        self._wake()

    # -- implemented by each end

    def _has_ended(self) -> bool:
        """Return whether the other end has finished sending. Raise if it failed. Called when the inbox is empty."""
        raise NotImplementedError

    def _can_send(self) -> bool:
        """Return whether messages can still be delivered. Raise if the stream is over."""
        raise NotImplementedError

    def _drop(self, reason: str) -> None:
        raise NotImplementedError

    def _raise_if_dropped(self) -> None:
        if self._crashed:
            raise SimulatedCrash
        if self.drop_reason:
            raise StreamError(Status.CANCELLED, self.drop_reason)

    def _wake(self) -> None:
        for waiter in (self._send_waiter, self._receive_waiter):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


class VirtualCallStream(VirtualStream):
    """The caller's end."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._half_closed = False
        self._is_over = False
        self._error: StreamError | None = None

    async def send(self, message: bytes) -> None:
        assert not self._half_closed, "a send after half_close"
        await super().send(message)

    async def half_close(self) -> None:
        assert not self._sending, "half_close during a send"
        if not (self._half_closed or self.drop_reason or self._is_over):
            self._half_closed = True
            self._wire.transmit(HalfClose(self._wire.stream_id))

    def reset(self) -> None:
        self._drop("the stream was reset by this end")

    def drop(self, reason: str) -> None:
        """Reset the stream. Code waiting at this end receives `reason`."""
        self._drop(reason)

    def ended(self, error: StreamError | None) -> None:
        """Handle the arrival of the handler's outcome."""
        self._is_over = True
        self._error = error
        self._wake()

    def connection_lost(self, reason: str) -> None:
        if self._is_over:
            return
        if self._wire.rng.random() < 0.5:
            self._inbox.clear()
        self.ended(StreamError(Status.UNAVAILABLE, reason))

    def _drop(self, reason: str) -> None:
        if self.drop_reason or (self._is_over and not self._inbox):
            return
        self.drop_reason = reason
        self._wire.transmit(ResetStream(self._wire.stream_id))
        self._wake()

    def _has_ended(self) -> bool:
        if self._error is not None:
            raise _copy(self._error)
        return self._is_over

    def _can_send(self) -> bool:
        self._raise_if_dropped()
        if not self._is_over:
            return True
        if self._inbox:
            return False  # the caller learns of the end only after the last message
        if self._error is not None:
            raise _copy(self._error)
        raise StreamError(Status.CANCELLED, "the stream is over: its handler has returned")


class VirtualHandlerStream(VirtualStream):
    """The handler's end."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._caller_finished = False
        self.task: asyncio.Task[Any] | None = None

    async def half_close(self) -> None:
        raise AssertionError("a handler finishes its stream by returning")

    def reset(self) -> None:
        self.abandon("the stream was reset by its handler")

    def half_closed(self) -> None:
        """Note that the caller has finished sending."""
        self._caller_finished = True
        self._wake()

    def abandon(self, reason: str) -> None:
        """Cancel the handler."""
        if self.drop_reason or self.task is None or self.task.done():
            return
        self._drop(reason)
        self.task.cancel()

    def finished(self) -> None:
        """Mark the stream as over: the handler has returned, and may have leaked the stream."""
        self._drop("the stream is over: its handler has returned")

    def crash(self) -> None:
        super().crash()
        if self.task is not None:
            self.task.cancel()

    def _drop(self, reason: str) -> None:
        self.drop_reason = self.drop_reason or reason
        self._wake()

    def _has_ended(self) -> bool:
        return self._caller_finished

    def _can_send(self) -> bool:
        self._raise_if_dropped()
        return True


def _copy(error: StreamError) -> StreamError:
    """Return a fresh exception: one object raised twice would accumulate tracebacks."""
    return StreamError(error.status, error.message, error.detail)
