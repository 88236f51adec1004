"""Pages over HTTP, for probes."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.free_ports import free_address

from lograft.runtime import machine
from lograft.runtime.http_get import Answer, get_page
from lograft.runtime.http_server import HttpServer, Page
from lograft.runtime.network import AddressInUse
from lograft.runtime.ports import is_port_free

PAGES = {"/ok": lambda: Page(200, "fine\n"), "/bad": lambda: Page(503, "wörse\n")}


@contextmanager
def served(address: str) -> Iterator[None]:
    """Pages from another thread, as a node in another process would serve them."""
    loop = asyncio.new_event_loop()
    server = HttpServer(PAGES)
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
        assert get_page(address, "/ok", 5) == Answer(200, "fine\n")
        assert get_page(address, "/ok?verbose", 5) == Answer(200, "fine\n")
        assert get_page(address, "/bad", 5) == Answer(503, "wörse\n")
        assert get_page(address, "/other", 5) == Answer(404, "there are: /ok, /bad\n")
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
        assert get_page(address, "/ok", 5) == Answer(200, "fine\n")


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
        assert get_page(address, "/ok", 5) == Answer(200, "fine\n")
    writer.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


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
