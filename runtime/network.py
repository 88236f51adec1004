"""The network as streams of messages (bytes) between a connection's two ends.

One interface, two worlds: gRPC in production (`grpc_network.py`), virtual links in simulation. A method is a gRPC
method path such as `/lograft.v1.Log/Produce`; a unary call is a stream with one message each way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The largest message a stream carries; `send` refuses a larger one with RESOURCE_EXHAUSTED."""


class Status(Enum):
    """How a stream ended: gRPC's status codes, those we use."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StreamError(Exception):
    """A stream ended otherwise than well. A handler raises it to end its stream so; the caller's `receive` raises it.

    `detail` is a serialized `lograft.v1.ErrorDetail`, or empty.
    """

    def __init__(self, status: Status, message: str, detail: bytes = b"") -> None:
        super().__init__(f"{status.name}: {message}")
        self.status = status
        self.message = message
        self.detail = detail


class MessageTooLarge(StreamError):
    """The other end took none of a message: it is over its limit, and so was never handed to a handler."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            Status.RESOURCE_EXHAUSTED,
            f"a message of {size_bytes} bytes is over the {limit_bytes} that the node there takes: send less at a "
            "time, raise the topic's max.message.bytes, or the node's max_request_bytes if that is set",
        )
        self.limit_bytes = limit_bytes


def refuse_oversized(message: bytes) -> None:
    """Raise for a message that is over the limit. The stream it was meant for goes on."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise StreamError(
            Status.RESOURCE_EXHAUSTED, f"a message of {len(message)} bytes is over the limit of {MAX_MESSAGE_BYTES}"
        )


class ConnectFailed(Exception):
    """No connection to `address` could be made: nothing listens there, or nothing answered in time."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address
        self.reason = reason


class AddressInUse(Exception):
    """`address` cannot be listened on."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")
        self.address = address
        self.reason = reason


class Stream(Protocol):
    """One end of an open stream. Messages arrive whole, in order, or the stream ends with an error.

    At most one `send` and one `receive` at a time. Cancelling either (a timeout, too) drops the stream: it cannot be
    known how far it got. The end of a stream comes after all messages before it are received; until then what is sent
    to it goes nowhere. A lost connection may take messages with it that had arrived but were not yet received.
    """

    async def send(self, message: bytes) -> None:
        """Hand over one message; waits while the other end does not keep up. `StreamError` if the stream is over."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message; None when the other end has finished sending; `StreamError` if it ended badly."""
        ...

    async def half_close(self) -> None:
        """Say that no more messages follow from here. (A server's handler says it by returning.)"""
        ...

    def reset(self) -> None:
        """Drop the stream at once, both ways; the other end sees CANCELLED (a handler is cancelled)."""
        ...

    @property
    def peer(self) -> str:
        """Who is at the other end, for logs."""
        ...


class Connection(Protocol):
    """One connection to an address. Once broken it stays broken; connect again for a new one."""

    def open(self, method: str) -> Stream:
        """Start a stream. What is wrong with the method or the connection shows at its first `receive`."""
        ...

    @property
    def broken(self) -> asyncio.Event:
        """Set as soon as the connection is lost or closed: a killed peer shows here within milliseconds."""
        ...

    async def close(self) -> None:
        """End all streams and the connection."""
        ...


Handler: TypeAlias = Callable[[Stream], Awaitable[None]]
"""Serves one stream; runs as a task of its own, cancelled if the stream is reset or the connection breaks.

Returning ends the stream well; `StreamError`, or a group of nothing else, ends it with that status. Any other exception
is a broken invariant: the caller sees INTERNAL, and the server's `on_panic` is told, which stops the node.
"""

PanicHandler: TypeAlias = Callable[[BaseException], None]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections a server takes: in all, and from one address (an address may be over it for a moment).

    `unread_bytes`: how much may have come that no handler has received, of all together; those that sent the most are
    ended beyond that. None: any amount. `believed`: the peers that this leaves out, as streams name them; called from
    another thread. `message_bytes`: the largest message that is received."""

    total: int
    per_address: int
    unread_bytes: int | None = None
    believed: Callable[[], Collection[str]] | None = None
    message_bytes: int = MAX_MESSAGE_BYTES


class Server(Protocol):
    """A listening address."""

    @property
    def connections(self) -> int:
        """How many are open, as far as is known: a server without limits may not count them."""
        ...

    @property
    def connections_refused(self) -> int:
        """How many were ended because their address had too many."""
        ...

    @property
    def address(self) -> str:
        """`host:port` as bound (a port of 0 is replaced by the real one)."""
        ...

    async def stop(self, grace_ms: int = 0) -> None:
        """Take no new streams, let open ones finish for `grace_ms`, then cancel them; return when all is closed."""
        ...


class Network(Protocol):
    """Where connections come from."""

    async def connect(self, address: str, timeout_ms: int = 3000) -> Connection:
        """Return a live connection to `host:port`, or `ConnectFailed`: at once if refused, else after `timeout_ms`."""
        ...

    async def serve(
        self,
        address: str,
        handlers: Mapping[str, Handler],
        on_panic: PanicHandler,
        limits: ConnectionLimits | None = None,
    ) -> Server:
        """Listen on `host:port`, each method served by its handler, others UNIMPLEMENTED. May raise `AddressInUse`.

        Connections beyond the limits are ended at once.
        """
        ...
