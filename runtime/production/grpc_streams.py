"""The two ends of a gRPC stream: `CallStream` for the caller, `HandlerStream` for the handler."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

from grpc import StatusCode, aio

from lograft.runtime.network import MessageTooLarge, Status, StreamError, refuse_oversized
from lograft.runtime.tasks.cancellation import keep_cancellation

ERROR_DETAIL_KEY = "lograft-error-bin"
_TOO_LARGE = re.compile(r"eceived message larger than max \((\d+) vs\.? (\d+)\)")  # refused by gRPC itself
_MESSAGE_MAX_CHARACTERS = 1024  # trailers travel as HTTP/2 headers, which are limited to a few KiB
_END_OF_FILE_CONFIRMATION_SECONDS = 0.02

_STATUS_OF_CODE = {code: Status(code.value[0]) for code in StatusCode if code is not StatusCode.OK}
_CODE_OF_STATUS = {status: code for code, status in _STATUS_OF_CODE.items()}

# The errors that grpc.aio raises for an operation on a call that is over; the call's status has the reason. The list
# names base classes, because the error for a stopped server has no public name.
_OVER_ERRORS = (aio.BaseError, asyncio.InvalidStateError)


def _error_of(code: StatusCode, message: str | None, trailing_metadata: Any) -> StreamError:
    if code is StatusCode.OK:
        return StreamError(Status.CANCELLED, "the stream is over: its handler has returned")
    detail = b""
    for key, value in trailing_metadata or ():
        if key == ERROR_DETAIL_KEY:
            detail = value
    status = _STATUS_OF_CODE[code]
    if status is Status.RESOURCE_EXHAUSTED and (sizes := _TOO_LARGE.search(message or "")) is not None:
        return MessageTooLarge(*map(int, sizes.groups()))
    return StreamError(status, message or "", detail)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class CallStream:
    """The caller's end of a stream."""

    def __init__(self, call: Any, peer: str) -> None:
        self._call = call
        # If a send fails, grpc.aio's `write` sets the call's status to INTERNAL, which hides the true status and
        # discards messages not yet read. The object below it does not.
        self._cython_call = call._cython_call
        self._peer = peer
        self._starting: asyncio.Task[None] | None = None
        self._started = False
        self._sending = False
        self._receiving = False
        self._half_closed = False
        self._drop_reason = ""

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, message: bytes) -> None:
        assert not self._sending, "two sends at once on one stream"
        assert not self._half_closed, "a send after half_close"
        refuse_oversized(message)
        self._sending = True
        try:
            await keep_cancellation(self._send(message))
        except asyncio.CancelledError:
            raise self._cancellation() from None
        except aio.AioRpcError as error:
            raise _error_of(error.code(), error.details(), error.trailing_metadata()) from None
        except _OVER_ERRORS:
            # The stream is not over while messages wait to be read: the status follows the last of them.
            await self._raise_if_over()
        finally:
            self._sending = False

    async def receive(self) -> bytes | None:
        assert not self._receiving, "two receives at once on one stream"
        self._raise_if_dropped()
        self._receiving = True
        try:
            message = await keep_cancellation(self._call.read())
        except asyncio.CancelledError:
            raise self._cancellation() from None
        except aio.AioRpcError as error:
            raise _error_of(error.code(), error.details(), error.trailing_metadata()) from None
        finally:
            self._receiving = False
        return None if message is aio.EOF else bytes(message)

    async def half_close(self) -> None:
        if self._half_closed or self._drop_reason or self._call.done():
            return
        assert not self._sending, "half_close during a send"
        self._half_closed = True
        try:
            await keep_cancellation(self._finish())
        except asyncio.CancelledError:
            raise self._cancellation() from None
        except (aio.AioRpcError, *_OVER_ERRORS):
            return  # already over: `receive` reports the outcome

    def reset(self) -> None:
        self.drop("the stream was reset by this end")

    def drop(self, reason: str) -> None:
        """Reset the stream, and give callers waiting at this end the reason."""
        if not self._drop_reason and not self._call.done():
            self._drop_now(reason)

    def _drop_now(self, reason: str) -> None:
        self._drop_reason = reason
        # Cancel it later: a call cancelled before its first step would never get a status.
        asyncio.get_running_loop().call_soon(self._cancel_call)

    async def ended(self) -> None:
        """Return when gRPC has finished the call."""
        with contextlib.suppress(aio.AioRpcError, *_OVER_ERRORS):
            await self._call.code()

    def _cancel_call(self) -> None:
        self._call.cancel()
        if self._starting is not None:
            self._starting.cancel()

    async def _send(self, message: bytes) -> None:
        await self._raise_if_over()
        await self._start()
        await self._cython_call.send_serialized_message(message)

    async def _finish(self) -> None:
        await self._start()
        await self._call.done_writing()

    async def _start(self) -> None:
        """Wait until the call can carry messages. The wait is a task of its own, because a reset must be able to cancel
        it."""
        if self._started:
            return
        self._starting = asyncio.ensure_future(self._call.wait_for_connection())
        await self._starting
        self._started = True

    def _cancellation(self) -> BaseException:
        """Return the exception to raise for gRPC's CancelledError, which means that either this task was cancelled, or
        the call was dropped."""
        if self._drop_reason and not _is_being_cancelled():
            return StreamError(Status.CANCELLED, self._drop_reason)
        if not self._drop_reason:
            self._drop_now("a send or receive was cancelled")
        return asyncio.CancelledError()

    def _raise_if_dropped(self) -> None:
        if self._drop_reason:
            raise StreamError(Status.CANCELLED, self._drop_reason)

    async def _raise_if_over(self) -> None:
        self._raise_if_dropped()
        if self._call.done():
            call = self._call
            raise _error_of(await call.code(), await call.details(), await call.trailing_metadata())


def address_of(peer: str) -> tuple[str, int] | None:
    """Return the host and port of a gRPC peer such as `ipv4:10.0.0.7:51234` or `ipv6:%5B::1%5D:51234`."""
    kind, _, address = unquote(peer).partition(":")
    host, _, port = address.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return host.strip("[]").removeprefix("::ffff:"), int(port)


class LostStream:
    """A stream opened on a broken connection."""

    def __init__(self, peer: str) -> None:
        self._peer = peer

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, message: bytes) -> None:
        raise self._error()

    async def receive(self) -> bytes | None:
        raise self._error()

    async def half_close(self) -> None:
        return

    def reset(self) -> None:
        return

    def _error(self) -> StreamError:
        return StreamError(Status.UNAVAILABLE, f"the connection to {self._peer} is broken")


def _forget_frames(error: BaseException, _task: object) -> None:
    error.__traceback__ = error.__context__ = None


class HandlerStream:
    """The handler's end of a stream."""

    def __init__(
        self,
        context: Any,
        task: "asyncio.Task[Any]",
        on_received: Callable[[tuple[str, int], int], None] | None = None,
    ) -> None:
        self._context = context
        self._on_received = on_received
        self._address = None if on_received is None else address_of(str(context.peer()))
        self._task = task
        self._sending = False
        self._receiving = False
        self._sent = False
        self._other_end_finished = False
        self.drop_reason = ""

    @property
    def peer(self) -> str:
        return str(self._context.peer())

    async def send(self, message: bytes) -> None:
        assert not self._sending, "two sends at once on one stream"
        self._raise_if_dropped()
        refuse_oversized(message)
        self._sending = True
        self._sent = True
        try:
            await self._context.write(message)
        except asyncio.CancelledError:
            self.drop_reason = self.drop_reason or "a send was cancelled"
            raise
        except _OVER_ERRORS:
            raise self._caller_gone() from None
        finally:
            self._sending = False

    async def receive(self) -> bytes | None:
        assert not self._receiving, "two receives at once on one stream"
        self._raise_if_dropped()
        if self._other_end_finished:
            return None
        self._receiving = True
        try:
            message = await self._context.read()
            if message is not aio.EOF:
                if self._on_received is not None and self._address is not None:
                    self._on_received(self._address, len(message))
                return bytes(message)
            await self._confirm_end_of_file()
        except asyncio.CancelledError:
            self.drop_reason = self.drop_reason or "a receive was cancelled"
            raise
        except _OVER_ERRORS:
            raise self._caller_gone() from None
        finally:
            self._receiving = False
        self._other_end_finished = True
        return None

    async def half_close(self) -> None:
        raise AssertionError("a handler finishes its stream by returning")

    def reset(self) -> None:
        if not self.drop_reason and not self._task.done():
            self.drop_reason = "the stream was reset by its handler"
            self._task.cancel()

    async def end(self, error: StreamError) -> None:
        """Send the caller `error`. Raise gRPC's AbortError, which must propagate."""
        trailing_metadata = ((ERROR_DETAIL_KEY, error.detail),) if error.detail else ()
        message = error.message[:_MESSAGE_MAX_CHARACTERS]
        try:
            await self._context.abort(_CODE_OF_STATUS[error.status], message, trailing_metadata)
        except aio.AbortError as abort:
            # gRPC's state of the call refers to this error, whose frames refer to that state. Until the next garbage
            # collection, a failed call would keep all received messages in memory.
            self._task.add_done_callback(partial(_forget_frames, abort))
            raise
        except aio.BaseError:
            pass  # the caller is gone

    async def _confirm_end_of_file(self) -> None:
        """Distinguish the caller's half-close from its death. gRPC reports both as end of file, the latter before it
        cancels the handler."""
        if not self._sent:
            # Headers can be sent only once, and only to a live caller: a reliable test without waiting.
            self._sent = True
            await self._context.send_initial_metadata(())
        else:
            await asyncio.sleep(_END_OF_FILE_CONFIRMATION_SECONDS)
        if self._context.cancelled():
            raise self._caller_gone()

    def _caller_gone(self) -> StreamError:
        self.drop_reason = self.drop_reason or "the caller is gone"
        return StreamError(Status.CANCELLED, self.drop_reason)

    def _raise_if_dropped(self) -> None:
        if self.drop_reason:
            raise StreamError(Status.CANCELLED, self.drop_reason)
