"""The two worlds of the network's contract, and what runs a coroutine test in both."""

import asyncio
import contextlib
import functools
import inspect
import itertools
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping

import pytest
from support.programs import Program

from lograft.chaos.world.loop import run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.runtime.network import (
    AddressInUse,
    Connection,
    ConnectionLimits,
    Handler,
    Network,
    Server,
    Status,
    Stream,
    StreamError,
)
from lograft.runtime.production.grpc_network import GrpcNetwork
from lograft.runtime.rng import Rng

DEADLINE_SECONDS = 60
ECHO = "/lograft.test.Contract/Echo"
METHOD = "/lograft.test.Contract/Method"


async def echo(stream: Stream) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(message)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a `world` runs in each."""
    if "world" in metafunc.fixturenames:
        metafunc.parametrize("world", [GrpcWorld, VirtualWorld], ids=["grpc", "virtual"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Such a test is a coroutine, and gets a world made in the loop it runs in."""
    if "world" not in pyfuncitem.funcargs or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    make_world: type[World] = pyfuncitem.funcargs["world"]  # type: ignore[assignment]
    run = functools.partial(run_scenario, pyfuncitem.obj, make_world)
    if make_world is GrpcWorld:
        asyncio.run(run())
    else:
        run_virtual(run)
    return True


async def run_scenario(scenario: Callable[..., Awaitable[None]], make_world: Callable[[], "World"]) -> None:
    world = make_world()
    async with asyncio.timeout(DEADLINE_SECONDS):
        async with world.cleaning:
            await scenario(world=world)
        assert world.panics == []


class World:
    """A client's network and a server's; `panics` gathers what handlers of `serve` panicked with."""

    def __init__(self, client: Network, server: Network) -> None:
        self.client = client
        self.server = server
        self.panics: list[BaseException] = []
        self.cleaning = contextlib.AsyncExitStack()

    def unused_address(self) -> str:
        """An address that nothing listens on, and that a server may."""
        raise NotImplementedError

    async def silent_address(self) -> str:
        """An address that never answers."""
        raise NotImplementedError

    async def start_doomed_server(self) -> tuple[str, Callable[[], None]]:
        """The address of an echo server on a machine of its own, and what kills it without a word."""
        raise NotImplementedError

    async def serve(self, handlers: Mapping[str, Handler], limits: ConnectionLimits | None = None) -> Server:
        for _ in range(20):
            with contextlib.suppress(AddressInUse):
                server = await self.server.serve(self.unused_address(), handlers, self.panics.append, limits)
                self.cleaning.push_async_callback(server.stop)
                return server
        raise AssertionError("no free port in 20 attempts")

    async def connect(self, address: str) -> Connection:
        connection = await self.client.connect(address)
        self.cleaning.push_async_callback(connection.close)
        return connection

    async def connected(self, handler: Handler) -> Connection:
        """A connection to a new server that serves METHOD by `handler`, and ECHO."""
        server = await self.serve({METHOD: handler, ECHO: echo})
        return await self.connect(server.address)

    async def ping(self, connection: Connection, times: int) -> None:
        """Give the world time to do what it would do, by echoing on another stream."""
        stream = connection.open(ECHO)
        for _ in range(times):
            await stream.send(b"ping")
            assert await stream.receive() == b"ping"
        await stream.half_close()
        assert await stream.receive() is None

    async def expect_error(self, awaitable: Awaitable[object], status: Status) -> StreamError:
        with pytest.raises(StreamError) as caught:
            await awaitable
        assert caught.value.status is status
        return caught.value

    async def receive_until_error(self, stream: Stream) -> StreamError:
        try:
            while await stream.receive() is not None:
                pass
        except StreamError as error:
            return error
        raise AssertionError("the stream ended well")

    async def send_until_error(self, stream: Stream) -> StreamError:
        while True:
            try:
                await stream.send(b"more")
            except StreamError as error:
                return error
            await asyncio.sleep(0.001)


class VirtualWorld(World):
    def __init__(self) -> None:
        self._network = VirtualNetwork(Rng(7))
        self._ports = itertools.count(9000)
        super().__init__(self._network.host("client"), self._network.host("server"))

    def unused_address(self) -> str:
        return f"server:{next(self._ports)}"

    async def silent_address(self) -> str:
        self._network.cut("client", "silent")
        return "silent:1"

    async def start_doomed_server(self) -> tuple[str, Callable[[], None]]:
        server = await self._network.host("doomed").serve("doomed:1", {ECHO: echo}, self.panics.append)
        return server.address, lambda: self._network.crash("doomed")


DOOMED_SERVER = """
import asyncio, sys
from lograft.runtime.production.grpc_network import GrpcNetwork
async def echo(stream):
    while (message := await stream.receive()) is not None:
        await stream.send(message)
async def main():
    server = await GrpcNetwork().serve(sys.argv[1], {sys.argv[2]: echo}, print)
    print(server.address, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


class GrpcWorld(World):
    # Below the ephemeral ports, a range for each parallel test process; the process id spreads whoever else is there.
    _worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    _ports = itertools.count(os.getpid() * 97)

    def __init__(self) -> None:
        super().__init__(GrpcNetwork(), GrpcNetwork())

    def unused_address(self) -> str:
        for number in self._ports:
            port = 12_000 + self._worker % 8 * 2500 + number % 2500
            with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return f"127.0.0.1:{port}"
        raise AssertionError

    async def silent_address(self) -> str:
        address = self.unused_address()
        listener = socket.create_server(("127.0.0.1", int(address.rpartition(":")[2])))
        self.cleaning.callback(listener.close)
        return address

    async def start_doomed_server(self) -> tuple[str, Callable[[], None]]:
        program = Program(sys.executable, "-c", DOOMED_SERVER, self.unused_address(), ECHO)
        self.cleaning.enter_context(program)
        return program.line().strip(), program.kill
