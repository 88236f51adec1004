"""What every network promises of resets, connections and servers: gRPC on loopback and the simulated one."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from lograft.runtime.network import AddressInUse, ConnectFailed, ConnectionLimits, Status, Stream, StreamError
from lograft.runtime.production.grpc_network import GrpcServer

if TYPE_CHECKING:
    from contract.conftest import World

METHOD = "/lograft.test.Contract/Method"
ECHO = "/lograft.test.Contract/Echo"


async def echo(stream: Stream) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(message)


# -- resets and cancellation


class Witness:
    """A handler that notes how it ended. It reads a first message, answers it if told to, and waits for a second."""

    def __init__(self, answers: bool = True) -> None:
        self._answers = answers
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.end: object = "nothing"

    async def __call__(self, stream: Stream) -> None:
        try:
            await stream.receive()
            if self._answers:
                await stream.send(b"started")
            self.started.set()
            self.end = await stream.receive()
        except asyncio.CancelledError:
            self.end = "cancelled"
            raise
        finally:
            self.ended.set()


async def test_a_reset_cancels_the_handler_and_is_never_taken_for_a_half_close(world: "World") -> None:
    witnesses: list[Witness] = []

    async def serve(stream: Stream) -> None:
        await witnesses[-1](stream)

    connection = await world.connected(serve)
    for number in range(40):
        witnesses.append(Witness(answers=number % 2 == 0))
        stream = connection.open(METHOD)
        await stream.send(b"x")
        await witnesses[-1].started.wait()
        stream.reset()
        await witnesses[-1].ended.wait()
    assert [witness.end for witness in witnesses] == ["cancelled"] * 40


async def test_a_reset_wakes_the_caller_that_waits(world: "World") -> None:
    witness = Witness()
    stream = (await world.connected(witness)).open(METHOD)
    await stream.send(b"x")
    assert await stream.receive() == b"started"
    waiting = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    stream.reset()
    stream.reset()
    await world.expect_error(waiting, Status.CANCELLED)
    await world.expect_error(stream.receive(), Status.CANCELLED)
    await world.expect_error(stream.send(b"y"), Status.CANCELLED)
    await stream.half_close()
    await witness.ended.wait()


async def test_a_stream_reset_as_soon_as_it_is_opened_is_cancelled(world: "World") -> None:
    connection = await world.connected(echo)
    stream = connection.open(METHOD)
    sending = asyncio.ensure_future(stream.send(b"x"))
    stream.reset()
    await world.expect_error(sending, Status.CANCELLED)
    await world.expect_error(stream.receive(), Status.CANCELLED)


async def test_a_handler_can_reset_its_stream(world: "World") -> None:
    ends: list[str] = []

    async def give_up(stream: Stream) -> None:
        await stream.send(b"1")
        stream.reset()
        try:
            await stream.receive()
        except (StreamError, asyncio.CancelledError) as error:
            ends.append(type(error).__name__)
            raise

    stream = (await world.connected(give_up)).open(METHOD)
    assert (await world.receive_until_error(stream)).status is Status.CANCELLED
    assert len(ends) == 1


async def test_a_cancelled_receive_drops_the_stream(world: "World") -> None:
    witness = Witness()
    stream = (await world.connected(witness)).open(METHOD)
    await stream.send(b"x")
    assert await stream.receive() == b"started"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await stream.receive()
    await world.expect_error(stream.receive(), Status.CANCELLED)
    await witness.ended.wait()
    assert witness.end == "cancelled"


async def test_a_handler_chooses_the_status_after_its_receive_timed_out(world: "World") -> None:
    async def impatient(stream: Stream) -> None:
        try:
            async with asyncio.timeout(0.01):
                await stream.receive()
        except TimeoutError:
            await world.expect_error(stream.send(b"x"), Status.CANCELLED)
            raise StreamError(Status.DEADLINE_EXCEEDED, "silence") from None

    stream = (await world.connected(impatient)).open(METHOD)
    await world.expect_error(stream.receive(), Status.DEADLINE_EXCEEDED)


async def test_two_receives_at_once_are_a_bug(world: "World") -> None:
    stream = (await world.connected(echo)).open(METHOD)
    waiting = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        await stream.receive()
    await stream.send(b"x")
    assert await waiting == b"x"


# -- connections


async def test_connecting_to_nothing_is_refused(world: "World") -> None:
    address = world.unused_address()
    with pytest.raises(ConnectFailed, match="refused") as caught:
        await world.client.connect(address, timeout_ms=120_000)
    assert caught.value.address == address


async def test_connecting_to_silence_times_out(world: "World") -> None:
    address = await world.silent_address()
    with pytest.raises(ConnectFailed, match="no answer within 200 ms"):
        await world.client.connect(address, timeout_ms=200)


async def test_closing_ends_the_streams_and_is_idempotent(world: "World") -> None:
    witness = Witness()
    connection = await world.connected(witness)
    stream = connection.open(METHOD)
    await stream.send(b"x")
    assert await stream.receive() == b"started"
    waiting = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    assert not connection.broken.is_set()
    await asyncio.gather(connection.close(), connection.close())
    await connection.close()
    assert connection.broken.is_set()
    await world.expect_error(waiting, Status.CANCELLED)
    await world.expect_error(stream.receive(), Status.CANCELLED)
    await world.expect_error(connection.open(METHOD).receive(), Status.UNAVAILABLE)
    await world.expect_error(connection.open(METHOD).send(b"x"), Status.UNAVAILABLE)
    await witness.ended.wait()
    assert witness.end == "cancelled"


async def test_connections_to_one_address_do_not_share_their_fate(world: "World") -> None:
    server = await world.serve({METHOD: echo})
    one, other = await world.connect(server.address), await world.connect(server.address)
    await one.close()
    stream = other.open(METHOD)
    await stream.send(b"x")
    assert await stream.receive() == b"x"
    assert not other.broken.is_set()


async def test_a_killed_server_breaks_the_connection_and_its_streams_for_good(world: "World") -> None:
    address, kill = await world.start_doomed_server()
    connection = await world.connect(address)
    stream = connection.open(ECHO)
    await stream.send(b"x")
    assert await stream.receive() == b"x"
    sending = connection.open(ECHO)
    kill()
    await connection.broken.wait()
    assert (await world.receive_until_error(stream)).status is Status.UNAVAILABLE
    assert (await world.send_until_error(sending)).status is Status.UNAVAILABLE
    await world.expect_error(connection.open(ECHO).receive(), Status.UNAVAILABLE)
    with pytest.raises(ConnectFailed):
        await world.client.connect(address)


# -- servers


async def test_a_stopped_server_cancels_its_handlers_and_breaks_connections(world: "World") -> None:
    witness = Witness()
    server = await world.serve({METHOD: witness})
    connection = await world.connect(server.address)
    stream = connection.open(METHOD)
    await stream.send(b"x")
    assert await stream.receive() == b"started"
    await server.stop()
    assert witness.end == "cancelled"
    await connection.broken.wait()
    await world.expect_error(stream.receive(), Status.UNAVAILABLE)
    with pytest.raises(ConnectFailed):
        await world.client.connect(server.address)
    await server.stop()


async def test_a_graceful_stop_lets_open_streams_finish_and_takes_no_new_ones(world: "World") -> None:
    server = await world.serve({METHOD: echo})
    connection = await world.connect(server.address)
    stream = connection.open(METHOD)
    await stream.send(b"before")
    assert await stream.receive() == b"before"
    stopping = asyncio.ensure_future(server.stop(grace_ms=120_000))
    await connection.broken.wait()
    await world.expect_error(connection.open(METHOD).receive(), Status.UNAVAILABLE)
    await stream.send(b"after")
    assert await stream.receive() == b"after"
    assert not stopping.done()
    await stream.half_close()
    assert await stream.receive() is None
    await stopping


async def test_a_graceful_stop_cancels_what_is_left_when_the_grace_is_over(world: "World") -> None:
    witness = Witness()
    server = await world.serve({METHOD: witness})
    stream = (await world.connect(server.address)).open(METHOD)
    await stream.send(b"x")
    assert await stream.receive() == b"started"
    await server.stop(grace_ms=50)
    assert witness.end == "cancelled"
    await world.expect_error(stream.receive(), Status.UNAVAILABLE)


async def test_stop_waits_for_handlers_to_clean_up(world: "World") -> None:
    cleaned = False
    started = asyncio.Event()

    async def tidy(stream: Stream) -> None:
        nonlocal cleaned
        try:
            started.set()
            await stream.receive()
        finally:
            for _ in range(20):
                await asyncio.sleep(0.001)
            cleaned = True

    server = await world.serve({METHOD: tidy})
    stream = (await world.connect(server.address)).open(METHOD)
    receiving = asyncio.ensure_future(stream.receive())
    await started.wait()
    await server.stop()
    assert cleaned
    await world.expect_error(receiving, Status.UNAVAILABLE)


async def test_a_handler_that_talks_on_after_the_server_stopped_is_told_so(world: "World") -> None:
    started, talks_on = asyncio.Event(), asyncio.Event()
    told: list[Status] = []

    async def talk_on(stream: Stream) -> None:
        await stream.receive()
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await talks_on.wait()
            for talk in (stream.receive, lambda: stream.send(b"x")):
                with pytest.raises(StreamError) as caught:
                    await talk()
                told.append(caught.value.status)

    server = await world.serve({METHOD: talk_on})
    stream = (await world.connect(server.address)).open(METHOD)
    await stream.send(b"x")
    await started.wait()
    stopping = asyncio.ensure_future(server.stop())
    await world.expect_error(stream.receive(), Status.UNAVAILABLE)
    talks_on.set()
    await stopping
    assert told == [Status.CANCELLED] * 2


async def test_an_address_in_use_is_named_with_the_cause(world: "World") -> None:
    server = await world.serve({METHOD: echo})
    with pytest.raises(AddressInUse, match="Address already in use") as caught:
        await world.server.serve(server.address, {METHOD: echo}, world.panics.append)
    assert caught.value.address == server.address
    await server.stop()
    again = await world.server.serve(server.address, {METHOD: echo}, world.panics.append)
    await again.stop()


async def test_port_zero_becomes_a_real_port(world: "World") -> None:
    host = world.unused_address().rpartition(":")[0]
    server = await world.server.serve(f"{host}:0", {METHOD: echo}, world.panics.append)
    world.cleaning.push_async_callback(server.stop)
    assert not server.address.endswith(":0")
    stream = (await world.connect(server.address)).open(METHOD)
    await stream.send(b"x")
    assert await stream.receive() == b"x"


# -- limits


async def test_connections_beyond_the_limit_are_refused_and_others_go_on(world: "World") -> None:
    server = await world.serve({ECHO: echo}, ConnectionLimits(total=3, per_address=3))
    connections = [await world.client.connect(server.address) for _ in range(3)]
    with pytest.raises(ConnectFailed):
        await world.client.connect(server.address, timeout_ms=2000)
    for connection in connections:
        stream = connection.open(ECHO)
        await stream.send(b"still served")
        assert await stream.receive() == b"still served"
        await stream.half_close()
        assert await stream.receive() is None
        del stream  # gRPC does not let go of a connection while somebody has a stream of it
    await connections.pop().close()
    async with asyncio.timeout(10):
        while True:  # the server may notice a little later
            try:
                connections.append(await world.client.connect(server.address))
                break
            except ConnectFailed:
                await asyncio.sleep(0.01)
    for connection in connections:
        await connection.close()


async def test_who_has_too_many_connections_loses_the_latest(world: "World") -> None:
    server = await world.serve({ECHO: echo}, ConnectionLimits(total=10, per_address=2))
    first = [await world.client.connect(server.address) for _ in range(2)]
    if isinstance(server, GrpcServer):  # it finds out a moment later, and which were first by having looked before
        async with asyncio.timeout(10):
            while server.connections < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        third = await world.client.connect(server.address)
        await asyncio.wait_for(third.broken.wait(), 10)
        await third.close()
    else:
        with pytest.raises(ConnectFailed):
            await world.client.connect(server.address)
    assert server.connections_refused == 1
    assert not any(connection.broken.is_set() for connection in first)
    for connection in first:
        await connection.close()
