"""A cluster of drivers: membership, transfer, and what observers hear."""

import asyncio
from typing import Any

import pytest
from support.raft_nodes import ListMachine, led, node_of, running, virtual

from lograft.raft.core.configuration import AddLearner, InvalidChange, Member, PromoteLearner, RemoveMember
from lograft.raft.core.messages import (
    TimeoutNow,
)
from lograft.raft.driver.observers import NodeObserver
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.errors import (
    ChangeRefused,
    NotLeader,
    TransferFailed,
)
from lograft.runtime.rng import Rng

# -- membership and transfer


async def change(node: RaftNode, wanted: AddLearner | PromoteLearner | RemoveMember) -> Any:
    """Until it is possible."""
    while True:
        try:
            return await node.change_configuration(wanted)
        except ChangeRefused:
            await asyncio.sleep(0.01)


@virtual
async def test_a_node_with_an_empty_store_is_added_promoted_and_votes() -> None:
    async with running(4, voters=3) as cluster:
        nodes = [node_of(cluster, node_id) for node_id in (1, 2, 3)]
        await cluster.until(lambda: any(node.status().role == "leader" for node in nodes))
        leader = next(node for node in nodes if node.status().role == "leader")
        await leader.propose(b"a")
        fourth = cluster[4]
        assert node_of(cluster, 4).status().role == "learner"
        learning = await change(leader, AddLearner(fourth.member))
        assert learning.learners == (fourth.member,)
        voting = await change(leader, PromoteLearner(fourth.member))
        assert len(voting.voters) == 4
        assert await cluster.agree() == [b"a"]
        assert node_of(cluster, 4).status().role == "follower"
        await leader.transfer_leadership(4)
        assert await node_of(cluster, 4).propose(b"b") == 2


@virtual
async def test_a_leader_that_removes_itself_is_told_so_and_another_takes_over() -> None:
    async with running(3) as cluster:
        leader, _ = await led(cluster)
        after = await change(leader, RemoveMember(leader.member))
        assert leader.member not in after.members
        assert leader.status().role == "learner"
        await cluster[leader.member.node_id].stop()
        await cluster.propose(b"a")
        assert await cluster.agree() == [b"a"]


@virtual
async def test_a_change_is_refused_for_what_it_is() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        stranger = Member(9, Rng(9).uuid())
        with pytest.raises(NotLeader):
            await followers[0].change_configuration(AddLearner(stranger))
        with pytest.raises(InvalidChange, match="not a member"):
            await leader.change_configuration(RemoveMember(stranger))
        await leader.change_configuration(AddLearner(stranger))
        with pytest.raises(ChangeRefused) as caught:  # it is not there, and so behind
            await leader.change_configuration(PromoteLearner(stranger))
        assert caught.value.retriable
        both = await asyncio.gather(
            leader.change_configuration(RemoveMember(stranger)),
            leader.change_configuration(RemoveMember(followers[0].member)),
            return_exceptions=True,
        )
        assert isinstance(both[1], ChangeRefused)
        assert leader.status().configuration.learners == ()
        assert len(leader.status().configuration.voters) == 3


@virtual
async def test_leadership_is_handed_over() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        target = followers[0]
        await leader.transfer_leadership(target.member.node_id)
        assert leader.status().leader == target.member
        assert await cluster.propose(b"a") == 1
        await target.transfer_leadership(target.member.node_id)


@virtual
async def test_a_handover_that_comes_to_nothing_is_reported_and_proposals_go_on() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        cluster.wires.drops = lambda envelope: isinstance(envelope.message, TimeoutNow)
        transferring = asyncio.ensure_future(leader.transfer_leadership(followers[0].member.node_id))
        await asyncio.sleep(0.05)
        with pytest.raises(NotLeader) as caught:
            await leader.propose(b"x")
        assert caught.value.leader == followers[0].member.node_id
        with pytest.raises(NotLeader):
            await leader.change_configuration(RemoveMember(followers[1].member))
        with pytest.raises(TransferFailed):
            await transferring
        assert await leader.propose(b"a") == 1


@virtual
async def test_leadership_is_handed_only_to_voters_and_only_by_the_leader() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        with pytest.raises(TransferFailed, match="node 9 is not a voter"):
            await leader.transfer_leadership(9)
        with pytest.raises(NotLeader):
            await followers[0].transfer_leadership(followers[1].member.node_id)


# -- observers and status


class Diary(NodeObserver):
    def __init__(self, machine: ListMachine) -> None:
        self._machine = machine
        self.events: list[tuple[Any, ...]] = []

    def leadership_taken(self, term: int) -> None:
        self.events.append(("taken", term, len(self._machine.commands)))

    def leadership_lost(self, term: int) -> None:
        self.events.append(("lost", term, len(self._machine.commands)))

    def leader_changed(self, leader: Member | None, term: int) -> None:
        self.events.append(("leader", leader and leader.node_id, term))

    def committed(self, index: int) -> None:
        self.events.append(("committed", index))


@virtual
async def test_observers_hear_of_leadership_once_it_can_be_used_and_of_its_loss_before_others_entries() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        await leader.propose(b"a")
        heir = cluster[followers[0].member.node_id]
        assert heir.node is not None
        diaries = {}
        for host in (cluster[leader.member.node_id], heir):
            diaries[host.node_id] = Diary(host.machine)
            assert host.node is not None
            host.node.observe(diaries[host.node_id])
        term = leader.core.term
        await leader.transfer_leadership(heir.node_id)
        await heir.node.propose(b"b")
        await leader.wait_applied(heir.node.applied_index)
        own, others = diaries[leader.member.node_id].events, diaries[heir.node_id].events
        assert [event for event in own if event[0] in ("taken", "lost")] == [("lost", term, 1)]
        assert [event for event in others if event[0] in ("taken", "lost")] == [("taken", term + 1, 1)]
        assert own.index(("lost", term, 1)) < own.index(("committed", 3))
        assert others.index(("committed", 3)) < others.index(("taken", term + 1, 1))
        assert ("leader", heir.node_id, term + 1) in own


@virtual
async def test_status_tells_how_far_everyone_is() -> None:
    async with running(3) as cluster:
        leader, followers = await led(cluster)
        await leader.propose(b"a")
        await cluster.agree()
        await cluster.until(lambda: set(leader.status().match_indexes.values()) == {2})
        status = leader.status()
        assert (status.role, status.commit_index, status.applied_index, status.last_index) == ("leader", 2, 2, 2)
        assert status.leader == leader.member
        assert len(status.match_indexes) == 3
        other = followers[0].status()
        assert (other.role, other.leader, other.match_indexes) == ("follower", leader.member, {})
