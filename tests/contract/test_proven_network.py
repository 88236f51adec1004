"""Nodes are believed only with the cluster's secret, over gRPC and in simulation alike."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import MetadataIndexRequest, MetadataIndexResponse
from lograft.proto.methods import PROVE
from lograft.proto.node_proof_pb2 import NodeHello, NodeProofRequest
from lograft.rpc.status import read_detail
from lograft.rpc.unary import call, unary
from lograft.runtime.clock import LoopClock
from lograft.runtime.network import (
    ConnectFailed,
    Connection,
    ConnectionLimits,
    Handler,
    Network,
    PanicHandler,
    Server,
    Status,
    Stream,
    StreamError,
)
from lograft.runtime.proof.node_proof import Caller, NodeIdentity, Session
from lograft.runtime.proof.proven_network import ProofLimits, ProvenNetwork
from lograft.runtime.rng import Rng

if TYPE_CHECKING:
    from contract.conftest import World

SECRET, OTHER = b"s" * 32, b"o" * 32
INTERNAL = "/lograft.internal.v1.Test/Echo"
ASKED = "/lograft.internal.v1.Test/Ask"
PUBLIC = "/lograft.v1.Test/Echo"


async def echo(stream: Stream) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def answer(_: MetadataIndexRequest) -> MetadataIndexResponse:
    return MetadataIndexResponse(index=7)


def proven(network: Network, node_id: int, secret: bytes = SECRET, limits: ProofLimits | None = None) -> ProvenNetwork:
    return ProvenNetwork(network, NodeIdentity("c", node_id, (secret,)), Rng(node_id), LoopClock(), limits)


class Served:
    """Node 2, which notes what its handler was given. Whatever strangers do, a node is still served."""

    def __init__(self, world: "World", server: Server, given: list[bytes]) -> None:
        self._world = world
        self.address = server.address
        self.given = given

    async def stranger(self) -> Connection:
        """Who knows no secret, and is not refused at the door."""
        return await self._world.connect(self.address)

    async def node(self, secret: bytes = SECRET) -> Connection:
        connection = await proven(self._world.client, 1, secret).connect(self.address)
        self._world.cleaning.push_async_callback(connection.close)
        return connection

    async def still_serves_nodes(self) -> None:
        before = list(self.given)
        connection = await self.node()
        stream = connection.open(INTERNAL)
        await stream.send(b"from a node")
        assert await stream.receive() == b"from a node"
        await stream.half_close()
        assert await stream.receive() is None
        assert self.given == [*before, b"from a node"], "and nobody else was"


async def serving(world: "World", limits: ProofLimits | None = None) -> Served:
    given: list[bytes] = []

    async def noting_echo(stream: Stream) -> None:
        while (message := await stream.receive()) is not None:
            given.append(message)
            await stream.send(message)

    handlers = {INTERNAL: noting_echo, PUBLIC: echo, ASKED: unary(answer, MetadataIndexRequest)}
    links = proven(world.server, 2, limits=limits)
    server = await links.serve(world.unused_address(), handlers, world.panics.append)
    world.cleaning.push_async_callback(server.stop)
    return Served(world, server, given)


async def refusal(stream: Stream, *messages: bytes) -> StreamError:
    """Of what is said and heard on the stream."""

    async def talk() -> None:
        for message in messages:
            await stream.send(message)
        while await stream.receive() is not None:
            pass

    with pytest.raises(StreamError) as refused:
        await talk()
    assert refused.value.status is Status.UNAUTHENTICATED, refused.value
    detail = read_detail(refused.value)
    assert detail is not None
    assert (detail.code, detail.retriable) == (errors_pb2.UNAVAILABLE, True), "nothing was done"
    return refused.value


async def test_nodes_with_the_secret_talk_to_each_other(world: "World") -> None:
    served = await serving(world)
    for _ in range(3):
        await served.still_serves_nodes()
    connection = await served.node()
    streams = [connection.open(INTERNAL) for _ in range(20)]
    await asyncio.gather(*(stream.send(b"%d" % number) for number, stream in enumerate(streams)))
    assert [await stream.receive() for stream in streams] == [b"%d" % number for number in range(20)]


async def test_calls_of_one_message_are_proven_too(world: "World") -> None:
    connection = await (await serving(world)).node()
    for _ in range(3):
        assert (await call(connection, ASKED, MetadataIndexRequest(), MetadataIndexResponse)).index == 7


async def test_sending_and_hearing_may_begin_at_once(world: "World") -> None:
    connection = await (await serving(world)).node()
    stream = connection.open(INTERNAL)
    heard = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    await stream.send(b"x")
    assert await heard == b"x"
    silent = connection.open(INTERNAL)
    await silent.half_close()
    assert await silent.receive() is None


async def test_what_is_for_clients_is_for_everybody(world: "World") -> None:
    served = await serving(world)
    for connection in (await served.stranger(), await served.node()):
        stream = connection.open(PUBLIC)
        await stream.send(b"x")
        assert await stream.receive() == b"x"


async def test_large_messages_of_strangers_are_not_served(world: "World") -> None:
    served = await serving(world, ProofLimits(message_bytes=1000))
    stranger = (await served.stranger()).open(PUBLIC)
    await stranger.send(bytes(1000))
    assert await stranger.receive() == bytes(1000)
    await stranger.send(bytes(1001))
    error = await world.expect_error(stranger.receive(), Status.RESOURCE_EXHAUSTED)
    assert "1001 bytes: this port is for nodes, and takes at most 1000 bytes from others" in error.message
    node = (await served.node()).open(PUBLIC)
    await node.send(bytes(5000))
    assert await node.receive() == bytes(5000)


async def test_what_nodes_send_counts_against_no_limit_of_strangers(world: "World") -> None:
    """The peers that are believed are those with a proof that lasts."""
    limits: list[ConnectionLimits] = []

    class Noting:
        connect = world.server.connect

        async def serve(
            self,
            address: str,
            handlers: Mapping[str, Handler],
            on_panic: PanicHandler,
            given: ConnectionLimits | None = None,
        ) -> Server:
            assert given is not None
            limits.append(given)
            return await world.server.serve(address, handlers, on_panic)

    peers: list[str] = []

    async def note(stream: Stream) -> None:
        peers.append(stream.peer)
        await stream.send(b"noted")

    links = proven(Noting(), 2, limits=ProofLimits(unread_bytes=77))
    server = await links.serve(world.unused_address(), {PUBLIC: note}, world.panics.append, ConnectionLimits(9, 9))
    world.cleaning.push_async_callback(server.stop)
    assert (limits[0].total, limits[0].per_address, limits[0].unread_bytes) == (9, 9, 77)
    believed = limits[0].believed
    assert believed is not None
    stranger = (await world.connect(server.address)).open(PUBLIC)
    assert await stranger.receive() == b"noted"
    assert list(believed()) == []
    connection = await proven(world.client, 1).connect(server.address)
    node = connection.open(PUBLIC)
    assert await node.receive() == b"noted"
    assert list(believed()) == peers[1:]
    await connection.close()
    while believed():  # noqa: ASYNC110 (of a set that nobody tells of)
        await asyncio.sleep(0.001)


async def test_a_stranger_is_not_heard(world: "World") -> None:
    served = await serving(world)
    stranger = await served.stranger()
    for first in (b"", b"x", b"\xff" * 100, MetadataIndexRequest().SerializeToString()):
        error = await refusal(stranger.open(INTERNAL), first)
        assert "begins without a ticket: give both nodes the same cluster_secret_file" in error.message
    await served.still_serves_nodes()


async def test_another_secret_is_said_to_be_another(world: "World") -> None:
    """By the one that connects, which is the first to know; and by the other, of one that does not care."""
    served = await serving(world)
    with pytest.raises(ConnectFailed, match="node 2 there does not know the secret of cluster 'c': give both nodes"):
        await served.node(OTHER)
    stream = (await served.stranger()).open(PROVE)
    caller = Caller(NodeIdentity("c", 1, (OTHER,)), bytes(32))
    await stream.send(caller.hello())
    await stream.receive()
    error = await refusal(stream, NodeProofRequest(proof=b"p" * 32).SerializeToString())
    assert "node 1 does not know the secret of cluster 'c'" in error.message
    await served.still_serves_nodes()


async def test_who_asks_for_no_proof_is_told_of_the_file(world: "World") -> None:
    server = await world.serve({INTERNAL: echo})
    with pytest.raises(ConnectFailed, match="asks for no proof: give it this cluster's cluster_secret_file"):
        await proven(world.client, 1).connect(server.address)


HALF_A_HELLO = NodeProofRequest(hello=NodeHello(version=1, cluster_id="c", node_id=1, nonce=b"short"))
A_HELLO = Caller(NodeIdentity("c", 1, (SECRET,)), bytes(32)).hello()


NO_PROOFS = {
    "nothing": [b""],
    "rubbish": [b"\xff\xff"],
    "a short nonce": [HALF_A_HELLO.SerializeToString()],
    "half a hello": [A_HELLO[:20]],
    "two hellos": [A_HELLO, A_HELLO],
    "rubbish for a proof": [A_HELLO, b"\xff"],
}


async def test_what_is_no_proof_is_refused(world: "World") -> None:
    served = await serving(world)
    stranger = await served.stranger()
    for messages in NO_PROOFS.values():
        await refusal(stranger.open(PROVE), *messages)
    await served.still_serves_nodes()


async def test_what_was_overheard_is_of_no_use(world: "World") -> None:
    """A proof, and tickets, again: on the same connection, on another, and when the first is gone."""
    served = await serving(world)
    overheard: list[tuple[str, bytes]] = []

    class Overheard:
        def __init__(self, connection: Connection) -> None:
            self._connection = connection
            self.broken = connection.broken

        def open(self, method: str) -> Stream:
            stream = self._connection.open(method)
            send = stream.send

            async def noting(message: bytes) -> None:
                overheard.append((method, message))
                await send(message)

            stream.send = noting  # type: ignore[method-assign]
            return stream

        async def close(self) -> None:
            await self._connection.close()

    class Wire:
        async def connect(self, address: str, timeout_ms: int = 3000) -> Connection:
            return Overheard(await world.client.connect(address, timeout_ms))

        serve = world.client.serve

    node = await proven(Wire(), 1).connect(served.address)
    stream = node.open(INTERNAL)
    await stream.send(b"x")
    assert await stream.receive() == b"x"
    (_, hello), (_, proof), (_, ticket), _ = overheard
    stranger = await served.stranger()
    assert "does not know the secret" in (await refusal(stranger.open(PROVE), hello, proof)).message
    for _ in range(2):
        await refusal(stranger.open(INTERNAL), ticket)
    await node.close()
    await refusal(stranger.open(INTERNAL), ticket)
    await served.still_serves_nodes()


async def test_a_forged_ticket_does_not_count_on_a_connection_that_is_proven(world: "World") -> None:
    served = await serving(world)
    connection = await served.node()
    inner: Connection = connection._connection  # type: ignore[attr-defined]
    session: Session = connection._session  # type: ignore[attr-defined]
    assert "forged" in (await refusal(inner.open(INTERNAL), session.ticket(ASKED))).message
    ticket = session.ticket(INTERNAL)
    stream = inner.open(INTERNAL)
    await stream.send(ticket)
    await stream.send(b"x")
    assert await stream.receive() == b"x"
    assert "used already" in (await refusal(inner.open(INTERNAL), ticket)).message


async def test_who_is_silent_is_not_waited_for(world: "World") -> None:
    served = await serving(world, ProofLimits(proof_ms=150))
    stranger = await served.stranger()
    beginnings: list[tuple[str, list[bytes]]] = [(INTERNAL, []), (PROVE, []), (PROVE, [A_HELLO])]
    for method, said in beginnings:
        stream = stranger.open(method)
        for message in said:
            await stream.send(message)
            assert await stream.receive()
        assert "it proved nothing in time" in (await refusal(stream)).message
    await served.still_serves_nodes()


async def test_many_who_are_silent_keep_nobody_out(world: "World") -> None:
    served = await serving(world, ProofLimits(proof_ms=60_000, unproven=4))
    stranger = await served.stranger()
    streams = []
    for _ in range(12):
        stream = stranger.open(PROVE)
        await stream.send(A_HELLO)
        assert await stream.receive()
        streams.append(stream)
    for stream in streams[:8]:
        assert "in time" in (await refusal(stream)).message
    await served.still_serves_nodes()


async def test_many_streams_of_a_stranger_end_no_proof_of_a_node(world: "World") -> None:
    served = await serving(world, ProofLimits(proof_ms=60_000, unproven=4))
    connection = await world.server.connect(served.address)
    world.cleaning.push_async_callback(connection.close)
    slow = connection.open(PROVE)  # of a node, whose proof takes a while
    caller = Caller(NodeIdentity("c", 3, (SECRET,)), bytes(32))
    await slow.send(caller.hello())
    proof, _ = caller.prove(await slow.receive())
    stranger = await served.stranger()
    streams = []
    for _ in range(12):
        stream = stranger.open(PROVE)
        await stream.send(A_HELLO)
        assert await stream.receive()
        streams.append(stream)
    for stream in streams[:8]:
        assert "in time" in (await refusal(stream)).message
    await slow.send(proof)
    assert await slow.receive() == b""
    await served.still_serves_nodes()


async def test_a_peer_that_never_proves_is_given_up(world: "World") -> None:
    async def silent(stream: Stream) -> None:
        await stream.receive()
        await asyncio.sleep(3600)

    server = await world.serve({PROVE: silent})
    with pytest.raises(ConnectFailed, match="no proof of the cluster's secret within 400 ms"):
        await proven(world.client, 1).connect(server.address, 200)


async def test_a_peer_that_answers_rubbish_is_given_up(world: "World") -> None:
    async def rubbish(stream: Stream) -> None:
        await stream.receive()
        await stream.send(b"\xff\xff\xff")
        await stream.receive()

    server = await world.serve({PROVE: rubbish})
    with pytest.raises(ConnectFailed, match="the answer is no proof"):
        await proven(world.client, 1).connect(server.address)
