"""The ceiling: the same bytes on a bare gRPC stream between two processes, with nothing done to them.

As a program it is the server: `python bare_stream.py ADDRESS`, until its standard input ends.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from types import TracebackType
from typing import Self

from lograft.runtime.network import ConnectFailed, Stream
from lograft.runtime.process.allocator import keep_freed_memory
from lograft.runtime.production.grpc_network import GrpcConnection, GrpcNetwork

_TAKE = "/bare/Take"
_GIVE = "/bare/Give"
_ANSWER = b"12345678"


# -- the server


async def take(stream: Stream) -> None:
    """Every message is answered with a few bytes, as batches are."""
    while await stream.receive() is not None:
        await stream.send(_ANSWER)


async def give(stream: Stream) -> None:
    """The request says how large messages are to be, and how many."""
    request = await stream.receive()
    assert request is not None
    size_bytes, count = map(int, request.split())
    message = bytes(size_bytes)
    for _ in range(count):
        await stream.send(message)


async def serve(address: str) -> None:
    server = await GrpcNetwork().serve(address, {_TAKE: take, _GIVE: give}, on_panic=_panic)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()


def _panic(error: BaseException) -> None:
    raise SystemExit(f"the bare server failed: {error!r}")


# -- the client


class BareStream:
    """A server process, and a connection to it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._process = subprocess.Popen([sys.executable, __file__, address], stdin=subprocess.PIPE)
        self._connection: GrpcConnection | None = None

    async def __aenter__(self) -> Self:
        while self._connection is None:
            try:
                self._connection = await GrpcNetwork().connect(self._address)
            except ConnectFailed:
                assert self._process.poll() is None, "the bare server has ended"
                await asyncio.sleep(0.05)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    async def messages_per_second(self, size_bytes: int, in_flight: int, seconds: float) -> float:
        """There, each answered with a few bytes."""
        started = perf_counter()
        deadline = started + seconds
        answered = await self._send_while(lambda _: perf_counter() < deadline, size_bytes, in_flight)
        return answered / (perf_counter() - started)

    async def send_messages(self, size_bytes: int, count: int, in_flight: int) -> None:
        """As many, until the last is answered."""
        await self._send_while(lambda sent: sent < count, size_bytes, in_flight)

    async def _send_while(self, wants_more: Callable[[int], bool], size_bytes: int, in_flight: int) -> int:
        """How many were answered."""
        assert self._connection is not None
        stream = self._connection.open(_TAKE)
        room = asyncio.Semaphore(in_flight)
        message = bytes(size_bytes)
        sent = answered = 0

        async def receive() -> None:
            nonlocal answered
            while await stream.receive() is not None:
                answered += 1
                room.release()

        async with asyncio.TaskGroup() as group:
            group.create_task(receive())
            while wants_more(sent):
                await room.acquire()
                await stream.send(message)
                sent += 1
            await stream.half_close()
        return answered

    async def bytes_per_second(self, size_bytes: int, total_bytes: int) -> float:
        """Back, as fast as they are taken."""
        assert self._connection is not None
        stream = self._connection.open(_GIVE)
        started = perf_counter()
        await stream.send(b"%d %d" % (size_bytes, total_bytes // size_bytes))
        await stream.half_close()
        received = 0
        while (message := await stream.receive()) is not None:
            received += len(message)
        return received / (perf_counter() - started)


if __name__ == "__main__":
    keep_freed_memory()
    asyncio.run(serve(sys.argv[1]))
