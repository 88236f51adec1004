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
        return error
    except asyncio.CancelledError:
        return StreamError(Status.CANCELLED, stream.drop_reason or "the handler was cancelled")
    except Exception as error:
        on_panic(error)
        return StreamError(Status.INTERNAL, f"the server failed: {type(error).__name__}")
    if stream.drop_reason:
        return StreamError(Status.CANCELLED, stream.drop_reason)
    return None
