"""Readers that do not read."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from lograft.proto import log_pb2 as pb
from lograft.proto.methods import READ_RANGE
from lograft.runtime.network import ConnectFailed, StreamError
from lograft.runtime.production.grpc_network import GrpcNetwork

_MESSAGE_BYTES = 16 * 1024 * 1024


@asynccontextmanager
async def unread_ranges(address: str, topic: str, partitions: int, count: int) -> AsyncIterator[None]:
    """Open streams, each on its own connection, that request a whole partition and read nothing of it."""
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
