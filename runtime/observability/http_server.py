"""A minimal HTTP server that serves pages to browsers and probes."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lograft.runtime.network import AddressInUse

_MAX_REQUEST_BYTES = 16 * 1024
_REQUEST_SECONDS = 10.0
_MAX_CONNECTIONS = 100
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Page:
    """A response."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Pages: TypeAlias = Mapping[str, Callable[[], Awaitable[Page]]]
"""Pages by path. A page that takes long to build must yield to other tasks."""


class HttpServer:
    """Serves pages from `listen` until `stop`. One request per connection, of at most `request_seconds`."""

    def __init__(
        self, pages: Pages, request_seconds: float = _REQUEST_SECONDS, max_connections: int = _MAX_CONNECTIONS
    ) -> None:
        self._pages = pages
        self._max_connections = max_connections
        self._request_seconds = request_seconds
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], None] = {}

    async def listen(self, address: str) -> None:
        """Start to listen. Raise AddressInUse if that is impossible."""
        host, _, port = address.rpartition(":")
        try:
            self._server = await asyncio.start_server(
                self._connected, host.strip("[]"), int(port), limit=_MAX_REQUEST_BYTES
            )
        except OSError as error:
            # asyncio's own message is verbose; an unknown host name has no errno.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else str(error)
            raise AddressInUse(address, reason) from None

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = None
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                if len(self._connections) <= self._max_connections:
                    async with asyncio.timeout(self._request_seconds):
                        writer.write(await self._answer(reader))
                        writer.close()
                        await writer.wait_closed()
        finally:
            del self._connections[task]
            # Closing would wait until the caller has read its answer, possibly forever.
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = request.partition(b"\r\n")[0].decode("ascii").split(" ", 2)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return _encode(Page(400, "not an HTTP request\n"))
        page = await self._page(method, target)
        return _encode(page, has_body=method != "HEAD")

    async def _page(self, method: str, target: str) -> Page:
        if method not in ("GET", "HEAD"):
            return Page(405, "only GET is served here\n")
        make = self._pages.get(target.partition("?")[0])
        return await make() if make is not None else Page(404, f"there are: {', '.join(self._pages)}\n")


def _encode(page: Page, *, has_body: bool = True) -> bytes:
    body = page.text.encode(errors="replace")  # a file name need not be valid Unicode
    head = (
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (body if has_body else b"")
