"""What a node refuses, what it cannot promise, and how it dies."""

import asyncio
from typing import Any

import pytest
from support.raft_nodes import Cluster, Host, running, virtual

from lograft.raft.core.entries import Command, Entry, NoOperation
from lograft.raft.core.messages import AppendRequest, Heartbeat, ReadIndexRequest
from lograft.raft.core.raft_core import RaftLimits
from lograft.raft.driver.inputs import NodeLimits
from lograft.raft.driver.observers import NodeObserver
from lograft.raft.driver.proposals import Proposals
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.driver.snapshots import SnapshotPolicy
from lograft.raft.errors import (
    EntryTooLarge,
    NodeStopped,
    Overloaded,
    ProposalLost,
    ProposalReplaced,
    RaftError,
)
from lograft.raft.store.errors import StoreFailed
from lograft.runtime.tasks.silence import PatientTimer


class Diary(NodeObserver):
    def __init__(self) -> None:
        self.events: list[str] = []

    def leadership_lost(self, term: int) -> None:
        self.events.append(f"lost {term}")

    def committed(self, index: int) -> None:
        self.events.append(f"committed {index}")


async def led(cluster: Cluster) -> tuple[Host, RaftNode]:
    host = await cluster.leader()
    assert host.node is not None
    return host, host.node


async def ending(host: Host) -> Any:
    """What `run` ends with."""
    assert host.task is not None
    await asyncio.wait([host.task])
    return host.task.exception()


# -- refusals


@virtual
async def test_a_command_over_the_limit_is_refused_and_one_at_it_is_not() -> None:
    async with running(1, limits=RaftLimits(max_entry_bytes=100)) as cluster:
        _, node = await led(cluster)
        with pytest.raises(EntryTooLarge, match="101 bytes is over the limit of 100") as caught:
            await node.propose(bytes(101))
        assert not caught.value.retriable
        assert await node.propose(bytes(100)) == 1


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (NodeLimits(max_proposals=10), "10 proposals wait"),
        (NodeLimits(max_proposal_bytes=10 * (32 + 100)), "1320 bytes of proposals wait"),
    ],
)
@virtual
async def test_beyond_the_limit_proposals_are_refused_whether_appended_or_not(limits: NodeLimits, reason: str) -> None:
    async with running(3, node_limits=limits) as cluster:
        host, node = await led(cluster)
        cluster.wires.isolate(host.node_id)
        waiting = [asyncio.ensure_future(node.propose(bytes(100))) for _ in range(6)]
        await asyncio.sleep(0.01)  # these are appended, and cannot be committed
        waiting += [asyncio.ensure_future(node.propose(bytes(100))) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match=reason) as caught:
            await node.propose(bytes(100))
        assert caught.value.retriable
        assert not caught.value.outcome_unknown
        assert all(isinstance(error, ProposalLost) for error in await asyncio.gather(*waiting, return_exceptions=True))
        cluster.wires.heal()
        await cluster.propose(b"there is room again")


@virtual
async def test_a_command_larger_than_all_that_may_wait_is_taken_when_nothing_does() -> None:
    async with running(1, node_limits=NodeLimits(max_proposal_bytes=10)) as cluster:
        _, node = await led(cluster)
        assert await node.propose(bytes(1000)) == 1
        assert await node.propose(bytes(1000)) == 2


@virtual
async def test_too_many_reads_are_refused() -> None:
    async with running(1, node_limits=NodeLimits(max_reads=3)) as cluster:
        _, node = await led(cluster)
        results = await asyncio.gather(*(node.read_index() for _ in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [int, int, int, Overloaded, Overloaded]


@virtual
async def test_reads_that_were_asked_count_until_they_are_answered() -> None:
    async with running(3, node_limits=NodeLimits(max_reads=3)) as cluster:
        leader, _ = await led(cluster)
        follower = next(host for host in cluster.living if host is not leader)
        cluster.wires.drops = lambda envelope: isinstance(envelope.message, ReadIndexRequest)
        reading = []
        for _ in range(3):
            reading.append(asyncio.ensure_future(follower.node.read_index()))
            await asyncio.sleep(0.001)
        with pytest.raises(Overloaded):
            await follower.node.read_index()
        for read in reading:
            read.cancel()
        await asyncio.sleep(0)
        cluster.wires.drops = lambda envelope: False
        assert await follower.node.read_index() > 0


@virtual
async def test_whoever_asks_in_the_turn_that_breaks_the_node_is_answered() -> None:
    async with running(3) as cluster:
        host, node = await led(cluster)
        other = next(other for other in cluster.living if other is not host)
        read = asyncio.ensure_future(node.read_index())
        await asyncio.sleep(0)
        node.receive(Heartbeat(other.member, node.core.term, 0, 1))  # two leaders in a term
        proposal = asyncio.ensure_future(node.propose(b"after"))
        await asyncio.wait([host.task])  # type: ignore[type-var]
        assert isinstance(host.task.exception(), AssertionError)
        results = await asyncio.gather(read, proposal, return_exceptions=True)
        assert [type(result) for result in results] == [NodeStopped, NodeStopped]


@virtual
async def test_messages_beyond_the_limit_are_lost_and_the_node_bears_it() -> None:
    async with running(3, node_limits=NodeLimits(max_messages=20)) as cluster:
        host, node = await led(cluster)
        other = next(other for other in cluster.living if other is not host)
        for _ in range(100):
            node.receive(Heartbeat(other.member, 0, 0, 0))
        assert node._inputs.dropped_messages == 80
        await cluster.propose(b"a")
        assert await cluster.agree() == [b"a"]


# -- outcomes


@virtual
async def test_an_entry_that_another_leaders_took_the_place_of_is_definitely_not_done() -> None:
    async with running(3) as cluster:
        host, node = await led(cluster)
        cluster.wires.isolate(host.node_id)
        diary = Diary()
        node.observe(diary)
        proposing = asyncio.ensure_future(node.propose(b"replaced"))
        await cluster.until(lambda: host.disk.content.state.entries[-1].index == 2)
        # The others have another leader, whose entry they committed; this node hears of both at once.
        other, term = next(other for other in cluster.living if other is not host), node.core.term
        entry = Entry(2, term + 1, NoOperation())
        node.receive(AppendRequest(other.member, term + 1, 1, term, (entry,), commit_index=2))
        with pytest.raises(ProposalReplaced) as caught:
            await proposing
        assert caught.value.retriable
        assert not caught.value.outcome_unknown
        assert host.machine.commands == []
        # Whoever made plans as leader hears that they are void before anything else is applied.
        assert diary.events == ["lost 1", "committed 2"]


@virtual
async def test_outcomes_by_term_and_index() -> None:
    loop = asyncio.get_running_loop()
    proposals = Proposals()
    old, own, later, new = (loop.create_future() for _ in range(4))
    proposals.add(5, 1, old, 10)
    proposals.add(6, 2, own, 10)
    proposals.add(7, 2, later, 10)
    proposals.add(8, 3, new, 10)
    assert (len(proposals), proposals.size_bytes) == (4, 40)
    proposals.applied(Entry(5, 2, Command(b"")), "other")
    proposals.applied(Entry(6, 2, Command(b"")), "own")
    proposals.applied(Entry(4, 2, Command(b"")), "nobody's")
    proposals.keep_only(3)
    assert isinstance(old.exception(), ProposalReplaced)
    assert own.result() == "own"
    assert isinstance(later.exception(), ProposalLost)
    assert not new.done()
    assert (len(proposals), proposals.size_bytes) == (1, 10)
    proposals.keep_only(None)
    assert isinstance(new.exception(), ProposalLost)
    assert (len(proposals), proposals.size_bytes) == (0, 0)


def test_only_a_lost_proposal_has_an_unknown_outcome() -> None:
    unknown = [kind for kind in RaftError.__subclasses__() if kind.outcome_unknown]
    final = [kind for kind in RaftError.__subclasses__() if not kind.retriable]
    assert (unknown, final) == ([ProposalLost], [EntryTooLarge])


# -- deaths


@virtual
async def test_a_failed_store_ends_the_node_with_its_error_and_everyone_is_answered() -> None:
    async with running(3) as cluster:
        host, node = await led(cluster)
        host.speed.work_s = lambda: 0.5  # type: ignore[method-assign]
        appended = asyncio.ensure_future(node.propose(b"a"))
        await asyncio.sleep(0.1)
        queued = asyncio.ensure_future(node.propose(b"b"))
        reading = asyncio.ensure_future(node.read_index())
        await asyncio.sleep(0.1)
        host.store.fail("no space left")
        error = await ending(host)
        assert isinstance(error, StoreFailed)
        results = await asyncio.gather(appended, queued, reading, return_exceptions=True)
        assert [type(result) for result in results] == [ProposalLost, NodeStopped, NodeStopped]
        assert host.transport.is_closed
        assert host.store.is_closed
        with pytest.raises(NodeStopped):
            await node.propose(b"c")


@virtual
async def test_a_broken_invariant_in_the_state_machine_ends_the_node_with_it() -> None:
    async with running(1) as cluster:
        host, node = await led(cluster)
        with pytest.raises(ProposalLost):
            await node.propose(b"poison")
        error = await ending(host)
        assert isinstance(error, AssertionError)
        assert str(error) == "a command that breaks an invariant"


@virtual
async def test_a_message_that_cannot_be_ends_the_node() -> None:
    async with running(3) as cluster:
        host, node = await led(cluster)
        other = next(other for other in cluster.living if other is not host)
        node.receive(Heartbeat(other.member, node.core.term, 0, 1))
        error = await ending(host)
        assert isinstance(error, AssertionError)
        assert "two leaders" in str(error)


@virtual
async def test_a_snapshot_that_cannot_be_saved_ends_the_node() -> None:
    async with running(1, policy=SnapshotPolicy(entries=5, kept_entries=0)) as cluster:
        host, node = await led(cluster)

        async def fail(snapshot: Any) -> None:
            raise StoreFailed("there", "no space left")

        host.store.save_own_snapshot = fail  # type: ignore[attr-defined]
        await asyncio.gather(*(node.propose(b"a") for _ in range(5)))
        assert isinstance(await ending(host), StoreFailed)


@virtual
async def test_a_store_that_cannot_be_closed_does_not_hide_why_the_node_died() -> None:
    async with running(1) as cluster:
        host, node = await led(cluster)

        async def fail() -> None:
            raise OSError("cannot close")

        host.transport.close = fail  # type: ignore[method-assign]
        with pytest.raises(ProposalLost):
            await node.propose(b"poison")
        assert isinstance(await ending(host), AssertionError)
        assert host.store.is_closed


@virtual
async def test_a_cancelled_node_answers_everyone_and_closes() -> None:
    async with running(3) as cluster:
        host, node = await led(cluster)
        waiting = asyncio.ensure_future(node.wait_applied(1000))
        await asyncio.sleep(0.01)
        assert host.task is not None
        host.task.cancel()
        await asyncio.wait([host.task])
        assert host.task.cancelled()
        with pytest.raises(NodeStopped):
            await waiting
        assert host.store.is_closed
        await node.close()


@virtual
async def test_a_node_closed_before_it_ran_answers_everyone_and_runs_no_more() -> None:
    cluster = Cluster(1)
    await cluster.initialise([1])
    host = cluster[1]
    node = await host.start()
    waiting = [asyncio.ensure_future(node.read_index()), asyncio.ensure_future(node.propose(b"a"))]
    await node.close()
    assert all(isinstance(error, NodeStopped) for error in await asyncio.gather(*waiting, return_exceptions=True))
    assert host.task is not None
    await host.task
    assert host.store.is_closed


# -- patience


def test_a_timer_noticed_in_time_fires_at_once() -> None:
    timer = PatientTimer(stall_ms=50)
    assert not timer.is_due(1000, 999)
    assert timer.is_due(1000, 1000)
    assert timer.is_due(1000, 1050)
    assert timer.wake_ms(1000) == 1000


def test_a_timer_noticed_late_waits_once_for_input() -> None:
    timer = PatientTimer(stall_ms=50)
    assert not timer.is_due(1000, 1051)
    assert timer.wake_ms(1000) == 1071
    assert not timer.is_due(1000, 1070)
    assert timer.is_due(1000, 1071)
    # The leader was heard of: another deadline, and no more hurry than ever.
    assert timer.wake_ms(1800) == 1800
    assert not timer.is_due(1800, 1799)
    assert timer.is_due(1800, 1801)
