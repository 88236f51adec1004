"""The network over gRPC: an implementation of `network.py`. Only this module and `grpc_streams` import `grpc`.

It serves every method as a stream of raw bytes. The wire format is the same for unary gRPC clients of any language.
"""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

# By default, gRPC writes a line to stderr for each connection closed by a normal shutdown. Set this before its import.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# gRPC's fork support starts threads in the child, and `subprocess` closes their sockets before it runs the new program.
# Of children with a `preexec_fn`, as used by Spark to start its JVM, one in five crashed. Without it, none does.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
from grpc import ChannelConnectivity, aio

from lograft.runtime.limits.connection_guard import ConnectionGuard
from lograft.runtime.network import (
    MAX_MESSAGE_BYTES,
    AddressInUse,
    ConnectFailed,
    ConnectionLimits,
    Handler,
    PanicHandler,
    Stream,
)
from lograft.runtime.production.grpc_streams import CallStream, HandlerStream, LostStream, address_of
from lograft.runtime.stream_handler import run_handler
from lograft.runtime.tasks.cancellation import keep_cancellation

_NEVER_MS = 2**31 - 1
_COMMON_OPTIONS = (
    # How much may be in flight to a receiver that does not read yet. By default, gRPC probes the bandwidth with endless
    # pings and timers, which caused half of the wake-ups of an idle node's threads.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
)
# Without pings, a connection whose peer lost power, or whose firewall lost its state, would seem alive until TCP gives
# up many minutes later.
_PING_INTERVAL_MS = 2000
_PING_TIMEOUT_MS = 2000
# Servers can ping less often: nothing waits for a stream to a dead caller.
_SERVER_PING_INTERVAL_MS = 10_000
_SERVER_OPTIONS = (
    *_COMMON_OPTIONS,
    ("grpc.http2.max_ping_strikes", 0),  # otherwise, it disconnects callers that ping this often
    ("grpc.keepalive_time_ms", _SERVER_PING_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),  # otherwise, a second server can silently bind the same port
    # By default, a silent connection holds a descriptor for two minutes.
    ("grpc.server_handshake_timeout_ms", 5000),
    # Each stream takes some memory. Beyond this, callers wait to open more.
    ("grpc.max_concurrent_streams", 1000),
)


def _server_options(limits: ConnectionLimits | None) -> tuple[tuple[str, int], ...]:
    if limits is None:
        return _SERVER_OPTIONS
    longest = "grpc.max_receive_message_length"
    others = (option for option in _SERVER_OPTIONS if option[0] != longest)
    return (*others, (longest, limits.message_bytes), ("grpc.max_allowed_incoming_connections", limits.total))


def _channel_options(timeout_ms: int, ping_interval_ms: int) -> tuple[tuple[str, int], ...]:
    return (
        *_COMMON_OPTIONS,
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),  # each call of `connect` opens a TCP connection
        ("grpc.client_idle_timeout_ms", _NEVER_MS),
        ("grpc.keepalive_time_ms", ping_interval_ms),
        ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.initial_reconnect_backoff_ms", 50),
        # This is also gRPC's minimum time for an attempt; if shorter, a slow answer would look like a refusal.
        ("grpc.min_reconnect_backoff_ms", max(50, timeout_ms)),
        ("grpc.max_reconnect_backoff_ms", 200),
    )


def start_poller() -> None:
    """Make gRPC start its thread now. Call it on an event loop.

    Otherwise, gRPC starts it with the first connection, which may happen while the program ends. Python 3.12.0 and
    3.12.1 refuse to start threads then, and gRPC aborts the process.
    """
    aio.init_grpc_aio()


class GrpcConnection:
    """A channel that has become ready, used until its one TCP connection is lost."""

    def __init__(self, address: str, channel: aio.Channel) -> None:
        self._address = address
        self._channel = channel
        self._broken = asyncio.Event()
        self._methods: dict[str, Any] = {}
        self._streams: dict[CallStream, None] = {}
        self._watching = asyncio.ensure_future(self._watch())
        self._closing: asyncio.Task[None] | None = None

    @property
    def broken(self) -> asyncio.Event:
        return self._broken

    def open(self, method: str) -> Stream:
        if self._broken.is_set():
            return LostStream(self._address)  # the channel would open a new connection
        start = self._methods.get(method)
        if start is None:
            start = self._methods[method] = self._channel.stream_stream(method)
        call = start()
        stream = CallStream(call, self._address)
        self._streams[stream] = None
        call.add_done_callback(lambda _: self._streams.pop(stream, None))
        return stream

    async def close(self) -> None:
        if self._closing is None:
            self._broken.set()
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._watching.cancel()
        await asyncio.wait([self._watching])
        streams = list(self._streams)
        for stream in streams:
            stream.drop("the connection was closed")
        for stream in streams:
            await stream.ended()
        await self._channel.close()

    async def _watch(self) -> None:
        """Wait for the channel to leave READY. A server that stops gracefully causes this at once, while streams are
        still open."""
        try:
            await self._channel.wait_for_state_change(ChannelConnectivity.READY)
        finally:
            self._broken.set()


class GrpcServer:
    """A listening server, created by `GrpcNetwork.serve`."""

    def __init__(
        self, handlers: Mapping[str, Handler], on_panic: PanicHandler, limits: ConnectionLimits | None = None
    ) -> None:
        self._on_panic = on_panic
        self._limits = limits
        self._guard: ConnectionGuard | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}
        methods = {
            method: grpc.stream_stream_rpc_method_handler(self._serving(handler))
            for method, handler in handlers.items()
        }
        self._server = aio.server(handlers=[_Methods(methods)], options=_server_options(limits))
        self._address = ""

    @property
    def address(self) -> str:
        return self._address

    async def listen(self, address: str) -> None:
        """Bind and start, or raise AddressInUse."""
        host = address.rpartition(":")[0]
        try:
            await _probe(address)
            port = self._server.add_insecure_port(address)
        except (OSError, RuntimeError, ValueError) as error:
            await self._server.stop(None)
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise AddressInUse(address, reason) from error
        self._address = f"{host}:{port}"
        await self._server.start()
        if self._limits is not None:
            believed = None if self._limits.believed is None else partial(_addresses_of, self._limits.believed)
            self._guard = ConnectionGuard(self._address, self._limits, asyncio.get_running_loop().time, believed)
            self._guard.start()

    @property
    def connections(self) -> int:
        return 0 if self._guard is None else self._guard.open

    @property
    def connections_refused(self) -> int:
        return 0 if self._guard is None else self._guard.refused

    async def stop(self, grace_ms: int = 0) -> None:
        if self._guard is not None:
            await asyncio.to_thread(self._guard.stop)
        await self._server.stop(grace_ms / 1000 if grace_ms else None)
        # gRPC has ended the streams, but their handlers may still be cleaning up.
        while handlers := [task for task in self._tasks if task is not asyncio.current_task()]:
            await asyncio.wait(handlers)

    def _serving(self, handler: Handler) -> Callable[[Any, Any], Awaitable[None]]:
        async def serve(_requests: Any, context: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks[task] = None
            try:
                stream = HandlerStream(context, task, None if self._guard is None else self._guard.unread.received)
                error = await run_handler(handler, stream, self._on_panic)
                if error is not None:
                    await stream.end(error)
            finally:
                del self._tasks[task]

        return serve


def _addresses_of(peers: Callable[[], Collection[str]]) -> set[tuple[str, int]]:
    return {address for peer in peers() if (address := address_of(peer)) is not None}


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc, unused-ignore]
    def __init__(self, methods: dict[str, Any]) -> None:
        self._methods = methods

    def service(self, handler_call_details: Any) -> Any:
        return self._methods.get(handler_call_details.method)


class GrpcNetwork:
    """The production network. `ping_interval_ms`: how often a caller checks a connection."""

    def __init__(self, *, ping_interval_ms: int = _PING_INTERVAL_MS) -> None:
        self._ping_interval_ms = ping_interval_ms

    async def connect(self, address: str, timeout_ms: int = 3000) -> GrpcConnection:
        channel = aio.insecure_channel(address, options=_channel_options(timeout_ms, self._ping_interval_ms))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await keep_cancellation(_until_ready(address, channel))
        except TimeoutError:
            await channel.close()
            raise ConnectFailed(address, f"no answer within {timeout_ms} ms") from None
        except BaseException:
            await channel.close()
            raise
        return GrpcConnection(address, channel)

    async def serve(
        self,
        address: str,
        handlers: Mapping[str, Handler],
        on_panic: PanicHandler,
        limits: ConnectionLimits | None = None,
    ) -> GrpcServer:
        server = GrpcServer(handlers, on_panic, limits)
        await server.listen(address)
        return server


async def _until_ready(address: str, channel: aio.Channel) -> None:
    state = channel.get_state(try_to_connect=True)
    while state is not ChannelConnectivity.READY:
        if state is ChannelConnectivity.TRANSIENT_FAILURE:
            raise ConnectFailed(address, await _failure_reason(channel))
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


async def _failure_reason(channel: aio.Channel) -> str:
    """Return why the channel failed. Only a call has the reason, and it fails at once in this state."""
    try:
        await channel.stream_stream("/")().read()
    except aio.AioRpcError as error:
        return _plain_reason(str(error.details()))
    return "connection failed"


def _plain_reason(details: str) -> str:
    """Return the useful part of `failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:9092: Failed
    to connect to remote host: Connection refused`: its end, without the errno that may follow. The caller knows the
    address."""
    before, _, last = details.rpartition("; last error: ")
    return re.sub(r" \(\d+\)$", "", last.rpartition(": ")[2]) if before else details


async def _probe(address: str) -> None:
    """Raise the OSError of binding `address`, if any, because gRPC does not report the cause."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    candidates = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, target = candidates[0]
    with contextlib.closing(socket.socket(family, kind, protocol)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(target)
