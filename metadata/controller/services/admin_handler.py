"""Handlers of the `Admin` service on a controller: answer in time, or with an error that names the active
controller."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from google.protobuf.message import Message

from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.request_limits import check_timeout
from lograft.rpc.status import to_stream_error
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler
from lograft.runtime.tasks.deadline import answer_ms

Q = TypeVar("Q", bound=Message)


def admin_handler(
    answer: Callable[[Q], Awaitable[Message]], request_type: type[Q], controllers: Mapping[int, str]
) -> Handler:
    """Serve one method by `answer`, within the time that the request's `timeout_ms` leaves. An error that names the
    active controller gets its address from `controllers`."""

    async def handle(request: Q) -> Message:
        try:
            return await _in_time(request, answer)
        except ControllerError as error:
            address = controllers.get(error.leader_id) if error.leader_id is not None else None
            raise to_stream_error(error, leader_address=address) from None

    return unary(handle, request_type)


def time_to_answer_ms(request: Message) -> int:
    """Return how long the controller may take: less than the sender of the request waits."""
    return answer_ms(check_timeout(getattr(request, "timeout_ms", 0)))


async def _in_time(request: Q, answer: Callable[[Q], Awaitable[Message]]) -> Message:
    timeout_ms = time_to_answer_ms(request)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await answer(request)
    except TimeoutError:
        raise ControllerError(
            errors_pb2.TIMED_OUT,
            f"not known to be committed within {timeout_ms} ms, and it may be yet: look before you repeat it, "
            "or give it more by timeout_ms",
        ) from None
