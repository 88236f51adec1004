"""Pages over HTTP, for probes."""

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.free_ports import free_address
from support.server_processes import until

from lograft.runtime.network import AddressInUse
from lograft.runtime.observability.http_server import HttpServer, Page, Pages
from lograft.runtime.process import host as machine
from lograft.runtime.process.host import is_port_free
from lograft.runtime.process.http_probe import ProbeAnswer, get_page

LONG = "x" * 16 * 1024 * 1024  # more than the kernel takes off a server's hands


def page(status: int, text: str) -> Callable[[], Awaitable[Page]]:
    async def make() -> Page:
        return Page(status, text)

    return make


PAGES = {"/ok": page(200, "fine\n"), "/bad": page(503, "wörse\n")}


@contextmanager
def served(address: str, pages: Pages = PAGES, request_seconds: float = 10) -> Iterator[None]:
    """Pages from another thread, as a node in another process would serve them."""
    loop = asyncio.new_event_loop()
    server = HttpServer(pages, request_seconds)
    loop.run_until_complete(server.listen(address))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_pages_are_served_by_path() -> None:
    address = free_address()
    with served(address):
        assert get_page(address, "/ok", 5) == ProbeAnswer(200, "fine\n")
        assert get_page(address, "/ok?verbose", 5) == ProbeAnswer(200, "fine\n")
        assert get_page(address, "/bad", 5) == ProbeAnswer(503, "wörse\n")
        assert get_page(address, "/other", 5) == ProbeAnswer(404, "there are: /ok, /bad\n")
    assert get_page(address, "/ok", 5) is None


async def _talk(address: str, request: bytes) -> bytes:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"HEAD /ok HTTP/1.1\r\n\r\n", b"200 OK", b""),
        (b"POST /ok HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", b"only GET is served here\n"),
        (b"\x16\x03\x01\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
        (b"GET /ok", b"400 Bad Request", b"not an HTTP request\n"),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
    ],
    ids=["head", "post", "not http", "half", "huge"],
)
def test_what_is_no_get_is_refused(request_: bytes, status: bytes, body: bytes) -> None:
    address = free_address()
    with served(address):
        head, _, rest = asyncio.run(_talk(address, request_)).partition(b"\r\n\r\n")
        assert (head.splitlines()[0], rest) == (b"HTTP/1.1 " + status, body)
        assert get_page(address, "/ok", 5) == ProbeAnswer(200, "fine\n")


def test_an_address_in_use_is_refused() -> None:
    address = free_address()
    port = int(address.partition(":")[2])
    assert is_port_free("127.0.0.1", port)
    with served(address):
        assert not is_port_free("127.0.0.1", port)
        with pytest.raises(AddressInUse, match=address):
            asyncio.run(HttpServer(PAGES).listen(address))
    assert is_port_free("127.0.0.1", port)


def test_a_caller_that_says_nothing_does_not_hold_up_the_end() -> None:
    address = free_address()
    host, _, port = address.partition(":")

    async def connect() -> asyncio.StreamWriter:
        return (await asyncio.open_connection(host, int(port)))[1]

    loop = asyncio.new_event_loop()
    with served(address):
        writer = loop.run_until_complete(connect())
        assert get_page(address, "/ok", 5) == ProbeAnswer(200, "fine\n")
    writer.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_a_long_page_is_served_whole() -> None:
    address = free_address()
    with served(address, {"/long": page(200, LONG)}):
        assert get_page(address, "/long", 10) == ProbeAnswer(200, LONG)


def test_what_is_no_unicode_does_not_keep_the_rest_of_a_page_back() -> None:
    address = free_address()
    with served(address, {"/odd": page(200, "/data/\udce4\n")}):
        assert get_page(address, "/odd", 5) == ProbeAnswer(200, "/data/?\n")


def sockets() -> int:
    """How many this process has open: those of the server and of its callers, for they are in one."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith("socket:") for link in links if os.path.islink(link))


def test_a_caller_that_does_not_read_its_answer_is_let_go() -> None:
    address = free_address()
    host, _, port = address.partition(":")
    with served(address, {"/long": page(200, LONG)}, request_seconds=0.1), socket.socket() as caller:
        before = sockets()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect((host, int(port)))
        caller.sendall(b"GET /long HTTP/1.1\r\n\r\n")
        assert caller.recv(8) == b"HTTP/1.1"  # and no more
        until(lambda: sockets() == before, "the server has closed its end")


def test_the_boot_id_is_the_kernels_and_made_up_where_that_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    boot: Callable[[], str] = machine.boot_id
    assert boot() == boot()
    assert len(boot()) == 36
    for content in (None, ""):
        path = tmp_path / "boot_id"
        if content is not None:
            path.write_text(content)
        monkeypatch.setattr(machine, "_BOOT_ID_FILE", str(path))
        assert boot().startswith("process-")
        assert boot() != boot()
