"""Runs the handler of one stream and interprets its outcome, the same way over gRPC and in simulation."""

import asyncio
from typing import Protocol

from lograft.runtime.network import Handler, PanicHandler, Status, Stream, StreamError


class ServedStream(Stream, Protocol):
    """A handler's end of a stream. `drop_reason` is set once the stream is unusable."""

    drop_reason: str


async def run_handler(handler: Handler, stream: ServedStream, on_panic: PanicHandler) -> StreamError | None:
    """Run the handler. Return the error to end the stream with, or None on success."""
    try:
        await handler(stream)
    except StreamError as error:
        return _without_frames(error)
    except asyncio.CancelledError:
        return StreamError(Status.CANCELLED, stream.drop_reason or "the handler was cancelled")
    except Exception as error:
        if (expected := _stream_error_in(error)) is not None:
            return _without_frames(expected)
        on_panic(error)
        return StreamError(Status.INTERNAL, f"the server failed: {type(error).__name__}")
    if stream.drop_reason:
        return StreamError(Status.CANCELLED, stream.drop_reason)
    return None


def _without_frames(error: StreamError) -> StreamError:
    """Return the same exception without its frames, which would keep the handler's messages in memory."""
    return StreamError(error.status, error.message, error.detail)


def _stream_error_in(error: Exception) -> StreamError | None:
    """Return the first stream error of a group that contains only those, as a handler with a task group raises.
    Otherwise return None."""
    if isinstance(error, ExceptionGroup):
        inner = [_stream_error_in(one) for one in error.exceptions]
        return inner[0] if None not in inner else None
    return error if isinstance(error, StreamError) else None
