"""What servers are asked is counted and timed, and what is raised passes through as it was."""

import asyncio

import pytest
from support.raft_nodes import make_runtime, virtual

from lograft.broker.requests.call_stats import CallStats, ServerStats, counted
from lograft.proto import log_pb2
from lograft.rpc.unary import invalid
from lograft.runtime.network import Handler, Status, Stream, StreamError

LOG = log_pb2.DESCRIPTOR.services_by_name["Log"].full_name
CALL, STREAM = f"/{LOG}/ListOffsets", f"/{LOG}/Produce"


class Messages:
    """A stream that has these to receive."""

    peer = "somebody"

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)
        self.sent: list[bytes] = []

    async def receive(self) -> bytes | None:
        return self._messages.pop(0) if self._messages else None

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    async def half_close(self) -> None: ...

    def reset(self) -> None: ...


async def echo(stream: Stream) -> None:
    while (message := await stream.receive()) is not None:
        await asyncio.sleep(1)
        await stream.send(message)


async def serve(method: str, handler: Handler, stream: Messages) -> CallStats:
    stats = ServerStats()
    (serving,) = counted({method: handler}, stats, make_runtime(1).clock).values()
    await serving(stream)
    return stats.of(method)


@virtual
async def test_a_call_is_one_request_and_timed() -> None:
    stream = Messages(b"a")
    stats = await serve(CALL, echo, stream)
    assert stream.sent == [b"a"]
    assert (stats.requests, stats.open, stats.errors) == (1, 0, {})
    assert stats.seconds.sum == pytest.approx(1)


@virtual
async def test_each_message_of_a_stream_is_a_request_but_no_sign_of_life() -> None:
    stream = Messages(b"a", b"", b"b")
    stats = await serve(STREAM, echo, stream)
    assert stream.sent == [b"a", b"", b"b"]
    assert stats.requests == 2
    assert stats.seconds.count == 0


@virtual
@pytest.mark.parametrize("method", [CALL, STREAM])
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (invalid("nonsense"), {"INVALID_REQUEST": 1}),
        (StreamError(Status.UNIMPLEMENTED, "unheard of"), {"UNIMPLEMENTED": 1}),
        (StreamError(Status.CANCELLED, "the caller is gone"), {}),
        (StreamError(Status.INTERNAL, "passed on from elsewhere", b"\xff no detail"), {"INTERNAL": 1}),
    ],
)
async def test_failures_are_counted_by_their_code(method: str, error: StreamError, name: dict[str, int]) -> None:
    async def fail(stream: Stream) -> None:
        raise error

    stats = ServerStats()
    (serving,) = counted({method: fail}, stats, make_runtime(1).clock).values()
    with pytest.raises(StreamError) as raised:
        await serving(Messages())
    assert raised.value is error
    assert stats.of(method).errors == name
    assert stats.open == 0


@virtual
async def test_a_failure_in_a_task_group_counts_once_and_stays_a_group() -> None:
    async def fail(stream: Stream) -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("more", [invalid("one")]), invalid("two")])

    stats = ServerStats()
    (serving,) = counted({STREAM: fail}, stats, make_runtime(1).clock).values()
    with pytest.raises(ExceptionGroup):
        await serving(Messages())
    assert stats.errors == 1
