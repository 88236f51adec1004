"""Strangers whose streams begin with messages of tens of megabytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lograft.proto.methods import APPEND, PROVE
from lograft.runtime.network import ConnectFailed, StreamError
from lograft.runtime.production.grpc_network import GrpcNetwork

_MESSAGE = bytes(40 * 1024 * 1024)
_AT_ONCE = 8


@asynccontextmanager
async def large_messages(address: str, *, to_clients_port: bool) -> AsyncIterator[None]:
    """Keep opening streams during the block, a few at a time, each on its own connection."""
    method = APPEND if to_clients_port else PROVE

    async def send() -> None:
        while True:
            with contextlib.suppress(ConnectFailed, StreamError):
                connection = await GrpcNetwork().connect(address)
                try:
                    stream = connection.open(method)
                    await stream.send(_MESSAGE)
                    await stream.receive()
                finally:
                    await connection.close()
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        senders = [group.create_task(send(), name="large-messages") for _ in range(_AT_ONCE)]
        try:
            yield
        finally:
            for sender in senders:
                sender.cancel()
