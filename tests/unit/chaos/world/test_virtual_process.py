"""A process that is stopped does nothing, and nobody can tell but by its silence."""

import asyncio

import pytest

from lograft.chaos.world.loop import VirtualLoop, run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.process import Process
from lograft.runtime.network import ConnectFailed, Stream
from lograft.runtime.rng import Rng

METHOD = "/lograft.test.Network/Method"


def never(panic: BaseException) -> None:
    raise AssertionError from panic


def resume(process: Process) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.let_go_on(process, Rng(1))


async def serve_echo(network: VirtualNetwork, process: Process) -> None:
    async def echo(stream: Stream) -> None:
        while (message := await stream.receive()) is not None:
            await stream.send(message)

    serving = network.host("b").serve("b:1", {METHOD: echo}, never)
    await asyncio.get_running_loop().create_task(serving, context=process.context)


def test_tasks_timers_and_timeouts_wait_and_all_of_it_comes_late() -> None:
    happened: list[tuple[str, float]] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1, lambda: happened.append(("timer", loop.time())))
        try:
            async with asyncio.timeout(2):
                await asyncio.sleep(3)
        except TimeoutError:
            happened.append(("timeout", loop.time()))

    async def main() -> None:
        loop, process = asyncio.get_running_loop(), Process()
        task = loop.create_task(work(), context=process.context)
        await asyncio.sleep(0.5)
        process.stop()
        await asyncio.sleep(9.5)
        assert not happened
        resume(process)
        await task
        assert sorted(happened) == [("timeout", 10.0), ("timer", 10.0)]

    run_virtual(main)


def test_what_was_sent_before_arrives_and_what_comes_waits() -> None:
    async def main() -> None:
        network, process = VirtualNetwork(Rng(1)), Process()
        await serve_echo(network, process)
        connection = await network.host("a").connect("b:1")
        stream = connection.open(METHOD)
        await stream.send(b"0")
        assert await stream.receive() == b"0"
        process.stop()
        await stream.send(b"1")
        receiving = asyncio.ensure_future(stream.receive())
        await asyncio.wait([receiving], timeout=60)
        assert not receiving.done()
        assert not connection.broken.is_set()
        resume(process)
        assert await receiving == b"1"

    run_virtual(main)


def test_a_stopped_process_takes_no_connections_and_does_not_refuse_them() -> None:
    async def main() -> None:
        network, process = VirtualNetwork(Rng(1)), Process()
        await serve_echo(network, process)
        process.stop()
        with pytest.raises(ConnectFailed, match="no answer"):
            await network.host("a").connect("b:1", timeout_ms=2000)
        connecting = asyncio.ensure_future(network.host("a").connect("b:1", timeout_ms=60_000))
        await asyncio.sleep(10)
        resume(process)
        await connecting

    run_virtual(main)


def test_who_sent_something_and_was_stopped_has_sent_it() -> None:
    async def main() -> None:
        network, caller = VirtualNetwork(Rng(1)), Process()
        heard: list[bytes | None] = []

        async def hear(stream: Stream) -> None:
            heard.append(await stream.receive())

        async def call() -> None:
            stream = (await network.host("a").connect("b:1")).open(METHOD)
            await stream.send(b"0")
            caller.stop()
            await stream.receive()

        await network.host("b").serve("b:1", {METHOD: hear}, never)
        task = asyncio.get_running_loop().create_task(call(), context=caller.context)
        await asyncio.sleep(5)
        assert heard == [b"0"]
        assert not task.done()
        resume(caller)
        await task

    run_virtual(main)
