"""Groups looked after, while their coordinator moves."""

from support.fake_groups import FakeGroups
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients.admin.aio_admin import Admin


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
