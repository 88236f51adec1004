"""Offsets of partitions, asked for while their leaders move."""

import asyncio

from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients.admin.aio_admin import Admin
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import encode_batch

ORDERS_0 = TopicPartition("orders", 0)


@virtual
async def test_offsets_are_asked_of_who_leads_now() -> None:
    cluster = FakeCluster()
    await cluster.start()
    cluster.create_topic("orders", (1,))
    cluster.log("orders").append(encode_batch([b"a", b"b"], timestamps=0))
    async with Admin(cluster.bootstrap, timeout_ms=20_000, runtime=cluster.client) as admin:
        assert await admin.list_offsets([ORDERS_0], "latest") == {ORDERS_0: 2}
        cluster.kill(1)

        async def elect() -> None:
            await asyncio.sleep(2)  # meanwhile all believe in the old one
            cluster.move_leader("orders", 0, 2)

        async with asyncio.TaskGroup() as group:
            asked = group.create_task(admin.list_offsets([ORDERS_0], "latest"))
            group.create_task(elect())
        assert asked.result() == {ORDERS_0: 2}
