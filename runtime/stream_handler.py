"""How one stream is served: what a handler's outcome means, the same over gRPC and in simulation."""

import asyncio
from typing import Protocol

from lograft.runtime.network import Handler, PanicHandler, Status, Stream, StreamError


class ServedStream(Stream, Protocol):
    """A handler's end of a stream. `drop_reason` is not empty once the stream can carry no more."""

    drop_reason: str


async def run_handler(handler: Handler, stream: ServedStream, on_panic: PanicHandler) -> StreamError | None:
    """Serve one stream. The error to end it with, or None if it ended well."""
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
    """Return the same, without the frames that it passed: they hold what the handler received, for as long as it is
    told."""
    return StreamError(error.status, error.message, error.detail)


def _stream_error_in(error: Exception) -> StreamError | None:
    """A handler that works in a task group has its stream's errors in a group: the first, if there is nothing else."""
    if isinstance(error, ExceptionGroup):
        inner = [_stream_error_in(one) for one in error.exceptions]
        return inner[0] if None not in inner else None
    return error if isinstance(error, StreamError) else None
