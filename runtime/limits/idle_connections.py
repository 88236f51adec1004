"""Connections that nobody uses, many of them: for tests of what else still works."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_ELSEWHERE = "127.0.0.2"  # another address than that of the clients that are watched
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
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
