"""A cluster of drivers: when the log is folded, and who is sent the snapshot."""

import asyncio

from support.raft_nodes import led, node_of, running, virtual

from lograft.raft.core.configuration import Member
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.driver.snapshots import SnapshotPolicy, SnapshotSender
from lograft.runtime.rng import Rng

SMALL = SnapshotPolicy(entries=10, kept_entries=5)


@virtual
async def test_the_log_is_folded_by_policy_and_keeps_some_entries_behind() -> None:
    async with running(3, policy=SMALL) as cluster:
        for number in range(100):
            await cluster.propose(str(number).encode())
        for host in cluster.living:
            assert host.node is not None
            status = host.node.status()
            assert 101 - 2 * (10 + 5) <= status.snapshot_index <= 101 - 5
            assert host.disk.content.snapshot.metadata.index == status.snapshot_index
        assert await cluster.agree() == [str(number).encode() for number in range(100)]


@virtual
async def test_a_follower_that_was_away_for_a_moment_needs_no_snapshot() -> None:
    async with running(3, policy=SMALL) as cluster:
        leader, followers = await led(cluster)
        for number in range(12):
            await leader.propose(str(number).encode())
        away = cluster[followers[0].member.node_id]
        await cluster.agree()
        await away.crash()
        for number in range(4):  # enough for the leader to cut its log
            await leader.propose(str(number).encode())
        await cluster.until(lambda: leader.status().snapshot_index > 0)
        await away.start()
        await cluster.agree()
        assert away.machine.restored == 0
        assert cluster[leader.member.node_id].transport.snapshots == []


@virtual
async def test_a_follower_that_was_away_for_long_is_sent_the_snapshot_and_then_the_rest() -> None:
    async with running(3, policy=SMALL) as cluster:
        leader, followers = await led(cluster)
        await leader.propose(b"first")
        away = cluster[followers[0].member.node_id]
        await away.crash()
        for number in range(100):
            await leader.propose(str(number).encode())
        await away.start()
        commands = await cluster.agree()
        assert commands == [b"first", *(str(number).encode() for number in range(100))]
        assert away.machine.restored == 1
        assert len(cluster[leader.member.node_id].transport.snapshots) == 1
        assert node_of(cluster, away.node_id).core.configuration == leader.core.configuration


@virtual
async def test_a_node_restarts_from_its_snapshot_and_applies_only_what_follows() -> None:
    async with running(1, policy=SMALL) as cluster:
        leader, _ = await led(cluster)
        for number in range(50):
            await leader.propose(str(number).encode())
        await cluster.until(lambda: leader.status().snapshot_index > 20)
        snapshot_index = leader.status().snapshot_index
        await cluster[1].crash()
        await cluster[1].start()
        await cluster.leader()
        assert await cluster.agree() == [str(number).encode() for number in range(50)]
        assert cluster[1].machine.restored == 1
        assert cluster[1].machine.indexes[0] == snapshot_index + 1


@virtual
async def test_a_snapshot_may_be_made_beside_the_loop_from_an_image() -> None:
    async with running(1, policy=SMALL) as cluster:
        leader, _ = await led(cluster)
        cluster[1].machine._is_lazy = True
        for number in range(30):
            await leader.propose(str(number).encode())
        await cluster.until(lambda: leader.status().snapshot_index > 0)
        snapshot = cluster[1].disk.content.snapshot
        # A new leader's first entry is no command.
        assert snapshot.data.split(b"\n") == [str(number).encode() for number in range(snapshot.metadata.index - 1)]


@virtual
async def test_a_snapshot_by_bytes() -> None:
    async with running(1, policy=SnapshotPolicy(size_bytes=1000, kept_entries=0)) as cluster:
        leader, _ = await led(cluster)
        await leader.propose(bytes(500))
        assert leader.status().snapshot_index == 0
        await leader.propose(bytes(500))
        await cluster.until(lambda: leader.status().snapshot_index == 3)


@virtual
async def test_a_snapshot_ordered_again_while_it_is_on_its_way_is_sent_once() -> None:
    async with running(1, policy=SnapshotPolicy(entries=5, kept_entries=0)) as cluster:
        leader, _ = await led(cluster)
        for _ in range(10):
            await leader.propose(b"a")
        await cluster.until(lambda: leader.status().snapshot_index > 0)
        host = cluster[1]
        sender = SnapshotSender(host.store, host.transport)
        order = SnapshotToSend(Member(9, Rng(9).uuid()), 1, leader.core.log.snapshot)
        async with asyncio.TaskGroup() as group:
            sender.send(order, group)
            sender.send(order, group)
        assert host.transport.snapshots == [order]
        sender.reported(order.recipient)
        async with asyncio.TaskGroup() as group:
            sender.send(order, group)
        assert host.transport.snapshots == [order, order]
