"""Where partitions end that are on other brokers is asked of these, and waited for by nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.log_services import Node
from support.metadata_images import broker, image_with, partition, topic_id
from support.raft_nodes import make_runtime, virtual
from support.replica_brokers import until
from support.served_replicas import batch

from lograft.broker.metrics.remote_log_ends import RemoteLogEnds
from lograft.broker.server.offsets_service import OffsetsService

FIRST, SECOND, LED_ELSEWHERE, LEADERLESS, GONE = ((topic_id(1), number) for number in range(5))


@asynccontextmanager
async def asking(node: Node) -> AsyncIterator[RemoteLogEnds]:
    """From another host. Broker 1 serves two partitions as `node`; broker 2 cannot be reached."""
    server = node.network.host("broker-1")
    await server.serve("broker-1:9092", OffsetsService(node.logs).handlers(), node.panics.append)
    image = image_with(
        broker(1), broker(2), topics={"orders": [partition(1), partition(1), partition(2), partition(1, leader=None)]}
    )
    ends = RemoteLogEnds(make_runtime(2, node.network, "asker"), lambda: image)
    running = asyncio.ensure_future(ends.run())
    try:
        yield ends
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait([running])


@virtual
async def test_who_asks_knows_the_next_time() -> None:
    node = Node()
    first, second = node.lead(0), node.lead(1)
    first.append(batch("a", "b"))
    async with asking(node) as ends:
        assert ends.end_of(FIRST) is None
        assert ends.end_of(SECOND) is None
        await until(lambda: ends.end_of(FIRST) == 2)
        assert ends.end_of(SECOND) == 0
        second.append(batch("c"))
        await until(lambda: ends.end_of(SECOND) == 1)


@virtual
async def test_what_cannot_be_known_does_not_keep_the_others_from_it() -> None:
    node = Node()
    node.lead(0).append(batch("a"))
    node.lead(1).watermark_is_known = False
    async with asking(node) as ends:
        for _ in range(3):
            for key in (LED_ELSEWHERE, SECOND, LEADERLESS, GONE):
                assert ends.end_of(key) is None
            ends.end_of(FIRST)
            await asyncio.sleep(10)
        assert ends.end_of(FIRST) == 1


@virtual
async def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    node = Node()
    node.lead(0).append(batch("a"))
    node.lead(1)
    async with asking(node) as ends:
        await until(lambda: ends.end_of(FIRST) == 1)
        ends.end_of(SECOND)
        await asyncio.sleep(10)
        ends.end_of(SECOND)
        await asyncio.sleep(10)
        assert ends.end_of(FIRST) is None
