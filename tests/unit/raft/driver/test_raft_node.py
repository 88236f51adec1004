"""A cluster of drivers: proposals, reads, and what they survive."""

import asyncio

import pytest
from support.raft_nodes import Cluster, led, running, virtual

from lograft.raft.core.messages import (
    ReadIndexRequest,
)
from lograft.raft.errors import (
    NotLeader,
    ProposalLost,
    ReadLost,
)

# -- proposals


@virtual
async def test_a_command_is_applied_everywhere_and_its_result_returned() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        assert await leader.propose(b"a") == 1
        assert await leader.propose(b"b") == 2
        assert await cluster.agree() == [b"a", b"b"]


@virtual
async def test_a_single_node_needs_nobody() -> None:
    async with running(1) as cluster:
        leader, _ = await led(cluster)
        assert await leader.propose(b"a") == 1
        assert await leader.read_index() == leader.applied_index


@virtual
async def test_a_thousand_commands_share_transactions_and_keep_their_order() -> None:
    async with running(3) as cluster:
        host = await cluster.leader()
        assert host.node is not None
        before = host.store.saves
        commands = [str(number).encode() for number in range(1000)]
        results = await asyncio.gather(*(host.node.propose(command) for command in commands))
        assert results == list(range(1, 1001))
        assert await cluster.agree() == commands
        assert 1 <= host.store.saves - before <= 5


@virtual
async def test_what_arrives_during_a_transaction_goes_into_the_next_together() -> None:
    async with running(3) as cluster:
        host = await cluster.leader()
        node, before = host.node, host.store.saves
        assert node is not None
        host.speed.slowdown = 50

        async def client(number: int) -> None:
            for _ in range(5):
                await node.propose(str(number).encode())

        await asyncio.gather(*(client(number) for number in range(40)))
        assert len(host.machine.commands) == 200
        assert host.store.saves - before <= 15


@virtual
async def test_a_follower_refuses_and_says_who_leads() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        for follower in followers:
            with pytest.raises(NotLeader) as caught:
                await follower.propose(b"x")
            assert caught.value.leader == leader.member.node_id
            assert caught.value.retriable
            assert not caught.value.outcome_unknown
        assert leader.status().last_index == leader.applied_index == 1


@virtual
async def test_without_a_leader_the_refusal_has_no_hint() -> None:
    cluster = Cluster(3)
    await cluster.initialise([1, 2, 3])
    node = await cluster[1].start()
    with pytest.raises(NotLeader, match="no leader is known") as caught:
        await node.propose(b"x")
    assert caught.value.leader is None
    await cluster[1].stop()


@virtual
async def test_a_leader_cut_off_says_that_the_outcome_is_unknown() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        cluster.wires.isolate(leader.member.node_id)
        with pytest.raises(ProposalLost) as caught:
            async with asyncio.timeout(3):
                await leader.propose(b"lost")
        assert caught.value.outcome_unknown
        assert leader.status().role != "leader"
        cluster.wires.heal()
        await cluster.propose(b"kept")
        assert (await cluster.agree())[-1] == b"kept"


@virtual
async def test_a_caller_that_gives_up_leaves_its_entry_in_the_log() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        cluster[leader.member.node_id].speed.work_s = lambda: 0.1  # type: ignore[method-assign]
        proposing = asyncio.ensure_future(leader.propose(b"a"))
        await cluster.until(lambda: leader.status().last_index == 2)
        assert not proposing.done()
        proposing.cancel()
        await asyncio.wait([proposing])
        assert await leader.propose(b"b") == 2
        assert await cluster.agree() == [b"a", b"b"]


@virtual
async def test_a_caller_that_gives_up_before_the_append_proposes_nothing() -> None:
    async with running(1) as cluster:
        leader, _ = await led(cluster)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await leader.propose(b"a")
        assert await leader.propose(b"b") == 1


# -- a leader dies, a follower comes back


@virtual
async def test_the_next_leader_takes_over_within_a_second_and_nothing_acknowledged_is_lost() -> None:
    async with running(3) as cluster:
        acknowledged: list[bytes] = []
        for number in range(20):
            await cluster.propose(str(number).encode())
            acknowledged.append(str(number).encode())
        before = await cluster.leader()
        began = asyncio.get_running_loop().time()
        await before.crash()
        await cluster.propose(b"after")
        assert asyncio.get_running_loop().time() - began < 1
        assert [command for command in await cluster.agree() if command != b"after"] == acknowledged
        await before.start()
        assert (await cluster.agree())[:20] == acknowledged
        assert len(cluster.living) == 3


@virtual
async def test_a_follower_restarted_from_its_store_catches_up() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        await leader.propose(b"a")
        away = cluster[followers[0].member.node_id]
        await away.crash()
        await leader.propose(b"b")
        await away.start()
        assert away.machine.commands == []
        assert await cluster.agree() == [b"a", b"b"]
        assert away.machine.restored == 0


@virtual
async def test_a_whole_cluster_comes_back_from_its_stores() -> None:
    async with running(3) as cluster:
        for number in range(5):
            await cluster.propose(str(number).encode())
        for host in cluster.living:
            await host.crash()
        for host in cluster.hosts.values():
            await host.start()
        await cluster.leader()
        assert await cluster.agree() == [b"0", b"1", b"2", b"3", b"4"]


# -- reads


@virtual
async def test_a_read_anywhere_sees_what_was_acknowledged_before() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        for number in range(10):
            await leader.propose(str(number).encode())
            for host in cluster.living:
                assert host.node is not None
                index = await host.node.read_index()
                assert index <= host.node.applied_index
                assert len(host.machine.commands) == number + 1


@virtual
async def test_a_leader_that_was_replaced_answers_no_read() -> None:
    async with running(3) as cluster:
        leader, others = await led(cluster)
        old = leader.member.node_id
        cluster.wires.isolate(old)
        reading = asyncio.ensure_future(leader.read_index())
        await cluster.until(lambda: any(node.status().role == "leader" for node in others))
        fresh = next(node for node in others if node.status().role == "leader")
        await fresh.propose(b"new")
        with pytest.raises(ReadLost):
            await reading
        cluster.wires.heal()
        await leader.wait_applied(fresh.applied_index)
        await leader.read_index()
        assert cluster[old].machine.commands == [b"new"]


@virtual
async def test_a_read_at_a_follower_is_lost_with_its_leader() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        cluster.wires.drops = lambda envelope: isinstance(envelope.message, ReadIndexRequest)
        reading = asyncio.ensure_future(followers[0].read_index())
        await asyncio.sleep(0.05)
        assert not reading.done()
        await cluster[leader.member.node_id].crash()
        with pytest.raises(ReadLost) as caught:
            await reading
        assert caught.value.retriable


@virtual
async def test_without_a_leader_a_read_is_refused() -> None:
    cluster = Cluster(3)
    await cluster.initialise([1, 2, 3])
    node = await cluster[1].start()
    with pytest.raises(ReadLost):
        await node.read_index()
    await cluster[1].stop()


@virtual
async def test_reads_that_come_together_ask_the_leader_once() -> None:
    async with running(3) as cluster:
        _, followers = await led(cluster)
        transport = cluster[followers[0].member.node_id].transport
        transport.sent.clear()
        await asyncio.gather(*(followers[0].read_index() for _ in range(100)))
        assert sum(isinstance(envelope.message, ReadIndexRequest) for envelope in transport.sent) == 1


@virtual
async def test_an_answer_to_an_earlier_process_is_not_taken_for_ones_own() -> None:
    async with running(3) as cluster:
        _, followers = await led(cluster)
        host = cluster[followers[0].member.node_id]
        asked: list[int] = []
        for _ in range(2):
            assert host.node is not None
            await host.node.read_index()
            asked += [
                envelope.message.read_id
                for envelope in host.transport.sent
                if isinstance(envelope.message, ReadIndexRequest)
            ]
            await host.crash()
            await host.start()
            await cluster.leader()
        assert len(set(asked)) == len(asked) == 2
