"""The transport's parts that need no network, and its behaviour in time, on the simulated one."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from support.raft_wire import TERM, WireNode, append, heartbeat, member, order_of, snapshot_of

from lograft.chaos.world.loop import run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.raft.core.messages import Envelope, InstallSnapshot
from lograft.raft.transport.envelope_codec import SnapshotChunk, decode_envelopes
from lograft.raft.transport.outbox import Outbox, size_of
from lograft.raft.transport.peer_connection import MESSAGES_METHOD, TransportLimits
from lograft.raft.transport.snapshot_chunks import SnapshotAssembly, SnapshotRefused, cut
from lograft.runtime.network import Handler, Stream
from lograft.runtime.rng import Rng

ONE, TWO = member(1), member(2)


def numbered(*numbers: int) -> list[Envelope]:
    return [Envelope(TWO, heartbeat(ONE, number)) for number in numbers]


# -- the queue


def test_a_full_queue_drops_the_oldest() -> None:
    outbox = Outbox(max_messages=3, max_bytes=1_000_000)
    for envelope in numbered(1, 2, 3, 4, 5):
        outbox.put(envelope)
    assert outbox.dropped == 2
    assert outbox.take(1_000_000) == numbered(3, 4, 5)
    assert outbox.take(1_000_000) == []


def test_a_queue_is_bounded_by_bytes_but_holds_one_message_of_any_size() -> None:
    outbox = Outbox(max_messages=100, max_bytes=10_000)
    for envelope in numbered(1, 2):
        outbox.put(envelope)
    large = Envelope(TWO, append(ONE, 20_000))
    outbox.put(large)
    assert outbox.take(1) == [large]
    for _ in range(10):
        outbox.put(Envelope(TWO, append(ONE, 4000)))
    assert len(outbox) == 2


def test_what_is_taken_together_is_within_the_limit_but_never_nothing() -> None:
    outbox = Outbox(max_messages=100, max_bytes=1_000_000)
    for envelope in numbered(*range(5)):
        outbox.put(envelope)
    assert outbox.take(size_of(numbered(0)[0]) * 2) == numbered(0, 1)
    assert outbox.take(1) == numbered(2)
    outbox.clear()
    assert outbox.take(1_000_000) == []


# -- snapshots in pieces

SNAPSHOT = snapshot_of(bytes(range(256)) * 10)


def chunks(chunk_bytes: int = 1000) -> list[SnapshotChunk]:
    return list(cut(ONE, order_of(SNAPSHOT, TWO), SNAPSHOT, chunk_bytes))


def assemble(pieces: list[SnapshotChunk], max_bytes: int = 1_000_000) -> InstallSnapshot | None:
    assembly = SnapshotAssembly(ONE, TWO, max_bytes)
    for chunk in pieces[:-1]:
        assert assembly.add(chunk) is None
    return assembly.add(pieces[-1])


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000, 2559, 2560, 2561])
def test_what_was_cut_is_put_together(chunk_bytes: int) -> None:
    assert assemble(chunks(chunk_bytes)) == InstallSnapshot(ONE, TERM, SNAPSHOT.metadata, SNAPSHOT.data)


def test_only_the_last_chunk_says_that_it_is() -> None:
    assert [(chunk.offset, chunk.is_last) for chunk in chunks()] == [(0, False), (1000, False), (2000, True)]


REFUSED: dict[str, Callable[[list[SnapshotChunk]], list[SnapshotChunk]]] = {
    "a chunk at 2000 where 1000": lambda good: [good[0], good[2]],
    "a chunk at 0 where 1000": lambda good: [good[0], good[0]],
    "a chunk at 1000 where 0": lambda good: [good[1]],
    "from 9@": lambda good: [replace(good[0], sender=member(9))],
    "for 2@": lambda good: [replace(good[0], recipient=member(2, directory=1))],
    "another snapshot": lambda good: [good[0], replace(good[1], term=TERM + 1)],
    "CRC-32C": lambda good: [*good[:2], replace(good[2], data=bytes(560))],
    "more than the 2560": lambda good: [*good[:2], replace(good[2], data=bytes(561))],
    "a chunk of nothing": lambda good: [good[0], replace(good[1], data=b"")],
}


@pytest.mark.parametrize("cause", REFUSED)
def test_chunks_that_make_no_snapshot_are_refused(cause: str) -> None:
    with pytest.raises(SnapshotRefused, match=cause):
        assemble(REFUSED[cause](chunks()))


def test_a_snapshot_over_the_limit_is_refused_at_its_first_chunk() -> None:
    with pytest.raises(SnapshotRefused, match="over the limit of 2559"):
        assemble(chunks()[:1], max_bytes=2559)
    assert assemble(chunks(), max_bytes=2560) is not None


# -- in time


class VirtualCluster:
    """Wire nodes, each on a host of its own: node 1 is `n1:1`."""

    def __init__(self) -> None:
        self.network = VirtualNetwork(Rng(5))
        self.stack = AsyncExitStack()
        self.panics: list[BaseException] = []

    async def node(self, node_id: int, limits: TransportLimits | None = None, **options: Any) -> WireNode:
        node = WireNode(self.network.host(f"n{node_id}"), member(node_id), limits=limits, **options)
        return await self.stack.enter_async_context(node)

    async def serve(self, node_id: int, handlers: Any) -> None:
        server = await self.network.host(f"n{node_id}").serve(f"n{node_id}:1", handlers, self.panics.append)
        self.stack.push_async_callback(server.stop)

    async def served_node(self, node_id: int, limits: TransportLimits | None = None) -> WireNode:
        node = await self.node(node_id, limits)
        await self.serve(node_id, node.transport.handlers())
        node.transport.set_addresses({1: "n1:1", 2: "n2:1"})
        return node


def virtually(scenario: Callable[[VirtualCluster], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        cluster = VirtualCluster()
        async with asyncio.timeout(3600), cluster.stack:
            await scenario(cluster)
        assert cluster.panics == []

    run_virtual(run)


def counting(handler: Handler, counts: list[bytes]) -> Handler:
    """The handler, with every message it is sent noted."""

    class Tap:
        def __init__(self, stream: Stream) -> None:
            self._stream = stream

        async def receive(self) -> bytes | None:
            message = await self._stream.receive()
            if message is not None:
                counts.append(message)
            return message

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

    async def serve(stream: Stream) -> None:
        tapped: Any = Tap(stream)
        await handler(tapped)

    return serve


def test_all_that_waits_goes_in_one_message() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        two = await cluster.node(2)
        wire: list[bytes] = []
        await cluster.serve(2, {MESSAGES_METHOD: counting(two.transport.handlers()[MESSAGES_METHOD], wire)})
        one = await cluster.node(1)
        one.transport.set_addresses({2: "n2:1"})
        await one.until_connected(two)
        for number in range(1000):
            one.send(TWO, heartbeat(ONE, number))
        await two.inbox.until(lambda: len(two.inbox.messages) == 1000)
        assert [len(decode_envelopes(message)) for message in wire[1:]] == [1000]

    virtually(scenario)


def test_an_idle_connection_carries_nothing() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        two = await cluster.node(2)
        wire: list[bytes] = []
        await cluster.serve(2, {MESSAGES_METHOD: counting(two.transport.handlers()[MESSAGES_METHOD], wire)})
        one = await cluster.node(1)
        one.transport.set_addresses({2: "n2:1"})
        await one.until_connected(two)
        await asyncio.sleep(1000)
        assert len(wire) == 1  # the hello
        assert one.is_connected_to(TWO)

    virtually(scenario)


def test_a_peer_that_does_not_read_costs_a_bounded_queue_and_then_gets_the_newest() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        one = await cluster.served_node(1, TransportLimits(max_queued_messages=10))
        two = await cluster.served_node(2)
        await one.until_connected(two)
        cluster.network.cut("n1", "n2")
        cluster.network.cut("n2", "n1")
        for number in range(20_000):
            one.send(TWO, heartbeat(ONE, number))
            await asyncio.sleep(0.001)
        cluster.network.heal_all()
        last = heartbeat(ONE, 19_999)
        await two.inbox.until(lambda: last in two.inbox.messages)
        assert two.inbox.messages[-10:] == [heartbeat(ONE, number) for number in range(19_990, 20_000)]
        assert len(two.inbox.messages) < 20_000

    virtually(scenario)


def test_a_killed_node_is_noticed_within_milliseconds_by_all_that_were_connected() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        one = await cluster.served_node(1)
        # Its end is a crash, so it has no part in the orderly end of the others.
        two = WireNode(cluster.network.host("n2"), TWO)
        doomed = asyncio.ensure_future(two.transport.run())
        two.transport.start(two.inbox)
        await cluster.network.host("n2").serve("n2:1", two.transport.handlers(), cluster.panics.append)
        two.transport.set_addresses({1: "n1:1"})
        await one.until_connected(two)
        await two.until_connected(one)
        cluster.network.crash("n2")
        killed_at = asyncio.get_running_loop().time()
        await one.inbox.until(lambda: len(one.inbox.broken) == 2)  # of the stream it opened, and of the one it served
        assert one.inbox.broken == [TWO, TWO]
        assert asyncio.get_running_loop().time() - killed_at < 0.1
        await asyncio.wait([doomed])

    virtually(scenario)


def test_attempts_to_reach_a_node_that_is_away_slow_down_to_twice_a_second() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        attempts: list[float] = []
        host = cluster.network.host("n1")
        connect = host.connect

        async def noted(address: str, timeout_ms: int = 3000) -> Any:
            attempts.append(asyncio.get_running_loop().time())
            return await connect(address, timeout_ms)

        host.connect = noted  # type: ignore[method-assign]
        one = await cluster.node(1)
        one.transport.set_addresses({2: "n2:1"})
        await asyncio.sleep(20)
        gaps = [later - earlier for earlier, later in pairwise(attempts)]
        assert gaps[0] < 0.2
        assert all(0.25 <= gap < 0.65 for gap in gaps[5:])
        assert len(gaps) > 20

    virtually(scenario)


def test_a_peer_of_another_cluster_is_refused_and_complains_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        two = await cluster.node(2)
        wire: list[bytes] = []
        await cluster.serve(2, {MESSAGES_METHOD: counting(two.transport.handlers()[MESSAGES_METHOD], wire)})
        stranger = await cluster.node(1, cluster_id="other-cluster")
        stranger.transport.set_addresses({2: "n2:1"})
        await asyncio.sleep(100)
        assert 20 <= len(wire) <= 40  # slowly: someone has to change a setting first
        assert not stranger.transport.connected_members()
        assert (two.inbox.messages, two.inbox.broken, stranger.inbox.broken) == ([], [], [])

    virtually(scenario)
    complaints = [record.getMessage() for record in caplog.records if "raft_peer_failed" in record.getMessage()]
    assert len(complaints) == 1
    assert "node 1 is of cluster 'other-cluster', but node 2 is of 'test-cluster'" in complaints[0]


def test_a_process_that_takes_connections_but_does_not_answer_is_tried_again() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        two = await cluster.node(2)
        serve = two.transport.handlers()[MESSAGES_METHOD]
        calls = 0

        async def first_silent(stream: Stream) -> None:
            nonlocal calls
            calls += 1
            await (asyncio.Event().wait() if calls == 1 else serve(stream))

        await cluster.serve(2, {MESSAGES_METHOD: first_silent})
        one = await cluster.node(1)
        one.transport.set_addresses({2: "n2:1"})
        await one.until_connected(two)
        assert calls == 2

    virtually(scenario)


def test_a_node_that_calls_us_is_called_back_at_once() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        patient = TransportLimits(first_retry_ms=10_000_000, last_retry_ms=10_000_000)
        one = await cluster.served_node(1, patient)
        await asyncio.sleep(5)  # by now the first attempt has failed, and hours lie ahead
        two = await cluster.served_node(2)
        called_at = asyncio.get_running_loop().time()
        await one.until_connected(two)
        assert asyncio.get_running_loop().time() - called_at < 1

    virtually(scenario)


def test_messages_pass_while_a_snapshot_is_on_its_way() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        one, two = (
            await cluster.served_node(1, TransportLimits(snapshot_chunk_bytes=10_000)),
            await cluster.served_node(2),
        )
        await one.until_connected(two)
        snapshot = snapshot_of(bytes(10_000_000))
        one.transport.send_snapshot(order_of(snapshot, TWO), snapshot)
        one.send(TWO, heartbeat(ONE, 1))
        await one.inbox.until(lambda: one.inbox.reports)
        assert one.inbox.reports == [(TWO, True)]
        assert [type(message).__name__ for message in two.inbox.messages] == ["Heartbeat", "InstallSnapshot"]

    virtually(scenario)


def test_a_snapshot_whose_connection_breaks_is_reported_as_failed_and_can_be_sent_again() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        one, two = (
            await cluster.served_node(1, TransportLimits(snapshot_chunk_bytes=10_000)),
            await cluster.served_node(2),
        )
        await one.until_connected(two)
        snapshot = snapshot_of(bytes(10_000_000))
        one.transport.send_snapshot(order_of(snapshot, TWO), snapshot)
        one.send(TWO, heartbeat(ONE, 1))
        await two.inbox.until(lambda: two.inbox.messages)
        cluster.network.break_connections("n1", "n2")
        await one.inbox.until(lambda: one.inbox.reports)
        assert one.inbox.reports == [(TWO, False)]
        await one.inbox.until(lambda: len(one.inbox.broken) == 2)
        await one.until_connected(two)
        one.transport.send_snapshot(order_of(snapshot, TWO), snapshot)
        await one.inbox.until(lambda: len(one.inbox.reports) == 2)
        assert one.inbox.reports[1] == (TWO, True)
        assert [type(message).__name__ for message in two.inbox.messages] == ["Heartbeat", "InstallSnapshot"]

    virtually(scenario)
