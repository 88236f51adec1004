"""The network as streams of messages (bytes) between the two ends of a connection.

gRPC implements it in production (`production/grpc_network.py`), virtual links in simulation. A method is a gRPC method
path such as `/lograft.v1.Log/Produce`; a unary call is a stream with one message each way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The largest message a stream carries; `send` refuses a larger one with RESOURCE_EXHAUSTED."""


class Status(Enum):
    """The gRPC status codes that may end a stream here."""

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
    """The stream ended with an error. A handler raises it to end its stream; the caller's `receive` raises it.

    `detail` is a serialized `lograft.v1.ErrorDetail`, or empty.
    """

    def __init__(self, status: Status, message: str, detail: bytes = b"") -> None:
        super().__init__(f"{status.name}: {message}")
        self.status = status
        self.message = message
        self.detail = detail


class MessageTooLarge(StreamError):
    """The message exceeds the other end's limit, so its handler never received it."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            Status.RESOURCE_EXHAUSTED,
            f"a message of {size_bytes} bytes is over the {limit_bytes} that the node there takes: send less at a "
            "time, raise the topic's max.message.bytes, or the node's max_request_bytes if that is set",
        )
        self.limit_bytes = limit_bytes


def refuse_oversized(message: bytes) -> None:
    """Raise StreamError for a message over the limit. The stream stays usable."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise StreamError(
            Status.RESOURCE_EXHAUSTED, f"a message of {len(message)} bytes is over the limit of {MAX_MESSAGE_BYTES}"
        )


class ConnectFailed(Exception):
    """Connecting to `address` failed: nothing listens there, or nothing answered in time."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address
        self.reason = reason


class AddressInUse(Exception):
    """The server cannot listen on `address`."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")
        self.address = address
        self.reason = reason


class Stream(Protocol):
    """One end of an open stream. Messages arrive whole, in order, or the stream ends with an error.

    At most one `send` and one `receive` may run at a time. Cancelling either (also by a timeout) drops the stream,
    because its progress is unknown. The end of a stream arrives after all messages before it are received; until then
    sends have no effect. A lost connection may lose messages that had arrived but were not received yet.
    """

    async def send(self, message: bytes) -> None:
        """Send one message, and wait while the other end does not keep up. Raise StreamError if the stream has
        ended."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message, or None if the other end has finished sending. Raise StreamError if the stream ended
        with an error."""
        ...

    async def half_close(self) -> None:
        """Finish sending. (A server's handler does so by returning.)"""
        ...

    def reset(self) -> None:
        """Drop the stream at once, in both directions. The other end gets CANCELLED; a handler is cancelled."""
        ...

    @property
    def peer(self) -> str:
        """The other end's address, for logs."""
        ...


class Connection(Protocol):
    """One connection to an address. A broken connection stays broken: connect again for a new one."""

    def open(self, method: str) -> Stream:
        """Open a stream. Errors of the method or the connection surface at its first `receive`."""
        ...

    @property
    def broken(self) -> asyncio.Event:
        """Set as soon as the connection is lost or closed; within milliseconds if the peer is killed."""
        ...

    async def close(self) -> None:
        """End all streams and the connection."""
        ...


Handler: TypeAlias = Callable[[Stream], Awaitable[None]]
"""Serves one stream in a task of its own, which is cancelled if the stream is reset or the connection breaks.

Returning ends the stream successfully; StreamError, or a group of only those, ends it with that status. Any other
exception is a broken invariant: the caller sees INTERNAL, and the server calls `on_panic`, which stops the node.
"""

PanicHandler: TypeAlias = Callable[[BaseException], None]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a server's connections: in total, and per address, which may be exceeded briefly.

    `unread_bytes`: the most bytes, of all connections together, that may have arrived without a handler receiving them;
    beyond that, the server ends the connections with the most. None for no limit. `believed`: returns the peers, named
    as streams name them, that this limit exempts; called from another thread. `message_bytes`: the largest message
    accepted."""

    total: int
    per_address: int
    unread_bytes: int | None = None
    believed: Callable[[], Collection[str]] | None = None
    message_bytes: int = MAX_MESSAGE_BYTES


class Server(Protocol):
    """A listening address."""

    @property
    def connections(self) -> int:
        """The number of open connections, if known: a server without limits may not count them."""
        ...

    @property
    def connections_refused(self) -> int:
        """The number of connections ended because their address had too many."""
        ...

    @property
    def address(self) -> str:
        """`host:port` as bound, with the actual port if 0 was requested."""
        ...

    async def stop(self, grace_ms: int = 0) -> None:
        """Refuse new streams, give open ones `grace_ms` to finish, then cancel them. Return once all are closed."""
        ...


class Network(Protocol):
    """Opens connections and listens for them."""

    async def connect(self, address: str, timeout_ms: int = 3000) -> Connection:
        """Return a live connection to `host:port`. Raise ConnectFailed, at once if refused, otherwise after
        `timeout_ms`."""
        ...

    async def serve(
        self,
        address: str,
        handlers: Mapping[str, Handler],
        on_panic: PanicHandler,
        limits: ConnectionLimits | None = None,
    ) -> Server:
        """Listen on `host:port`, and serve each method with its handler. Raise AddressInUse if that is impossible.

        Answer other methods with UNIMPLEMENTED. Close connections beyond the limits at once.
        """
        ...
