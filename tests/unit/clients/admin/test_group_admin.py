"""Groups looked after, while their coordinator moves."""

import pytest
from support.fake_groups import FakeGroups
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import GroupNotFound


async def coordinator_moves_once_found() -> FakeGroups:
    cluster = FakeCluster()
    groups = FakeGroups(cluster, coordinator=1)
    await cluster.start()

    def move() -> None:
        if groups.coordinator == 1:
            groups.move(2)

    groups.when_found = move
    return groups


@virtual
async def test_a_group_is_described_by_the_coordinator_that_a_refusal_names() -> None:
    groups = await coordinator_moves_once_found()
    async with Admin(groups.cluster.bootstrap, timeout_ms=5000, runtime=groups.cluster.client) as admin:
        assert (await admin.describe_group("billing")).coordinator == 2


@virtual
async def test_a_group_is_deleted_by_the_coordinator_that_a_refusal_names() -> None:
    groups = await coordinator_moves_once_found()
    async with Admin(groups.cluster.bootstrap, timeout_ms=5000, runtime=groups.cluster.client) as admin:
        await admin.delete_group("billing")
    assert groups.deleted == ["billing"]


@virtual
async def test_looking_at_groups_creates_nothing_but_committing_does() -> None:
    cluster = FakeCluster()
    groups = FakeGroups(cluster)
    groups.has_topic = False
    await cluster.start()
    cluster.create_topic("orders", (1,))
    async with Admin(cluster.bootstrap, timeout_ms=5000, runtime=cluster.client) as admin:
        for look in (admin.describe_group, admin.delete_group, admin.remove_members):
            with pytest.raises(GroupNotFound):
                await look("billing")
        with pytest.raises(GroupNotFound):
            await admin.delete_group_offsets("billing", [("orders", 0)])
        assert await admin.group_offsets("billing") == {}
        assert not groups.has_topic
        await admin.alter_group_offsets("billing", {("orders", 0): 0})
        assert groups.has_topic
