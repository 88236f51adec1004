"""Real nodes behind relays: what is cut does not get through, and what is healed does again."""

import asyncio
from pathlib import Path

from lograft import aio
from lograft.chaos.live.cluster.cluster import LiveCluster
from lograft.chaos.live.cluster.links import CLIENTS
from lograft.runtime.rng import Rng

SECONDS = 60


async def leader_of(admin: aio.Admin, topic: str) -> int | None:
    return (await admin.describe_topic(topic)).partitions[0].leader


async def until_leader(admin: aio.Admin, topic: str, *, other_than: int) -> int:
    leader = None
    async with asyncio.timeout(SECONDS):
        while leader is None or leader == other_than:
            leader = await leader_of(admin, topic)
    return leader


async def live_through(directory: Path) -> None:
    async with LiveCluster(directory, 3, Rng(7)) as cluster, aio.Admin(cluster.bootstrap) as admin:
        await admin.create_topic("orders", replicas=3)
        await admin.wait_for_topic("orders")
        async with aio.Producer(cluster.bootstrap) as producer:
            stored = [(await (await producer.send("orders", b"0"))).offset]
            # Killed: another one leads.
            first = await leader_of(admin, "orders")
            assert first is not None
            assert cluster.nodes[first].kill()
            second = await until_leader(admin, "orders", other_than=first)
            stored.append((await (await producer.send("orders", b"1"))).offset)
            cluster.nodes[first].start()
            await cluster.wait_ready(SECONDS)
            # Cut off from all other nodes, both ways: it is up, and clients reach it, and still another one leads.
            for other in cluster.nodes:
                if other != second:
                    await cluster.links.cut(second, other)
                    await cluster.links.cut(other, second)
            third = await until_leader(admin, "orders", other_than=second)
            stored.append((await (await producer.send("orders", b"2"))).offset)
            await cluster.links.heal()
            await cluster.wait_ready(SECONDS)
            await admin.wait_for_topic("orders")
            # Out of the clients' reach, or slow: then it takes longer.
            await cluster.links.cut(CLIENTS, third)
            await cluster.links.slow(1, 2, 20.0)
            assert cluster.links.break_connections(CLIENTS, third) > 0
            sending = asyncio.ensure_future(producer.send("orders", b"3"))
            await cluster.links.heal()
            stored.append((await (await sending)).offset)
        assert stored == sorted(set(stored))
        async with aio.Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([("orders", 0)])
            values: list[bytes | None] = []
            async with asyncio.timeout(SECONDS):
                while len(values) < len(stored):
                    values += [record.value for record in await consumer.poll(1.0)]
        assert values == [b"0", b"1", b"2", b"3"]


def test_a_cluster_whose_links_fail_on_demand(tmp_path: Path) -> None:
    asyncio.run(live_through(tmp_path))
