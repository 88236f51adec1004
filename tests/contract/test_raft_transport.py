"""What the Raft transport promises, over gRPC on loopback and over the simulated network."""

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from support.raft_wire import CLUSTER, WireNode, append, heartbeat, member, order_of, snapshot_of

from lograft.raft.core.configuration import Member
from lograft.raft.core.messages import Envelope, InstallSnapshot
from lograft.raft.transport.envelope_codec import encode_envelopes
from lograft.raft.transport.hello import Hello, decode_hello, encode_hello
from lograft.raft.transport.peer_connection import MESSAGES_METHOD, TransportLimits
from lograft.runtime.network import Server, Status, Stream

if TYPE_CHECKING:
    from contract.conftest import World

ONE, TWO = member(1), member(2)
TWO_WIPED = member(2, directory=1)


async def serve(world: "World", node: WireNode) -> Server:
    return await world.serve(node.transport.handlers())


async def serve_at(world: "World", node: WireNode, address: str) -> Server:
    server = await world.server.serve(address, node.transport.handlers(), world.panics.append)
    world.cleaning.push_async_callback(server.stop)
    return server


async def joined(world: "World", stack: AsyncExitStack, limits: TransportLimits | None = None) -> list[WireNode]:
    """Nodes 1 and 2, connected to each other."""
    nodes = [await stack.enter_async_context(WireNode(world.server, who, limits=limits)) for who in (ONE, TWO)]
    addresses = {node.member.node_id: (await serve(world, node)).address for node in nodes}
    for node in nodes:
        node.transport.set_addresses(addresses)
    await nodes[0].until_connected(TWO)
    await nodes[1].until_connected(ONE)
    return nodes


async def greeted(world: "World", address: str, sender: Member = ONE, recipient: Member = TWO) -> Stream:
    """A stream of messages to the node at `address`, by hand."""
    stream = (await world.connect(address)).open(MESSAGES_METHOD)
    await stream.send(encode_hello(Hello(CLUSTER, sender, recipient.node_id)))
    answer = await stream.receive()
    assert answer is not None
    assert decode_hello(answer) == Hello(CLUSTER, recipient)
    return stream


# -- messages


async def test_messages_arrive_in_order_both_ways(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack)
        for number in range(300):
            one.send(TWO, heartbeat(ONE, number))
            two.send(ONE, heartbeat(TWO, number))
        await two.inbox.until(lambda: len(two.inbox.messages) == 300)
        await one.inbox.until(lambda: len(one.inbox.messages) == 300)
        assert two.inbox.messages == [heartbeat(ONE, number) for number in range(300)]
        assert one.inbox.messages == [heartbeat(TWO, number) for number in range(300)]


async def test_an_entry_larger_than_a_message_should_be_passes_alone(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack, TransportLimits(max_message_bytes=1000, max_queued_bytes=5000))
        one.send(TWO, append(ONE, 8 * 1024 * 1024))
        await two.inbox.until(lambda: two.inbox.messages)
        assert two.inbox.messages == [append(ONE, 8 * 1024 * 1024)]


async def test_a_message_for_the_disk_a_node_had_before_is_not_delivered(world: "World") -> None:
    async with AsyncExitStack() as stack:
        two = await stack.enter_async_context(WireNode(world.server, TWO_WIPED))
        one = await stack.enter_async_context(WireNode(world.server, ONE))
        address = (await serve(world, two)).address
        one.transport.set_addresses({2: address})
        await one.until_connected(TWO_WIPED)
        one.send(TWO, heartbeat(ONE, 1))
        one.send(TWO_WIPED, heartbeat(ONE, 2))
        await two.inbox.until(lambda: two.inbox.messages)
        # Nor if a sender sends it all the same.
        stream = await greeted(world, address, member(3), TWO_WIPED)
        misdirected = Envelope(TWO, heartbeat(member(3), 3))
        await stream.send(encode_envelopes([misdirected, Envelope(TWO_WIPED, heartbeat(member(3), 4))]))
        await two.inbox.until(lambda: len(two.inbox.messages) > 1)
        assert two.inbox.messages == [heartbeat(ONE, 2), heartbeat(member(3), 4)]


async def test_what_is_sent_to_nobody_goes_nowhere(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack)
        one.send(member(9), heartbeat(ONE, 1))
        one.send(TWO, heartbeat(ONE, 2))
        await two.inbox.until(lambda: two.inbox.messages)
        assert two.inbox.messages == [heartbeat(ONE, 2)]


# -- who is there


async def test_a_hello_of_another_cluster_is_answered_with_the_cause(world: "World") -> None:
    async with WireNode(world.server, TWO) as two:
        stream = (await world.connect((await serve(world, two)).address)).open(MESSAGES_METHOD)
        await stream.send(encode_hello(Hello("other", ONE, 2)))
        error = await world.expect_error(stream.receive(), Status.FAILED_PRECONDITION)
        assert "cluster 'other'" in error.message


async def test_an_address_that_leads_to_another_node_is_refused(world: "World") -> None:
    async with WireNode(world.server, TWO) as two:
        stream = (await world.connect((await serve(world, two)).address)).open(MESSAGES_METHOD)
        await stream.send(encode_hello(Hello(CLUSTER, ONE, 3)))
        error = await world.expect_error(stream.receive(), Status.FAILED_PRECONDITION)
        assert error.message == "node 1 looks for node 3, but this is node 2: check the addresses"


async def test_a_node_with_our_own_id_is_refused(world: "World") -> None:
    async with WireNode(world.server, TWO) as two:
        stream = (await world.connect((await serve(world, two)).address)).open(MESSAGES_METHOD)
        await stream.send(encode_hello(Hello(CLUSTER, TWO_WIPED, 2)))
        error = await world.expect_error(stream.receive(), Status.FAILED_PRECONDITION)
        assert "two nodes with id 2" in error.message


async def test_a_stream_that_begins_with_garbage_is_refused(world: "World") -> None:
    async with WireNode(world.server, TWO) as two:
        connection = await world.connect((await serve(world, two)).address)
        for garbage in (b"\xff\xff\xff", b"", b"\x0a\x05hello"):
            stream = connection.open(MESSAGES_METHOD)
            await stream.send(garbage)
            await world.expect_error(stream.receive(), Status.INVALID_ARGUMENT)


async def test_garbage_after_the_hello_ends_the_stream_and_nothing_else(world: "World") -> None:
    async with WireNode(world.server, TWO) as two:
        address = (await serve(world, two)).address
        stream = await greeted(world, address)
        await stream.send(b"\xff\xff\xff")
        await world.expect_error(stream.receive(), Status.INVALID_ARGUMENT)
        stream = await greeted(world, address)
        await stream.send(encode_envelopes([Envelope(TWO, heartbeat(ONE, 1))]))
        await two.inbox.until(lambda: two.inbox.messages)


async def test_a_message_in_someone_elses_name_is_refused(world: "World") -> None:
    async with WireNode(world.server, TWO) as two:
        stream = await greeted(world, (await serve(world, two)).address)
        await stream.send(encode_envelopes([Envelope(TWO, heartbeat(member(3), 1))]))
        await world.expect_error(stream.receive(), Status.INVALID_ARGUMENT)
        assert two.inbox.messages == []


async def test_a_node_that_has_not_started_takes_nothing(world: "World") -> None:
    two = WireNode(world.server, TWO)
    stream = (await world.connect((await serve(world, two)).address)).open(MESSAGES_METHOD)
    await world.expect_error(stream.receive(), Status.UNAVAILABLE)


# -- connections come and go


async def test_a_lost_connection_is_reported_at_both_ends_and_made_anew(world: "World") -> None:
    async with AsyncExitStack() as stack:
        two = await stack.enter_async_context(WireNode(world.server, TWO))
        one = await stack.enter_async_context(WireNode(world.server, ONE))
        server = await serve(world, two)
        one.transport.set_addresses({2: server.address})
        await one.until_connected(TWO)
        one.send(TWO, heartbeat(ONE, 1))
        await two.inbox.until(lambda: two.inbox.messages)
        await server.stop()
        await one.inbox.until(lambda: one.inbox.broken)
        await two.inbox.until(lambda: two.inbox.broken)
        assert (one.inbox.broken, two.inbox.broken) == ([TWO], [ONE])
        assert not one.is_connected_to(TWO)

        await serve_at(world, two, server.address)
        await one.until_connected(TWO)
        one.send(TWO, heartbeat(ONE, 2))
        await two.inbox.until(lambda: len(two.inbox.messages) == 2)
        assert two.inbox.messages == [heartbeat(ONE, 1), heartbeat(ONE, 2)]
        assert (one.inbox.broken, two.inbox.broken) == ([TWO], [ONE])


async def test_what_was_sent_while_the_peer_was_away_is_not_delivered_later(world: "World") -> None:
    async with AsyncExitStack() as stack:
        two = await stack.enter_async_context(WireNode(world.server, TWO))
        one = await stack.enter_async_context(WireNode(world.server, ONE))
        address = world.unused_address()
        one.transport.set_addresses({2: address})
        one.send(TWO, heartbeat(ONE, 1))
        await serve_at(world, two, address)
        await one.until_connected(TWO)
        one.send(TWO, heartbeat(ONE, 2))
        await two.inbox.until(lambda: two.inbox.messages)
        assert two.inbox.messages == [heartbeat(ONE, 2)]


async def test_a_new_stream_of_a_node_takes_the_place_of_its_old_one(world: "World") -> None:
    async with WireNode(world.server, TWO) as two:
        address = (await serve(world, two)).address
        old = await greeted(world, address)
        await greeted(world, address)
        await world.expect_error(old.receive(), Status.CANCELLED)
        await two.inbox.until(lambda: two.inbox.broken)
        assert two.inbox.broken == [ONE]


async def test_another_disk_under_the_same_node_id_does_not_take_its_place(world: "World") -> None:
    """Two processes with one id would else break each other's streams for ever."""
    async with WireNode(world.server, TWO) as two:
        address = (await serve(world, two)).address
        first = await greeted(world, address)
        other = (await world.connect(address)).open(MESSAGES_METHOD)
        await other.send(encode_hello(Hello(CLUSTER, member(1, directory=1), 2)))
        assert await other.receive() is not None
        await first.send(encode_envelopes([Envelope(TWO, heartbeat(ONE, 1))]))
        await two.inbox.until(lambda: two.inbox.messages)
        assert two.inbox.broken == []


async def test_a_node_that_moved_is_followed_to_its_new_address(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack)
        new_address = (await serve(world, two)).address
        one.transport.set_addresses({2: new_address})
        assert not one.is_connected_to(TWO)
        await one.until_connected(TWO)
        assert one.inbox.broken == [TWO]
        one.send(TWO, heartbeat(ONE, 1))
        await two.inbox.until(lambda: two.inbox.messages)
        one.transport.set_addresses({})
        await two.inbox.until(lambda: len(two.inbox.broken) == 2)
        assert not one.transport.connected_members()


async def test_after_close_nothing_is_delivered(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack)
        await two.transport.close()
        one.send(TWO, heartbeat(ONE, 1))
        await one.inbox.until(lambda: len(one.inbox.broken) == 2)
        await two.transport.close()
        assert two.inbox.messages == []


# -- snapshots


async def test_a_snapshot_arrives_whole_and_is_reported(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack, TransportLimits(snapshot_chunk_bytes=100_000))
        for size_bytes in (0, 1, 100_000, 100_001, 3_000_000):
            snapshot = snapshot_of((bytes(range(256)) * (size_bytes // 256 + 1))[:size_bytes])
            order = order_of(snapshot, TWO)
            one.transport.send_snapshot(order, snapshot)
            await one.inbox.until(lambda: one.inbox.reports)
            assert one.inbox.reports.pop() == (TWO, True)
            assert two.inbox.messages.pop() == InstallSnapshot(ONE, order.term, snapshot.metadata, snapshot.data)
        assert not two.inbox.messages


async def test_the_same_snapshot_ordered_twice_goes_once_and_a_later_one_after_it(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack)
        snapshot = snapshot_of(b"x" * 100_000)
        one.transport.send_snapshot(order_of(snapshot, TWO), snapshot)
        one.transport.send_snapshot(order_of(snapshot, TWO), snapshot)
        await one.inbox.until(lambda: one.inbox.reports)
        later = snapshot_of(b"y", index=9)
        one.transport.send_snapshot(order_of(later, TWO), later)
        await one.inbox.until(lambda: len(one.inbox.reports) == 2)
        received = [message.data for message in two.inbox.messages if isinstance(message, InstallSnapshot)]
        assert received == [snapshot.data, later.data]
        assert one.inbox.reports == [(TWO, True), (TWO, True)]


async def test_a_snapshot_of_a_later_term_takes_the_place_of_one_under_way(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack)
        snapshot = snapshot_of(bytes(20_000_000))
        one.transport.send_snapshot(order_of(snapshot, TWO), snapshot)
        await asyncio.sleep(0)
        later = snapshot_of(b"y", index=9)
        one.transport.send_snapshot(order_of(later, TWO, term=4), later)
        await one.inbox.until(lambda: one.inbox.reports)
        assert one.inbox.reports == [(TWO, True)]
        assert [message.term for message in two.inbox.messages] == [4]


async def test_a_snapshot_for_a_node_that_is_not_there_is_reported_as_failed(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, _ = await joined(world, stack)
        snapshot = snapshot_of(b"x")
        for recipient in (member(9), TWO_WIPED):
            one.transport.send_snapshot(order_of(snapshot, recipient), snapshot)
        assert one.inbox.reports == [(member(9), False), (TWO_WIPED, False)]


async def test_a_snapshot_that_is_too_large_is_refused_and_messages_go_on(world: "World") -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(world, stack, TransportLimits(max_snapshot_bytes=1000))
        snapshot = snapshot_of(bytes(1001))
        one.transport.send_snapshot(order_of(snapshot, TWO), snapshot)
        await one.inbox.until(lambda: one.inbox.reports)
        assert one.inbox.reports == [(TWO, False)]
        one.send(TWO, heartbeat(ONE, 1))
        await two.inbox.until(lambda: two.inbox.messages)
        assert two.inbox.messages == [heartbeat(ONE, 1)]
        assert one.inbox.broken == []
