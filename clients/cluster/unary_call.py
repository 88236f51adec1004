"""Unary calls over the runtime's streams, with failures as client errors."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from lograft.clients.errors import Internal, error_of_stream
from lograft.rpc.unary import NotSent, exchange
from lograft.runtime.network import Connection, StreamError

R = TypeVar("R", bound=Message)


async def call(connection: Connection, method: str, request: Message, response_type: type[R]) -> R:
    """Return the answer to one request. Raise `LograftError` if it is refused or its outcome is unknown."""
    try:
        answer = await exchange(connection, method, request.SerializeToString())
    except StreamError as error:
        raise error_of_stream(error, was_sent=not isinstance(error, NotSent)) from None
    return read_answer(response_type, answer)


def read_answer(response_type: type[R], answer: bytes) -> R:
    """Decode an answer. Raise `Internal` if it is malformed: the request may have been carried out."""
    try:
        return response_type.FromString(answer)
    except DecodeError as error:
        raise Internal(f"the answer is not a {response_type.DESCRIPTOR.name}: {error}") from None
