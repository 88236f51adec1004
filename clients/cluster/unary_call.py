"""Calls over the runtime's streams, and races whose failures are the client's errors."""

import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from lograft.clients.errors import Internal, error_of_stream
from lograft.runtime.network import Connection, StreamError
from lograft.runtime.tasks import cancellation

R = TypeVar("R", bound=Message)


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
        await cancellation.keep_cancellation(cancellation.until_first(*coroutines))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
