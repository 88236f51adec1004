"""A network that fails on demand: connections through a relay, cut, slowed and broken."""

import asyncio
import functools
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lograft.runtime.faults import tcp_relay
from lograft.runtime.faults.socket_owners import SocketOwners, _inode_between
from lograft.runtime.faults.tcp_relay import LinkState, TcpRelay
from lograft.runtime.network import AddressInUse
from lograft.runtime.rng import Rng

SOON_SECONDS = 10
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A real one, with real sockets."""

    @functools.wraps(test)
    def run(**named: object) -> None:
        asyncio.run(test(**named))

    return run


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


class Relayed:
    """An echo behind a relay."""

    def __init__(self, relay: TcpRelay, state: LinkState, sources: list[int]) -> None:
        self.relay = relay
        self.state = state
        self.sources = sources
        self.opened: list[asyncio.StreamWriter] = []

    async def connect(self) -> Ends:
        host, _, port = self.relay.listen.rpartition(":")
        ends = await asyncio.open_connection(host, int(port))
        self.opened.append(ends[1])
        return ends

    async def change(self, *ways: str, **fields: object) -> None:
        """Of the way there, the way back, or both."""
        for way in ways:
            for name, value in fields.items():
                setattr(getattr(self.state, way), name, value)
        await self.relay.tell_changed()


@asynccontextmanager
async def relayed() -> AsyncIterator[Relayed]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    state, sources = LinkState(), []
    probe = await asyncio.start_server(echo, "127.0.0.1", 0)
    listen = f"127.0.0.1:{port_of(probe)}"
    probe.close()
    await probe.wait_closed()

    def source_of(port: int) -> int:
        sources.append(port)
        return port

    relay = TcpRelay(listen, f"127.0.0.1:{port_of(server)}", source_of, lambda _: state, Rng(1))
    await relay.start()
    net = Relayed(relay, state, sources)
    try:
        yield net
    finally:
        await relay.stop()
        for writer in net.opened:
            writer.close()
        server.close()
        await no_tasks()


async def no_tasks() -> None:
    """All that the servers had to do is done."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


async def says(ends: Ends, data: bytes) -> bytes:
    ends[1].write(data)
    async with asyncio.timeout(SOON_SECONDS):
        return await ends[0].readexactly(len(data))


async def nothing_comes(ends: Ends) -> bool:
    """For a while; what is asked for then stays asked for."""
    try:
        async with asyncio.timeout(0.1):
            await ends[0].read(1)
    except TimeoutError:
        return True
    return False


@on_a_loop
async def test_bytes_go_both_ways() -> None:
    async with relayed() as net:
        ends = await net.connect()
        assert await says(ends, b"hello") == b"hello"
        large = bytes(range(256)) * 20_000
        assert await says(ends, large) == large
        assert net.sources == [ends[1].get_extra_info("sockname")[1]]


@pytest.mark.parametrize("way", ["there", "back"])
@on_a_loop
async def test_what_does_not_get_through_waits_until_it_does(way: str) -> None:
    async with relayed() as net:
        ends = await net.connect()
        assert await says(ends, b"1") == b"1"
        await net.change(way, passes=False)
        ends[1].write(b"2")
        assert await nothing_comes(ends)
        await net.change(way, passes=True)
        async with asyncio.timeout(SOON_SECONDS):
            assert await ends[0].readexactly(1) == b"2"


@on_a_loop
async def test_who_connects_while_nothing_gets_there_finds_nobody_until_it_does() -> None:
    async with relayed() as net:
        await net.change("there", passes=False)
        ends = await net.connect()
        ends[1].write(b"x")
        assert await nothing_comes(ends)
        await net.change("there", passes=True)
        async with asyncio.timeout(SOON_SECONDS):
            assert await ends[0].readexactly(1) == b"x"


@on_a_loop
async def test_who_has_hung_up_while_nothing_got_there_disturbs_nobody() -> None:
    """Told by the last piece, though what was said before it was never read."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"hello")
    assert not tcp_relay._has_hung_up(reader)
    reader.feed_eof()
    assert not reader.at_eof()
    assert tcp_relay._has_hung_up(reader)


@on_a_loop
async def test_a_slow_way_delays_each_piece_and_not_the_next_one_more() -> None:
    async with relayed() as net:
        ends = await net.connect()
        await net.change("there", "back", delay_ms=100.0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await says(ends, b"a") == b"a"
        assert loop.time() - began >= 0.2


@on_a_loop
async def test_a_way_may_be_slow_in_one_direction_only() -> None:
    async with relayed() as net:
        ends = await net.connect()
        await net.change("there", delay_ms=100.0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await says(ends, b"a") == b"a"
        assert loop.time() - began >= 0.1


@on_a_loop
async def test_a_narrow_way_takes_its_time() -> None:
    async with relayed() as net:
        ends = await net.connect()
        await net.change("there", bytes_per_second=50_000)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(3):
            assert await says(ends, bytes(5000)) == bytes(5000)
        assert loop.time() - began >= 0.2


@on_a_loop
async def test_what_is_lost_comes_late_and_nothing_overtakes_it() -> None:
    async with relayed() as net:
        ends = await net.connect()
        await net.change("there", loss=0.7)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await says(ends, b"first ") + await says(ends, b"second") == b"first second"
        assert loop.time() - began >= 0.2


@on_a_loop
async def test_where_everything_is_lost_connections_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_relay, "_RESEND_MS", 1.0)
    async with relayed() as net:
        ends = await net.connect()
        await net.change("there", loss=1.0)
        ends[1].write(b"x")
        async with asyncio.timeout(SOON_SECONDS):
            assert await ends[0].read(1) == b""


@on_a_loop
async def test_broken_connections_are_found_broken_and_new_ones_work() -> None:
    async with relayed() as net:
        one, other = await net.connect(), await net.connect()
        assert await says(one, b"1") == await says(other, b"1")
        mine = one[1].get_extra_info("sockname")[1]
        assert net.relay.break_connections(lambda source: source == mine) == 1
        async with asyncio.timeout(SOON_SECONDS):
            assert await one[0].read(1) == b""
        assert await says(other, b"2") == b"2"
        assert await says(await net.connect(), b"3") == b"3"


@on_a_loop
async def test_who_calls_a_target_that_is_down_is_hung_up_on() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    target = f"127.0.0.1:{port_of(server)}"
    probe = await asyncio.start_server(echo, "127.0.0.1", 0)
    listen = f"127.0.0.1:{port_of(probe)}"
    server.close()
    probe.close()
    await server.wait_closed()
    await probe.wait_closed()
    relay = TcpRelay(listen, target, lambda port: port, lambda _: LinkState(), Rng(1))
    await relay.start()
    reader, writer = await asyncio.open_connection(*listen.split(":"))
    async with asyncio.timeout(SOON_SECONDS):
        assert await reader.read(1) == b""
    writer.close()
    await relay.stop()
    await no_tasks()


@on_a_loop
async def test_an_address_that_is_taken_is_named() -> None:
    async with relayed() as net:
        other = TcpRelay(net.relay.listen, net.relay.target, lambda port: port, lambda _: LinkState(), Rng(1))
        with pytest.raises(AddressInUse, match=net.relay.listen):
            await other.start()


@on_a_loop
async def test_the_process_at_the_other_end_is_known() -> None:
    async with relayed() as net:
        ends = await net.connect()
        assert await says(ends, b"1") == b"1"
        (port,) = net.sources
        to_port = int(net.relay.listen.rpartition(":")[2])
        assert SocketOwners(lambda: [1, os.getpid()]).owner_of(port, to_port) == os.getpid()
        assert SocketOwners(lambda: [1]).owner_of(port, to_port) is None
        assert _inode_between(port, to_port) == str(os.fstat(ends[1].get_extra_info("socket").fileno()).st_ino)
        assert _inode_between(port, port) is None


@on_a_loop
async def test_one_look_at_the_processes_finds_the_owners_of_all_connections_there_were() -> None:
    looks = 0

    def processes() -> list[int]:
        nonlocal looks
        looks += 1
        return [os.getpid()]

    owners = SocketOwners(processes)
    async with relayed() as net:
        to_port = int(net.relay.listen.rpartition(":")[2])
        for _ in range(20):
            assert await says(await net.connect(), b"1") == b"1"
        assert [owners.owner_of(port, to_port) for port in net.sources] == [os.getpid()] * 20
        assert looks == 1
        gone = await net.connect()
        port = gone[1].get_extra_info("sockname")[1]
        assert await says(gone, b"1") == b"1"
        gone[1].close()
        await gone[1].wait_closed()
        assert owners.owner_of(port, to_port) is None
        assert looks == 1  # a caller that hung up is not looked for


@on_a_loop
async def test_callers_that_hung_up_before_they_were_served_cost_nothing() -> None:
    async with relayed() as net:
        host, _, port = net.relay.listen.rpartition(":")
        for _ in range(50):
            with socket.create_connection((host, int(port))):
                pass  # the loop that the relay lives on has no time to accept it
        assert await says(await net.connect(), b"1") == b"1"
        assert len(net.sources) == 1
