"""Clients that mean no good: connections that say nothing, and readers that do not read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from lograft.proto import log_pb2 as pb
from lograft.proto.methods import READ_RANGE
from lograft.runtime.grpc_network import GrpcNetwork
from lograft.runtime.network import ConnectFailed, StreamError

_ELSEWHERE = "127.0.0.2"  # so that it is another address than that of the clients that are watched
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_MESSAGE_BYTES = 16 * 1024 * 1024
_AT_ONCE = 50


@asynccontextmanager
async def idle_connections(address: str, count: int, *, greets: bool) -> AsyncIterator[None]:
    """As many connections as the node takes. `greets`: as somebody who speaks its protocol, whom it has to keep; else
    they say nothing at all."""
    host, _, port = address.rpartition(":")
    writers: list[asyncio.StreamWriter] = []

    async def open_one() -> None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, int(port), local_addr=(_ELSEWHERE, 0))
            writers.append(writer)
            if greets:
                writer.write(_HTTP2_GREETING)

    try:
        for first in range(0, count, _AT_ONCE):
            await asyncio.gather(*(open_one() for _ in range(first, min(count, first + _AT_ONCE))))
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


@asynccontextmanager
async def unread_ranges(address: str, topic: str, partitions: int, count: int) -> AsyncIterator[None]:
    """Streams, each on a connection of its own, that ask for all of a partition and read nothing of it."""
    network = GrpcNetwork()
    async with AsyncExitStack() as connections:
        streams = []
        for number in range(count):
            with contextlib.suppress(ConnectFailed, StreamError):
                connection = await network.connect(address)
                connections.push_async_callback(connection.close)
                stream = connection.open(READ_RANGE)
                request = pb.ReadRangeRequest(
                    topic=topic, partition=number % partitions, start=0, max_message_bytes=_MESSAGE_BYTES,
                    from_follower=True,
                )  # fmt: skip
                await stream.send(request.SerializeToString())
                streams.append(stream)
        yield
        for stream in streams:
            stream.reset()
