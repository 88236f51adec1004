"""What only gRPC's adapter has: that others speak to it as to any gRPC server."""

import asyncio
import gc
import os
import subprocess
import sys
import weakref

import grpc
import pytest
from grpc import aio

from lograft.runtime.network import AddressInUse, ConnectFailed, ConnectionLimits, Handler, Status, Stream, StreamError
from lograft.runtime.production.grpc_network import GrpcNetwork, GrpcServer, _plain_reason

METHOD = "/lograft.test.Unary/Method"


async def serve(handler: Handler, limits: ConnectionLimits | None = None) -> GrpcServer:
    for attempt in range(50):
        port = 10_000 + (os.getpid() * 31 + attempt) % 2000
        try:
            return await GrpcNetwork().serve(f"127.0.0.1:{port}", {METHOD: handler}, print, limits)
        except AddressInUse:
            continue
    raise AssertionError("no free port in 50 attempts")


def test_a_unary_client_is_served_by_a_stream_handler() -> None:
    async def answer(stream: Stream) -> None:
        request = await stream.receive()
        assert request is not None
        if request == b"refuse":
            raise StreamError(Status.NOT_FOUND, "no such topic", b"\x00detail")
        await stream.send(request.upper())

    async def main() -> None:
        server = await serve(answer)
        async with aio.insecure_channel(server.address) as channel:
            call = channel.unary_unary(METHOD)
            assert await call(b"hello") == b"HELLO"
            with pytest.raises(aio.AioRpcError) as caught:
                await call(b"refuse")
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            assert caught.value.details() == "no such topic"
            assert dict(caught.value.trailing_metadata() or ()) == {"lograft-error-bin": b"\x00detail"}
        await server.stop()

    asyncio.run(main())


def test_a_message_that_is_too_large_for_a_server_is_refused_with_the_remedy() -> None:
    async def answer(stream: Stream) -> None:
        assert await stream.receive() == bytes(1000)
        await stream.send(b"taken")

    async def main() -> None:
        server = await serve(answer, ConnectionLimits(100, 100, message_bytes=1000))
        connection = await GrpcNetwork().connect(server.address)
        stream = connection.open(METHOD)
        await stream.send(bytes(1000))
        assert await stream.receive() == b"taken"
        refused = connection.open(METHOD)
        await refused.send(bytes(1001))
        with pytest.raises(StreamError, match=r"of 1001 bytes is over the 1000 .* the node's max_request_bytes"):
            await refused.receive()
        await connection.close()
        await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_call_that_failed_holds_nothing(is_cancelled: bool) -> None:
    """Also before the garbage is collected, which may take long: a stranger's messages are of tens of megabytes."""
    held: list[weakref.ref[object]] = []

    async def fail(stream: Stream) -> None:
        received = set(await stream.receive() or b"")
        held.append(weakref.ref(received))
        if is_cancelled:
            await stream.receive()
        try:
            raise ValueError(received)
        except ValueError:
            raise StreamError(Status.ABORTED, "refused") from None

    async def main() -> None:
        server = await serve(fail)
        connection = await GrpcNetwork().connect(server.address)
        stream = connection.open(METHOD)
        await stream.send(b"x")
        if is_cancelled:
            while not held:  # noqa: ASYNC110 (the handler runs in this loop)
                await asyncio.sleep(0.001)
            await connection.close()
        else:
            with pytest.raises(StreamError):
                await stream.receive()
        async with asyncio.timeout(30):
            while held[0]() is not None:  # noqa: ASYNC110 (nobody tells when it is freed)
                await asyncio.sleep(0.001)
        await connection.close()
        await server.stop()

    gc.collect()
    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_a_message_too_long_for_a_header_is_cut_not_lost() -> None:
    async def complain(stream: Stream) -> None:
        raise StreamError(Status.ABORTED, "ä" * 100_000, b"detail")

    async def main() -> None:
        server = await serve(complain)
        connection = await GrpcNetwork().connect(server.address)
        with pytest.raises(StreamError) as caught:
            await connection.open(METHOD).receive()
        assert caught.value.status is Status.ABORTED
        assert caught.value.detail == b"detail"
        assert caught.value.message == "ä" * len(caught.value.message)
        await connection.close()
        await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:port", "no-such-host.invalid:9092"])
def test_an_address_that_makes_no_sense_cannot_be_listened_on(address: str) -> None:
    with pytest.raises(AddressInUse) as caught:
        asyncio.run(GrpcNetwork().serve(address, {}, print))
    assert caught.value.address == address
    assert caught.value.reason


# In one loop. gRPC has one poller for a process: an event of a server that was stopped may come when its loop is closed
# and another runs, which then says so.
NOISE = """
import asyncio
from lograft.runtime.production.grpc_network import GrpcNetwork
from lograft.runtime.network import AddressInUse
async def wait(stream):
    await stream.receive()
async def main():
    server = await GrpcNetwork().serve("127.0.0.1:0", {"/wait": wait}, print)
    try:
        await GrpcNetwork().serve(server.address, {}, print)
    except AddressInUse:
        pass
    connection = await GrpcNetwork().connect(server.address)
    stream = connection.open("/wait")
    await stream.send(b"x")
    connection.open("/wait")
    await server.stop()
    await connection.broken.wait()
    await connection.close()
async def twice():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no noise
    await main()
    await main()
asyncio.run(twice(), debug=True)
"""


def test_refusals_and_a_shutdown_print_nothing() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GRPC_")}
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", NOISE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_peer_that_vanishes_without_a_goodbye_is_noticed() -> None:
    """As after a power failure: packets go nowhere, and no one resets the connection."""

    async def echo(stream: Stream) -> None:
        while (message := await stream.receive()) is not None:
            await stream.send(message)

    async def main() -> None:
        server = await serve(echo)
        host, _, port = server.address.rpartition(":")
        has_vanished = asyncio.Event()
        ended = asyncio.Event()

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while (data := await reader.read(65536)) and not has_vanished.is_set():
                writer.write(data)
            await ended.wait()
            writer.close()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            from_server, to_server = await asyncio.open_connection(host, int(port))
            await asyncio.gather(pass_on(reader, to_server), pass_on(from_server, writer))

        proxy_port = int(port) + 2000
        proxy = await asyncio.start_server(accept, "127.0.0.1", proxy_port)
        connection = await GrpcNetwork().connect(f"127.0.0.1:{proxy_port}")
        stream = connection.open(METHOD)
        await stream.send(b"there?")
        assert await stream.receive() == b"there?"
        has_vanished.set()
        async with asyncio.timeout(60):
            await connection.broken.wait()
        ended.set()
        await connection.close()
        proxy.close()
        await proxy.wait_closed()
        await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("number", ["", " (111)"])
def test_of_what_grpc_says_of_a_failed_connection_the_cause_is_told(number: str) -> None:
    to = "ipv4:127.0.0.1:9092: Failed to connect to remote host"
    told = f"failed to connect to all addresses; last error: UNKNOWN: {to}: Connection refused{number}"
    assert _plain_reason(told) == "Connection refused"
    assert _plain_reason("DNS resolution failed (2)") == "DNS resolution failed (2)"


def test_why_nobody_can_be_reached_is_told_in_plain_words() -> None:
    with pytest.raises(ConnectFailed) as caught:
        asyncio.run(GrpcNetwork().connect("127.0.0.1:1", timeout_ms=60_000))
    assert caught.value.reason == "Connection refused"
