"""What the cluster is like, asked of brokers of which some know no better than they did."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients.admin.aio_admin import Admin


class Asking:
    """An admin client that knows broker 1 only, at first, and how often it had to believe a broker's word."""

    def __init__(self, cluster: FakeCluster, admin: Admin) -> None:
        self.cluster, self.admin = cluster, admin
        self.not_confirmed = 0
        admin.when_not_confirmed = self._count

    def _count(self) -> None:
        self.not_confirmed += 1

    async def leader(self) -> int | None:
        return (await self.admin.describe_topic("orders")).partitions[0].leader


@asynccontextmanager
async def asking(brokers: int) -> AsyncIterator[Asking]:
    cluster = FakeCluster(brokers)
    await cluster.start()
    cluster.create_topic("orders", [1])
    async with Admin([cluster.addresses[1]], runtime=cluster.client) as admin:
        yield Asking(cluster, admin)
    await cluster.stop()


@virtual
async def test_a_broker_that_no_controller_reaches_is_not_believed_while_another_can_ask_one() -> None:
    async with asking(brokers=3) as one:
        assert await one.leader() == 1
        one.cluster.brokers[1].is_alone = True  # the one that answered, and is asked first again
        for leader in (2, 3, 1):
            one.cluster.move_leader("orders", 0, leader)
            assert await one.leader() == leader
        assert one.not_confirmed == 0


@virtual
async def test_what_no_broker_can_have_confirmed_is_told_as_a_broker_knows_it() -> None:
    async with asking(brokers=1) as one:
        assert await one.leader() == 1
        one.cluster.brokers[1].is_alone = True
        one.cluster.move_leader("orders", 0, None)
        assert await one.leader() == 1
        assert one.not_confirmed == 1


@virtual
@pytest.mark.parametrize("fault", ["kill", "cut_off"])
async def test_brokers_that_were_described_are_asked_when_those_that_were_named_are_gone(fault: str) -> None:
    async with asking(brokers=3) as one:
        assert await one.leader() == 1
        getattr(one.cluster, fault)(1)
        one.cluster.move_leader("orders", 0, 2)
        assert await one.leader() == 2


@virtual
async def test_topics_of_the_spark_connector_are_listed_as_internal_ones_are() -> None:
    async with asking(brokers=1) as one:
        one.cluster.create_topic("lograft-spark-staged", [1])
        admin = one.admin
        assert await admin.list_topics() == ["orders"]
        assert await admin.list_topics(include_internal=True) == ["lograft-spark-staged", "orders"]
        assert [topic.name for topic in (await admin.describe_cluster()).topics] == ["orders"]
        staged = await admin.describe_topic("lograft-spark-staged")
        assert staged.is_hidden
        assert not staged.is_internal, "but for lists, it is an ordinary topic"
