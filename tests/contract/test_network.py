"""What every network promises of messages and of how streams end: gRPC on loopback and the simulated one.

Each test is one coroutine that is given a `world`: a client's network, a server's, and what tests need besides.
"""

import asyncio
from typing import TYPE_CHECKING

from lograft.runtime.network import MAX_MESSAGE_BYTES, Status, Stream, StreamError

if TYPE_CHECKING:
    from contract.conftest import World

METHOD = "/lograft.test.Contract/Method"
ECHO = "/lograft.test.Contract/Echo"


async def echo(stream: Stream) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(message)


# -- messages


async def test_a_message_comes_back_from_an_echo(world: "World") -> None:
    stream = (await world.connected(echo)).open(METHOD)
    await stream.send(b"hello")
    assert await stream.receive() == b"hello"
    await stream.send(b"")
    assert await stream.receive() == b""


async def test_messages_arrive_in_order_both_ways(world: "World") -> None:
    stream = (await world.connected(echo)).open(METHOD)
    expected = [str(number).encode() for number in range(500)]

    async def send_all() -> None:
        for message in expected:
            await stream.send(message)
        await stream.half_close()

    async with asyncio.TaskGroup() as group:
        group.create_task(send_all())
        received = []
        while (message := await stream.receive()) is not None:
            received.append(message)
    assert received == expected


async def test_large_messages_pass_whole(world: "World") -> None:
    stream = (await world.connected(echo)).open(METHOD)
    large = bytes(range(256)) * 16 * 1024
    await stream.send(large)
    assert await stream.receive() == large


async def test_a_message_over_the_limit_is_refused_and_the_stream_goes_on(world: "World") -> None:
    stream = (await world.connected(echo)).open(METHOD)
    await world.expect_error(stream.send(bytes(MAX_MESSAGE_BYTES + 1)), Status.RESOURCE_EXHAUSTED)
    await stream.send(b"small")
    assert await stream.receive() == b"small"


async def test_many_streams_share_a_connection(world: "World") -> None:
    connection = await world.connected(echo)

    async def talk(number: int) -> None:
        stream = connection.open(METHOD)
        for round_number in range(5):
            message = f"{number}-{round_number}".encode()
            await stream.send(message)
            assert await stream.receive() == message
        await stream.half_close()
        assert await stream.receive() is None

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(talk(number))


# -- how streams end well


async def test_a_handler_still_answers_after_the_caller_half_closed(world: "World") -> None:
    async def count(stream: Stream) -> None:
        messages = 0
        while await stream.receive() is not None:
            messages += 1
        assert await stream.receive() is None
        await stream.send(str(messages).encode())

    stream = (await world.connected(count)).open(METHOD)
    for _ in range(3):
        await stream.send(b"x")
    await stream.half_close()
    await stream.half_close()
    assert await stream.receive() == b"3"
    assert await stream.receive() is None
    assert await stream.receive() is None


async def test_a_handler_that_has_sent_still_sees_the_half_close(world: "World") -> None:
    ends: list[bytes | None] = []

    async def greet(stream: Stream) -> None:
        await stream.send(b"hello")
        ends.append(await stream.receive())
        await stream.send(b"goodbye")

    stream = (await world.connected(greet)).open(METHOD)
    assert await stream.receive() == b"hello"
    await stream.half_close()
    assert await stream.receive() == b"goodbye"
    assert ends == [None]


async def test_a_handler_that_returns_ends_the_stream_for_a_caller_that_did_not(world: "World") -> None:
    async def one(stream: Stream) -> None:
        await stream.send(b"only")

    stream = (await world.connected(one)).open(METHOD)
    assert await stream.receive() == b"only"
    assert await stream.receive() is None
    error = await world.send_until_error(stream)
    assert (error.status, error.message) == (Status.CANCELLED, "the stream is over: its handler has returned")
    assert await stream.receive() is None
    stream.reset()
    assert await stream.receive() is None


# -- how streams end badly


async def test_status_message_and_detail_reach_the_caller(world: "World") -> None:
    detail = bytes(range(256))

    async def refuse(stream: Stream) -> None:
        raise StreamError(Status.FAILED_PRECONDITION, "not the leader: ask 2 ä", detail)

    stream = (await world.connected(refuse)).open(METHOD)
    for _ in range(2):
        error = await world.expect_error(stream.receive(), Status.FAILED_PRECONDITION)
        assert (error.message, error.detail) == ("not the leader: ask 2 ä", detail)


async def test_every_status_survives_the_way(world: "World") -> None:
    async def refuse(stream: Stream) -> None:
        message = await stream.receive()
        assert message is not None
        raise StreamError(Status(int(message)), "refused")

    connection = await world.connected(refuse)
    for status in Status:
        stream = connection.open(METHOD)
        await stream.send(str(status.value).encode())
        error = await world.expect_error(stream.receive(), status)
        assert (error.message, error.detail) == ("refused", b"")


async def test_messages_sent_before_an_error_are_received_before_it(world: "World") -> None:
    async def fail_late(stream: Stream) -> None:
        await stream.send(b"1")
        await stream.send(b"2")
        raise StreamError(Status.ABORTED, "enough", b"why")

    connection = await world.connected(fail_late)
    stream = connection.open(METHOD)
    other = connection.open(ECHO)
    for number in range(50):
        # Long after the end arrived, what is sent goes nowhere, and spoils nothing that waits to be received.
        await stream.send(b"late")
        await other.send(str(number).encode())
        await other.receive()
    assert await stream.receive() == b"1"
    assert await stream.receive() == b"2"
    error = await world.expect_error(stream.receive(), Status.ABORTED)
    assert (error.message, error.detail) == ("enough", b"why")


async def test_a_send_to_a_failed_stream_tells_how_it_failed(world: "World") -> None:
    async def refuse(stream: Stream) -> None:
        raise StreamError(Status.NOT_FOUND, "no such topic", b"why")

    stream = (await world.connected(refuse)).open(METHOD)
    error = await world.send_until_error(stream)
    assert (error.status, error.message, error.detail) == (Status.NOT_FOUND, "no such topic", b"why")


async def test_an_unknown_method_is_unimplemented(world: "World") -> None:
    connection = await world.connected(echo)
    await world.expect_error(connection.open("/lograft.test.Contract/None").receive(), Status.UNIMPLEMENTED)
    stream = connection.open(METHOD)
    await stream.send(b"still here")
    assert await stream.receive() == b"still here"


async def test_an_unexpected_exception_is_internal_to_the_caller_and_a_panic_to_the_server(world: "World") -> None:
    async def broken(stream: Stream) -> None:
        await stream.receive()
        raise AssertionError("high watermark above the end")

    stream = (await world.connected(broken)).open(METHOD)
    await stream.send(b"x")
    await world.expect_error(stream.receive(), Status.INTERNAL)
    assert [str(panic) for panic in world.panics] == ["high watermark above the end"]
    world.panics.clear()


async def test_a_stream_error_in_a_handlers_task_group_is_no_panic(world: "World") -> None:
    async def refuse() -> None:
        raise StreamError(Status.OUT_OF_RANGE, "no such offset", b"detail")

    async def grouped(stream: Stream) -> None:
        async with asyncio.TaskGroup() as group:
            await stream.receive()
            group.create_task(refuse())
            await stream.receive()

    stream = (await world.connected(grouped)).open(METHOD)
    await stream.send(b"x")
    error = await world.expect_error(stream.receive(), Status.OUT_OF_RANGE)
    assert (error.message, error.detail) == ("no such offset", b"detail")
    assert world.panics == []


async def test_a_broken_invariant_beside_a_stream_error_is_a_panic(world: "World") -> None:
    async def broken(stream: Stream) -> None:
        await stream.receive()
        raise ExceptionGroup("both", [StreamError(Status.NOT_FOUND, "gone"), AssertionError("worse")])

    stream = (await world.connected(broken)).open(METHOD)
    await stream.send(b"x")
    await world.expect_error(stream.receive(), Status.INTERNAL)
    assert len(world.panics) == 1
    world.panics.clear()


# -- flow control


async def test_a_caller_waits_for_a_handler_that_does_not_read(world: "World") -> None:
    release = asyncio.Event()
    chunk, chunks = bytes(64 * 1024), 512
    sent = 0

    async def slow(stream: Stream) -> None:
        await release.wait()
        received = 0
        while (message := await stream.receive()) is not None:
            received += len(message)
        await stream.send(str(received).encode())

    async def send_all(stream: Stream) -> None:
        nonlocal sent
        for _ in range(chunks):
            await stream.send(chunk)
            sent += len(chunk)
        await stream.half_close()

    connection = await world.connected(slow)
    stream = connection.open(METHOD)
    sending = asyncio.ensure_future(send_all(stream))
    await world.ping(connection, 200)
    assert 0 < sent < len(chunk) * chunks // 2
    release.set()
    await sending
    assert await stream.receive() == str(len(chunk) * chunks).encode()


async def test_a_handler_waits_for_a_caller_that_does_not_read(world: "World") -> None:
    chunk, chunks = bytes(64 * 1024), 512
    sent = 0

    async def pour(stream: Stream) -> None:
        nonlocal sent
        for _ in range(chunks):
            await stream.send(chunk)
            sent += len(chunk)

    connection = await world.connected(pour)
    stream = connection.open(METHOD)
    await world.ping(connection, 200)
    assert 0 < sent < len(chunk) * chunks // 2
    received = 0
    while (message := await stream.receive()) is not None:
        received += len(message)
    assert received == len(chunk) * chunks
