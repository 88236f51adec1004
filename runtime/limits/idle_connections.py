"""Many idle connections, for tests of whether a node still serves others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_ELSEWHERE = "127.0.0.2"  # not the address of the clients under test
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_AT_ONCE = 50


@asynccontextmanager
async def idle_connections(address: str, count: int, *, greets: bool) -> AsyncIterator[None]:
    """Open up to `count` connections, as many as the node accepts. `greets`: send the protocol's greeting, so that the
    node must keep them; otherwise send nothing."""
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
