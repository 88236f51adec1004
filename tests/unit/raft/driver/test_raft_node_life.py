"""A driver's timers, the order of what it does, and its end."""

import asyncio
from typing import Any

import pytest
from support.raft_nodes import Cluster, led, running, virtual

from lograft.raft.core.entries import Command
from lograft.raft.core.messages import (
    AppendRequest,
    Heartbeat,
    HeartbeatResponse,
    ReadIndexRequest,
    VoteRequest,
    VoteResponse,
)
from lograft.raft.core.raft_core import RaftLimits, RaftTiming
from lograft.raft.errors import (
    NodeStopped,
    ProposalLost,
    RaftError,
)

# -- time


@virtual
async def test_an_idle_cluster_sends_heartbeats_and_saves_nothing() -> None:
    async with running(3) as cluster:
        await cluster.propose(b"a")
        leader = await cluster.leader()
        await asyncio.sleep(1)
        for host in cluster.living:
            host.transport.sent.clear()
        saves = [host.store.saves for host in cluster.living]
        await asyncio.sleep(10)
        assert [host.store.saves for host in cluster.living] == saves
        kinds = {type(envelope.message) for host in cluster.living for envelope in host.transport.sent}
        assert kinds == {Heartbeat, HeartbeatResponse}
        beats = 10_000 // RaftTiming().heartbeat_ms
        assert 2 * (beats - 5) <= len(leader.transport.sent) <= 2 * (beats + 1)
        assert (await cluster.leader()) is leader


@virtual
async def test_after_a_stall_the_word_of_the_leader_comes_before_the_timer() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        host = cluster[followers[0].member.node_id]
        term = leader.core.term
        held: list[Any] = []
        deliver = host.transport.deliver
        host.transport.deliver = held.append  # type: ignore[assignment, method-assign]
        assert host.node is not None
        # The loop stands still: neither the timer nor the messages get through, until both do, the timer first.
        host.node.core.election_due_ms = host.runtime.clock.monotonic_ms() - 500
        asyncio.get_running_loop().call_later(0.01, lambda: [deliver(message) for message in held])
        host.node._inputs.wake.set()
        await asyncio.sleep(0.005)
        assert host.node.status().role == "follower"
        host.transport.deliver = deliver  # type: ignore[method-assign]
        await asyncio.sleep(2)
        assert leader.core.term == term
        assert not [e for e in host.transport.sent if type(e.message).__name__ == "PreVoteRequest"]


@virtual
async def test_a_clock_that_runs_fast_is_the_one_that_counts() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        host = cluster[leader.member.node_id]
        host.runtime.clock.set_rate(10.0)  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)
        host.transport.sent.clear()
        await asyncio.sleep(1)
        beats = [envelope for envelope in host.transport.sent if isinstance(envelope.message, Heartbeat)]
        expected = 10_000 // RaftTiming().heartbeat_ms
        assert 2 * (expected - 15) <= len(beats) <= 2 * (expected + 1)


@virtual
async def test_entries_leave_for_followers_before_they_are_on_the_leaders_disk() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        host = cluster[leader.member.node_id]
        host.transport.sent.clear()
        saves = host.store.saves
        proposing = asyncio.ensure_future(leader.propose(b"a"))
        for _ in range(3):  # to be asked, to be sent, to be saved
            await asyncio.sleep(0)
        assert host.store.saves == saves + 1
        assert not any(entry.payload == Command(b"a") for entry in host.disk.content.entries)
        sent = [envelope.message for envelope in host.transport.sent if isinstance(envelope.message, AppendRequest)]
        assert [len(message.entries) for message in sent] == [1, 1]
        await proposing


@virtual
async def test_applying_a_long_log_does_not_hold_up_the_loop() -> None:
    async with running(1, limits=RaftLimits(max_applied_bytes=1)) as cluster:
        leader, _ = await led(cluster)
        await asyncio.gather(*(leader.propose(b"a") for _ in range(100)))
        await cluster[1].crash()
        await cluster[1].start()
        loop: Any = asyncio.get_running_loop()
        turns: list[int] = []
        cluster[1].machine.apply = lambda index, data: turns.append(loop.steps)  # type: ignore[assignment,method-assign, return-value]
        await cluster.until(lambda: len(turns) == 100)
        assert len(set(turns)) > 90  # others had their turn in between


# -- what waits for the disk, and what does not


@virtual
async def test_a_follower_acknowledges_only_what_is_on_its_disk() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        hosts = [cluster[follower.member.node_id] for follower in followers]
        await leader.propose(b"a")
        await cluster.agree()
        for host in hosts:
            host.speed.work_s = lambda: 0.2  # type: ignore[method-assign]
            host.transport.sent.clear()
        proposing = asyncio.ensure_future(leader.propose(b"b"))
        await asyncio.sleep(0.15)
        for host in hosts:
            assert host.disk.content.entries[-1].index == 2
            assert not [e for e in host.transport.sent if getattr(e.message, "match_index", 0) >= 3]
        assert not proposing.done()
        await proposing
        assert max(host.disk.content.entries[-1].index for host in hosts) == 3


@virtual
async def test_a_vote_is_not_heard_of_before_it_is_on_the_disk() -> None:
    cluster = Cluster(3)
    await cluster.initialise([1, 2, 3])
    await cluster[1].start()
    host = cluster[1]
    candidate = cluster[2].member
    await cluster.until(lambda: host.transport.inbox is not None)
    assert host.transport.inbox is not None
    host.speed.work_s = lambda: 0.3  # type: ignore[method-assign]
    host.transport.inbox.receive(VoteRequest(candidate, 7, 0, 0))
    await asyncio.sleep(0.25)
    assert host.transport.sent == []
    await cluster.until(lambda: bool(host.transport.sent))
    assert host.disk.content.hard_state.vote == candidate
    assert host.transport.sent[0].message == VoteResponse(host.member, 7, True)
    await host.stop()


@virtual
async def test_what_is_committed_is_answered_without_waiting_for_the_next_transaction() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        host = cluster[leader.member.node_id]
        held: list[Any] = []
        deliver = host.transport.deliver
        host.transport.deliver = held.append  # type: ignore[assignment, method-assign]
        first = asyncio.ensure_future(leader.propose(b"a"))
        await cluster.until(lambda: any(getattr(message, "match_index", 0) == 2 for message in held))
        await cluster.until(lambda: leader.core.log.stable_index == 2)
        # Word that it is committed comes together with another proposal, and the disk is slow with that one.
        host.speed.work_s = lambda: 5.0  # type: ignore[method-assign]
        second = asyncio.ensure_future(leader.propose(b"b"))
        await asyncio.sleep(0)
        for message in held:
            deliver(message)
        async with asyncio.timeout(1):
            await first
        assert leader.status().last_index == 3
        second.cancel()


# -- the end


@virtual
async def test_a_stopped_node_answers_everyone_and_closes_what_it_used() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        follower = followers[0]
        host = cluster[follower.member.node_id]
        cluster.wires.drops = lambda envelope: isinstance(envelope.message, ReadIndexRequest)
        waiting = [
            asyncio.ensure_future(follower.read_index()),
            asyncio.ensure_future(follower.wait_applied(1000)),
        ]
        await asyncio.sleep(0.01)
        await host.stop()
        assert all(isinstance(error, NodeStopped) for error in await asyncio.gather(*waiting, return_exceptions=True))
        assert host.transport.is_closed
        assert host.store.is_closed
        for call in (follower.propose(b"x"), follower.read_index(), follower.wait_applied(1)):
            with pytest.raises(NodeStopped) as caught:
                await call
            assert isinstance(caught.value, RaftError)
        assert await leader.propose(b"goes on") == 1


@virtual
async def test_a_stopping_leader_does_not_know_what_becomes_of_what_it_appended() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        cluster.wires.isolate(leader.member.node_id)
        appended = asyncio.ensure_future(leader.propose(b"a"))
        transferring = asyncio.ensure_future(leader.transfer_leadership(followers[0].member.node_id))
        await asyncio.sleep(0.1)
        await cluster[leader.member.node_id].stop()
        with pytest.raises(ProposalLost):
            await appended
        with pytest.raises(NodeStopped):
            await transferring


@virtual
async def test_a_node_stops_though_its_store_waits_for_room() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        host = cluster[leader.member.node_id]
        has_room = asyncio.Event()

        async def save(*arguments: Any) -> None:
            await has_room.wait()

        host.store.save = save  # type: ignore[method-assign]
        waiting = asyncio.ensure_future(leader.propose(b"a"))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            await host.stop()
        assert host.transport.is_closed
        assert host.store.is_closed
        with pytest.raises(RaftError):
            await waiting
