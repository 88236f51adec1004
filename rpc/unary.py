"""Unary calls over the runtime's streams: one request, one answer.

Callers use `call`, or `exchange` for serialized messages; servers wrap a function with `unary`.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from lograft.proto import errors_pb2
from lograft.proto.wire_format import CodecError
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_controller_error, to_stream_error
from lograft.runtime.network import Connection, Handler, Status, Stream, StreamError

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

_LOST = (Status.UNAVAILABLE, Status.CANCELLED)


class NotSent(StreamError):
    """The stream ended before the request was sent: nothing was done. Its detail says so."""

    def __init__(self, cause: StreamError) -> None:
        detail = cause.detail
        if not detail and cause.status in _LOST:
            lost = ControllerError(errors_pb2.UNAVAILABLE, f"the request could not be sent: {cause.message}")
            detail = to_stream_error(lost).detail
        super().__init__(cause.status, cause.message, detail)


# -- the caller's side


async def call(connection: Connection, method: str, request: Message, response_type: type[R]) -> R:
    """Return the answer to `request`. Raise ControllerError if it is refused, or its outcome is unknown."""
    try:
        answer = await exchange(connection, method, request.SerializeToString())
    except StreamError as error:
        raise to_controller_error(error) from None
    return read_answer(response_type, answer)


async def exchange(connection: Connection, method: str, request: bytes) -> bytes:
    """Return the answer to `request`. Raise NotSent if the request certainly was not sent, else the stream's
    StreamError."""
    stream = connection.open(method)
    try:
        await stream.send(request)
    except StreamError as error:
        raise NotSent(error) from None
    await stream.half_close()
    answer = await stream.receive()
    if answer is None:
        raise StreamError(Status.INTERNAL, f"{stream.peer} ended {method} without an answer")
    # The answer is here: the end of the stream does not matter.
    with contextlib.suppress(StreamError):
        if await stream.receive() is not None:
            stream.reset()
    return answer


def read_answer(response_type: type[R], answer: bytes) -> R:
    """Parse the answer. Raise ControllerError if it is malformed: the request may have been carried out."""
    try:
        return response_type.FromString(answer)
    except DecodeError as error:
        name = response_type.DESCRIPTOR.name
        raise ControllerError(errors_pb2.INTERNAL, f"the answer is not a {name}: {error}") from None


# -- the server's side


Admission: TypeAlias = Callable[[bytes], contextlib.AbstractAsyncContextManager[None]]
"""Entered before a request is read, and left when it is answered. It may wait, or refuse with StreamError."""


def _admit_at_once(_: bytes) -> contextlib.AbstractAsyncContextManager[None]:
    return contextlib.nullcontext()


def unary(
    handle: Callable[[Q], Awaitable[Message]], request_type: type[Q], admission: Admission = _admit_at_once
) -> Handler:
    """Return a handler of streams that have one request each, answered by `handle`.

    A malformed request is refused without effect. `ControllerError` from `handle` ends the stream with its status and
    detail; so does `CodecError`, for a malformed field: INVALID_REQUEST.
    """

    async def serve(stream: Stream) -> None:
        data = await receive_request(stream)
        async with admission(data):
            request = read_request(request_type, data)
            del data  # it may be large, and `request` has all of it
            try:
                answer = await handle(request)
            except ControllerError as error:
                raise to_stream_error(error) from None
            except CodecError as error:
                raise invalid(f"a {request_type.DESCRIPTOR.name} that cannot be read: {error}") from None
        await stream.send(answer.SerializeToString())

    return serve


async def receive_request(stream: Stream) -> bytes:
    """Return the one message of the stream, after checking that no other follows."""
    request = await stream.receive()
    if request is None:
        raise invalid("the stream ended without a request: send one message")
    if await stream.receive() is not None:
        raise invalid("a second message in a call that takes one: make a call for each")
    return request


def read_request(request_type: type[Q], request: bytes) -> Q:
    try:
        return request_type.FromString(request)
    except DecodeError as error:
        raise invalid(f"not a {request_type.DESCRIPTOR.name}: {error}") from None


def invalid(message: str) -> StreamError:
    return to_stream_error(ControllerError(errors_pb2.INVALID_REQUEST, message))
