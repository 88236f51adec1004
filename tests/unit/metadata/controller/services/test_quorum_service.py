"""Members of the quorum come and go by what administrators ask, step by step, and never to its harm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from support.raft_nodes import CLUSTER, Cluster, Host, node_of, virtual

from lograft.metadata.controller.quorum_changes import refusal_of
from lograft.metadata.controller.services.quorum_service import QuorumService, missing_voters
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2
from lograft.raft.core.configuration import (
    AddLearner,
    Configuration,
    ConfigurationChange,
    InvalidChange,
    Member,
    PromoteLearner,
    RemoveMember,
    configuration,
)
from lograft.raft.errors import (
    ChangeRefused,
    NodeStopped,
    NotLeader,
    Overloaded,
    ProposalLost,
    ProposalReplaced,
    TransferFailed,
)
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import call
from lograft.runtime.network import Connection

ADDRESSES = {node_id: f"host{node_id}:9093" for node_id in range(1, 7)}


class Connected:
    """Those that the node takes for connected: all that are there, but of those in `dead` only the former self."""

    def __init__(self, cluster: Cluster, node_id: int, dead: dict[int, Member], refusals: dict[Member, str]) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._dead = dead
        self._refusals = refusals

    def connected_members(self) -> list[Member]:
        transports = self._cluster.wires.transports
        members = {node_id: transport.member for node_id, transport in transports.items() if node_id != self._node_id}
        return list((members | self._dead).values())

    def refusal_of(self, member: Member) -> str | None:
        return self._refusals.get(member)

    async def who_answers(self, node_id: int) -> Member | None:
        await asyncio.sleep(0.002)
        transport = self._cluster.wires.transports.get(node_id)
        return transport.member if transport is not None and self._cluster[node_id].node is not None else None


class World:
    """Hosts 1 to 6, the first of them voters; each has the service. `changes` are those that were committed; `dead`,
    by node: to whom a connection is believed to be open, though that process is gone. `refusals`: members whose store
    the leader refuses, and why."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.changes: list[ConfigurationChange] = []
        self.controllers = dict(ADDRESSES)
        self.dead: dict[int, Member] = {}
        self.refusals: dict[Member, str] = {}
        self._connections: dict[int, Connection] = {}

    async def start(self, node_id: int) -> None:
        node = await self.cluster[node_id].start()
        original = node.change_configuration

        async def change(wanted: ConfigurationChange) -> Any:
            after = await original(wanted)
            self.changes.append(wanted)
            return after

        node.change_configuration = change  # type: ignore[assignment, method-assign]

    async def lose_disk(self, node_id: int) -> Member:
        """The node crashes, and comes back with a new disk: the member that it is now."""
        host = self.cluster[node_id]
        await host.crash()
        host.disk.wipe()
        await self.start(node_id)
        return host.member

    def member(self, node_id: int) -> Member:
        return self.cluster[node_id].member

    async def leader(self) -> Host:
        """Those who are not members follow nobody, so it is not waited for that all do."""
        found: list[Host] = []

        def is_found() -> bool:
            found[:] = [host for host in self.cluster.living if _leads(host)]
            return len(found) == 1

        await self.cluster.until(is_found)
        return found[0]

    async def follower(self) -> Host:
        leader = await self.leader()
        members = node_of(self.cluster, leader.node_id).status().configuration.voters
        return next(host for host in self.cluster.living if host.member in members and host is not leader)

    async def configuration(self) -> Configuration:
        return node_of(self.cluster, (await self.leader()).node_id).status().configuration

    async def propose(self, data: bytes) -> None:
        await node_of(self.cluster, (await self.leader()).node_id).propose(data)

    async def ask(self, request: Any, node_id: int | None = None) -> Any:
        """The answer of the leader, or of that node."""
        node_id = node_id if node_id is not None else (await self.leader()).node_id
        if node_id not in self._connections:
            self._connections[node_id] = await self._connect(self.cluster[node_id])
        name = type(request).__name__.removesuffix("Request")
        answer = "QuorumChangeResponse" if name.endswith("Voter") else f"{name}Response"
        return await call(self._connections[node_id], f"/lograft.v1.Admin/{name}", request, getattr(pb, answer))

    async def refused(self, request: Any, node_id: int | None = None) -> ControllerError:
        with pytest.raises(ControllerError) as caught:
            await self.ask(request, node_id)
        return caught.value

    async def _connect(self, host: Host) -> Connection:
        def panic(error: BaseException) -> None:
            raise AssertionError("a handler failed") from error

        connected = Connected(self.cluster, host.node_id, self.dead, self.refusals)
        service = QuorumService(
            host.runtime, lambda: host.node, connected, connected.who_answers, self.controllers, CLUSTER
        )
        await host.runtime.network.serve("n0:1", service.handlers(), panic)
        return await host.runtime.network.connect("n0:1")


def _leads(host: Host) -> bool:
    assert host.node is not None
    status = host.node.status()
    return status.role == "leader" and status.commit_index == status.last_index


@asynccontextmanager
async def quorum(voters: int = 3, *, also: tuple[int, ...] = ()) -> AsyncIterator[World]:
    """Nodes 1 to `voters` vote; those of `also` run, and are not members yet."""
    cluster = Cluster(6)
    await cluster.initialise(list(range(1, voters + 1)))
    world = World(cluster)
    for node_id in (*range(1, voters + 1), *also):
        await world.start(node_id)
    await world.leader()
    try:
        yield world
    finally:
        for host in cluster.living:
            if host.task is not None and not host.task.done():
                await host.stop()


def voters_of(answer: Any) -> list[Member]:
    return [Member(each.node_id, UUID(bytes=each.directory_id)) for each in answer.members if each.is_voter]


# -- looking


@virtual
async def test_the_leader_describes_the_quorum() -> None:
    async with quorum(also=(4,)) as world:
        leader = await world.leader()
        node = node_of(world.cluster, leader.node_id)
        await node.change_configuration(AddLearner(world.member(4)))
        await world.propose(b"x")
        await asyncio.sleep(1)
        status = node.status()
        answer = await world.ask(pb.DescribeQuorumRequest())
        assert (answer.cluster_id, answer.leader_id, answer.term) == (CLUSTER, leader.node_id, status.term)
        assert answer.commit_index == answer.last_index == status.commit_index > 0
        assert [(each.node_id, each.is_voter) for each in answer.members] == [
            (1, True), (2, True), (3, True), (4, False),
        ]  # fmt: skip
        for each in answer.members:
            assert each.directory_id == world.member(each.node_id).directory_id.bytes
            assert each.address == ADDRESSES[each.node_id]
            assert each.match_index == status.commit_index


@virtual
async def test_of_a_member_that_the_leader_has_not_heard_of_nothing_is_said() -> None:
    async with quorum() as world:
        leader = await world.leader()
        await node_of(world.cluster, leader.node_id).change_configuration(AddLearner(world.member(4)))
        learner = (await world.ask(pb.DescribeQuorumRequest())).members[3]
        assert not learner.HasField("match_index")
        del world.controllers[4]
        assert (await world.ask(pb.DescribeQuorumRequest())).members[3].address == ""


async def silence_of(world: World, node_id: int) -> tuple[bool, int]:
    (found,) = [each for each in (await world.ask(pb.DescribeQuorumRequest())).members if each.node_id == node_id]
    assert found.HasField("silent_ms")
    return found.is_unreachable, found.silent_ms


@virtual
async def test_a_voter_that_does_not_answer_is_unreachable_though_it_has_all() -> None:
    async with quorum() as world:
        leader, silent = await world.leader(), await world.follower()
        await asyncio.sleep(1)
        for node_id in (1, 2, 3):
            is_unreachable, silent_ms = await silence_of(world, node_id)
            assert not is_unreachable
            assert silent_ms <= 300
        world.cluster.wires.isolate(silent.node_id)
        began = asyncio.get_running_loop().time()
        status = node_of(world.cluster, leader.node_id).status
        await world.cluster.until(lambda: silent.member in status().unreachable)
        assert 0.5 < asyncio.get_running_loop().time() - began < 2
        await asyncio.sleep(10)
        is_unreachable, silent_ms = await silence_of(world, silent.node_id)
        assert is_unreachable
        assert 10_000 < silent_ms < 13_000
        answer = await world.ask(pb.DescribeQuorumRequest(), leader.node_id)
        assert {each.match_index for each in answer.members} == {answer.commit_index}
        world.cluster.wires.heal()
        await asyncio.sleep(2)
        assert (await silence_of(world, silent.node_id))[0] is False


@virtual
async def test_a_voter_that_a_new_leader_never_heard_is_unreachable_after_an_election_timeout() -> None:
    async with quorum() as world:
        leader, down = await world.leader(), await world.follower()
        (other,) = {1, 2, 3} - {leader.node_id, down.node_id}
        await down.stop()
        await world.ask(pb.TransferLeadershipRequest(node_id=other))
        (member,) = [
            each for each in (await world.ask(pb.DescribeQuorumRequest())).members if each.node_id == down.node_id
        ]
        assert not member.HasField("match_index")
        assert not member.is_unreachable
        began = asyncio.get_running_loop().time()
        status = node_of(world.cluster, other).status
        await world.cluster.until(lambda: down.member in status().unreachable)
        assert (await silence_of(world, down.node_id))[0]
        assert asyncio.get_running_loop().time() - began < 2
        assert (await world.leader()).node_id == other


@virtual
async def test_a_silent_voter_that_runs_with_a_new_store_is_named_with_its_remedy() -> None:
    async with quorum() as world:
        leader, lost = await world.leader(), await world.follower()
        old = lost.member
        await world.lose_disk(lost.node_id)
        status = node_of(world.cluster, leader.node_id).status
        await world.cluster.until(lambda: old in status().unreachable)
        world.refusals[old] = "the store is from the past"  # it was; by now it is empty
        answer = await world.ask(pb.DescribeQuorumRequest())
        refusals = {each.node_id: each.refusal for each in answer.members if each.HasField("refusal")}
        assert list(refusals) == [lost.node_id]
        assert "runs with a new store" in refusals[lost.node_id]
        assert f"`lograft quorum replace {lost.node_id}`" in refusals[lost.node_id]
        await world.ask(pb.ReplaceVoterRequest(node_id=lost.node_id))
        answer = await world.ask(pb.DescribeQuorumRequest())
        assert not any(each.HasField("refusal") for each in answer.members)


@virtual
async def test_a_silent_voter_that_is_down_has_lost_nothing_that_is_known() -> None:
    async with quorum() as world:
        leader, down = await world.leader(), await world.follower()
        await down.stop()
        status = node_of(world.cluster, leader.node_id).status
        await world.cluster.until(lambda: down.member in status().unreachable)
        answer = await world.ask(pb.DescribeQuorumRequest())
        assert not any(each.HasField("refusal") for each in answer.members)


@pytest.mark.parametrize(
    "request_",
    [
        pb.DescribeQuorumRequest(),
        pb.AddVoterRequest(node_id=4),
        pb.RemoveVoterRequest(node_id=3),
        pb.ReplaceVoterRequest(node_id=3),
        pb.TransferLeadershipRequest(node_id=3),
    ],
    ids=lambda request: type(request).__name__,
)
@virtual
async def test_who_does_not_lead_says_who_does(request_: Any) -> None:
    async with quorum(also=(4,)) as world:
        leader, other = await world.leader(), await world.follower()
        error = await world.refused(request_, other.node_id)
        assert (error.code, error.leader_id) == (errors_pb2.NOT_CONTROLLER, leader.node_id)
        assert world.changes == []


@virtual
async def test_a_node_that_takes_no_part_yet_says_so() -> None:
    async with quorum() as world:
        for request in (pb.DescribeQuorumRequest(), pb.AddVoterRequest(node_id=4)):
            assert (await world.refused(request, 5)).code == errors_pb2.UNAVAILABLE


def test_voters_that_the_settings_do_not_list_are_found() -> None:
    one, two, three = (Member(number, UUID(int=number)) for number in (1, 2, 3))
    assert missing_voters(configuration([one, two], [three]), {1: "a:1"}) == (two,)
    assert missing_voters(configuration([one, two]), {1: "a:1", 2: "b:1", 3: "c:1"}) == ()


# -- adding


@virtual
async def test_a_node_is_added_first_as_a_learner_and_then_as_a_voter() -> None:
    async with quorum(also=(4,)) as world:
        for number in range(50):
            await world.propose(b"%d" % number)
        answer = await world.ask(pb.AddVoterRequest(node_id=4))
        assert world.changes == [AddLearner(world.member(4)), PromoteLearner(world.member(4))]
        assert voters_of(answer) == [world.member(number) for number in (1, 2, 3, 4)]
        assert answer.members[3].match_index > 50
        await world.cluster.until(lambda: len(world.cluster[4].machine.commands) == 50)


@virtual
async def test_a_node_can_be_added_by_the_id_of_its_disk() -> None:
    async with quorum(also=(4,)) as world:
        other = pb.AddVoterRequest(node_id=4, directory_id=UUID(int=9).bytes)
        assert (await world.refused(other)).code == errors_pb2.INVALID_QUORUM_CHANGE
        malformed = pb.AddVoterRequest(node_id=4, directory_id=b"abc")
        assert (await world.refused(malformed)).code == errors_pb2.INVALID_REQUEST
        assert world.changes == []
        right = pb.AddVoterRequest(node_id=4, directory_id=world.member(4).directory_id.bytes)
        assert len(voters_of(await world.ask(right))) == 4


@virtual
async def test_to_add_who_votes_already_is_done() -> None:
    async with quorum() as world:
        assert len(voters_of(await world.ask(pb.AddVoterRequest(node_id=3)))) == 3
        down = await world.follower()
        await down.stop()
        assert len(voters_of(await world.ask(pb.AddVoterRequest(node_id=down.node_id)))) == 3
        assert world.changes == []


@virtual
async def test_a_node_that_the_settings_do_not_list_is_not_added() -> None:
    async with quorum(also=(4,)) as world:
        del world.controllers[4]
        for request in (pb.AddVoterRequest(node_id=4), pb.ReplaceVoterRequest(node_id=4)):
            error = await world.refused(request)
            assert error.code == errors_pb2.INVALID_QUORUM_CHANGE
            assert "`controllers`" in error.message
        assert world.changes == []


@virtual
async def test_a_node_that_is_not_there_is_not_added() -> None:
    async with quorum() as world:
        began = asyncio.get_running_loop().time()
        error = await world.refused(pb.AddVoterRequest(node_id=4))
        assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW
        assert ADDRESSES[4] in error.message
        assert asyncio.get_running_loop().time() - began < 6
        assert world.changes == []


@virtual
async def test_a_node_that_starts_meanwhile_is_added() -> None:
    async with quorum() as world:
        adding = asyncio.ensure_future(world.ask(pb.AddVoterRequest(node_id=4)))
        await asyncio.sleep(1)
        await world.start(4)
        assert len(voters_of(await adding)) == 4


@virtual
async def test_a_voter_that_lost_its_disk_is_replaced_not_added() -> None:
    async with quorum() as world:
        other = await world.follower()
        await world.lose_disk(other.node_id)
        error = await world.refused(pb.AddVoterRequest(node_id=other.node_id))
        assert error.code == errors_pb2.INVALID_QUORUM_CHANGE
        assert f"quorum replace {other.node_id}" in error.message
        assert world.changes == []


@virtual
async def test_what_takes_too_long_goes_on_when_it_is_asked_for_again() -> None:
    async with quorum(also=(4,)) as world:
        await world.propose(b"x")
        world.cluster.wires.isolate(4)
        error = await world.refused(pb.AddVoterRequest(node_id=4, timeout_ms=2000))
        assert error.code == errors_pb2.TIMED_OUT
        assert "still learning" in error.message
        assert world.changes == [AddLearner(world.member(4))]
        world.cluster.wires.heal()
        assert len(voters_of(await world.ask(pb.AddVoterRequest(node_id=4)))) == 4
        assert world.changes == [AddLearner(world.member(4)), PromoteLearner(world.member(4))]


@virtual
async def test_a_learner_that_lost_its_disk_leaves_no_trace() -> None:
    async with quorum(also=(4,)) as world:
        before = world.member(4)
        await node_of(world.cluster, (await world.leader()).node_id).change_configuration(AddLearner(before))
        after = await world.lose_disk(4)
        answer = await world.ask(pb.AddVoterRequest(node_id=4))
        assert [each.node_id for each in answer.members] == [1, 2, 3, 4]
        assert world.changes[1:] == [RemoveMember(before), AddLearner(after), PromoteLearner(after)]


# -- removing


@virtual
async def test_a_voter_is_removed() -> None:
    async with quorum() as world:
        other = await world.follower()
        answer = await world.ask(pb.RemoveVoterRequest(node_id=other.node_id))
        assert other.member not in voters_of(answer)
        assert len(voters_of(answer)) == 2
        await world.propose(b"x")


@virtual
async def test_a_leader_that_is_removed_gives_way_to_another() -> None:
    async with quorum() as world:
        leader = await world.leader()
        answer = await world.ask(pb.RemoveVoterRequest(node_id=leader.node_id))
        assert leader.member not in voters_of(answer)
        await world.cluster.until(lambda: not _leads(leader))
        assert (await world.leader()) is not leader
        await world.propose(b"x")


@virtual
async def test_the_last_voter_stays() -> None:
    async with quorum(1) as world:
        error = await world.refused(pb.RemoveVoterRequest(node_id=1))
        assert (error.code, world.changes) == (errors_pb2.INVALID_QUORUM_CHANGE, [])
        assert "last voter" in error.message


@virtual
async def test_to_remove_who_was_removed_is_done() -> None:
    async with quorum() as world:
        other = await world.follower()
        for _ in range(2):
            answer = await world.ask(pb.RemoveVoterRequest(node_id=other.node_id))
            assert other.member not in voters_of(answer)
            assert world.changes == [RemoveMember(other.member)]


@virtual
async def test_who_is_no_member_cannot_be_removed() -> None:
    async with quorum() as world:
        for request in (
            pb.RemoveVoterRequest(node_id=9),
            pb.RemoveVoterRequest(node_id=4, directory_id=UUID(int=9).bytes),
            pb.RemoveVoterRequest(node_id=-1),
            pb.RemoveVoterRequest(node_id=3, directory_id=UUID(int=9).bytes),
        ):
            error = await world.refused(request)
            assert error.code == errors_pb2.INVALID_QUORUM_CHANGE
            assert str(world.member(3)) in error.message
        assert world.changes == []


@virtual
async def test_a_learner_is_removed_too() -> None:
    async with quorum(also=(4,)) as world:
        await node_of(world.cluster, (await world.leader()).node_id).change_configuration(AddLearner(world.member(4)))
        answer = await world.ask(pb.RemoveVoterRequest(node_id=4))
        assert [each.node_id for each in answer.members] == [1, 2, 3]


@virtual
async def test_no_voter_is_removed_if_the_rest_would_have_no_majority() -> None:
    async with quorum() as world:
        leader = await world.leader()
        down = await world.follower()
        await down.stop()
        (other,) = [host for host in world.cluster.living if host is not leader]
        began = asyncio.get_running_loop().time()
        error = await world.refused(pb.RemoveVoterRequest(node_id=other.node_id))
        assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW
        assert asyncio.get_running_loop().time() - began < 6
        assert world.changes == []
        await world.propose(b"x")


# -- replacing


@virtual
async def test_a_voter_that_lost_its_disk_is_replaced_by_its_new_self_once_that_has_caught_up() -> None:
    async with quorum() as world:
        for number in range(50):
            await world.propose(b"%d" % number)
        lost = await world.follower()
        old = lost.member
        new = await world.lose_disk(lost.node_id)
        leader = node_of(world.cluster, (await world.leader()).node_id)
        caught_up: list[bool] = []
        counted = leader.change_configuration

        async def change(wanted: ConfigurationChange) -> Any:
            if isinstance(wanted, RemoveMember):
                status = leader.status()
                caught_up.append(status.match_indexes[new] >= status.commit_index)
            return await counted(wanted)

        leader.change_configuration = change  # type: ignore[assignment, method-assign]
        answer = await world.ask(pb.ReplaceVoterRequest(node_id=lost.node_id))
        assert world.changes == [AddLearner(new), RemoveMember(old), PromoteLearner(new)]
        assert caught_up == [True]
        assert new in voters_of(answer)
        assert [each.node_id for each in answer.members] == [1, 2, 3]
        await world.cluster.until(lambda: len(lost.machine.commands) == 50)


@virtual
async def test_the_old_self_stays_if_the_new_one_had_all_and_is_silent() -> None:
    async with quorum() as world:
        lost = await world.follower()
        old = lost.member
        new = await world.lose_disk(lost.node_id)
        leader = node_of(world.cluster, (await world.leader()).node_id)
        await leader.change_configuration(AddLearner(new))
        await world.cluster.until(lambda: leader.status().match_indexes[new] == leader.status().commit_index)
        world.cluster.wires.isolate(lost.node_id)
        await world.cluster.until(lambda: new in leader.status().unreachable)
        error = await world.refused(pb.ReplaceVoterRequest(node_id=lost.node_id, timeout_ms=2000))
        assert error.code == errors_pb2.TIMED_OUT
        assert "it does not answer, start it" in error.message
        assert old in (await world.configuration()).voters


@virtual
async def test_a_voter_is_not_removed_if_those_left_are_silent() -> None:
    """As a paused process is: its connections stay open."""
    async with quorum() as world:
        leader, paused = await world.leader(), await world.follower()
        (other,) = {1, 2, 3} - {leader.node_id, paused.node_id}
        status = node_of(world.cluster, leader.node_id).status
        world.cluster.wires.isolate(paused.node_id)
        await world.cluster.until(lambda: paused.member in status().unreachable)
        error = await world.refused(pb.RemoveVoterRequest(node_id=other))
        assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW
        assert f"voters that answer: node {paused.node_id} does not answer" in error.message
        assert world.changes == []


@virtual
async def test_the_old_self_stays_while_the_new_one_has_not_caught_up() -> None:
    async with quorum() as world:
        await world.propose(b"x")
        lost = await world.follower()
        old = lost.member
        new = await world.lose_disk(lost.node_id)
        world.cluster.wires.isolate(lost.node_id)
        error = await world.refused(pb.ReplaceVoterRequest(node_id=lost.node_id, timeout_ms=2000))
        assert error.code == errors_pb2.TIMED_OUT
        assert old in (await world.configuration()).voters
        assert world.changes == [AddLearner(new)]
        world.cluster.wires.heal()
        await world.ask(pb.ReplaceVoterRequest(node_id=lost.node_id))
        assert world.changes == [AddLearner(new), RemoveMember(old), PromoteLearner(new)]


@virtual
async def test_a_replacement_that_was_cut_off_after_the_removal_goes_on() -> None:
    async with quorum() as world:
        lost = await world.follower()
        old = lost.member
        new = await world.lose_disk(lost.node_id)
        leader = node_of(world.cluster, (await world.leader()).node_id)
        await leader.change_configuration(AddLearner(new))
        await leader.change_configuration(RemoveMember(old))
        answer = await world.ask(pb.ReplaceVoterRequest(node_id=lost.node_id))
        assert new in voters_of(answer)
        assert len(answer.members) == 3


@virtual
async def test_who_has_its_disk_needs_no_replacement() -> None:
    async with quorum() as world:
        for node_id in (1, 2, 3):
            assert len(voters_of(await world.ask(pb.ReplaceVoterRequest(node_id=node_id)))) == 3
        assert world.changes == []


@pytest.mark.parametrize("request_type", [pb.ReplaceVoterRequest, pb.AddVoterRequest])
def test_a_voter_whose_store_is_refused_is_not_said_to_vote(request_type: Any) -> None:
    @virtual
    async def run() -> None:
        async with quorum() as world:
            one = await world.follower()
            world.refusals[one.member] = "the store is from the past; empty it"
            error = await world.refused(request_type(node_id=one.node_id))
            assert (error.code, world.changes) == (errors_pb2.INVALID_QUORUM_CHANGE, [])
            assert f"node {one.node_id} does not vote: the store is from the past; empty it" in error.message
            new = await world.lose_disk(one.node_id)  # which the remedy says
            assert new in voters_of(await world.ask(pb.ReplaceVoterRequest(node_id=one.node_id)))

    run()


@virtual
async def test_a_voter_that_has_its_disk_and_is_silent_is_not_said_to_be_well() -> None:
    """Its store may be refused by another member than the leader: then it says nothing to anybody."""
    async with quorum() as world:
        leader, silent = await world.leader(), await world.follower()
        world.cluster.wires.isolate(silent.node_id)
        status = node_of(world.cluster, leader.node_id).status
        await world.cluster.until(lambda: silent.member in status().unreachable)
        error = await world.refused(pb.ReplaceVoterRequest(node_id=silent.node_id))
        assert (error.code, world.changes) == (errors_pb2.QUORUM_CHANGE_NOT_NOW, [])
        assert "the leader does not hear from it: its log and /readyz say why" in error.message
        replacing = asyncio.ensure_future(world.ask(pb.ReplaceVoterRequest(node_id=silent.node_id)))
        await asyncio.sleep(1)
        world.cluster.wires.heal()
        assert silent.member in voters_of(await replacing)


@virtual
async def test_a_node_is_asked_for_its_disk_and_a_connection_to_its_former_self_is_not_believed() -> None:
    async with quorum() as world:
        lost = await world.follower()
        old = world.dead[lost.node_id] = lost.member
        new = await world.lose_disk(lost.node_id)
        error = await world.refused(pb.AddVoterRequest(node_id=lost.node_id))
        assert f"quorum replace {lost.node_id}" in error.message
        answer = await world.ask(pb.ReplaceVoterRequest(node_id=lost.node_id))
        assert new in voters_of(answer)
        assert world.changes == [AddLearner(new), RemoveMember(old), PromoteLearner(new)]


@virtual
async def test_nothing_is_replaced_and_nothing_done_while_the_node_does_not_answer() -> None:
    async with quorum() as world:
        lost = await world.follower()
        world.dead[lost.node_id] = lost.member
        await lost.stop()
        began = asyncio.get_running_loop().time()
        error = await world.refused(pb.ReplaceVoterRequest(node_id=lost.node_id))
        assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW
        assert f"node {lost.node_id} does not answer at {ADDRESSES[lost.node_id]}: start it" in error.message
        assert 4 < asyncio.get_running_loop().time() - began < 6
        assert world.changes == []


@virtual
async def test_who_asks_gets_an_answer_while_it_still_waits_for_one() -> None:
    async with quorum() as world:
        down = await world.follower()
        await down.stop()
        async with asyncio.timeout(2):  # as whoever hands the request on does
            error = await world.refused(pb.ReplaceVoterRequest(node_id=down.node_id, timeout_ms=2000))
        assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW


@virtual
async def test_a_node_that_comes_back_with_an_empty_disk_meanwhile_is_replaced() -> None:
    async with quorum() as world:
        lost = await world.follower()
        world.dead[lost.node_id] = lost.member
        await lost.stop()
        replacing = asyncio.ensure_future(world.ask(pb.ReplaceVoterRequest(node_id=lost.node_id)))
        await asyncio.sleep(1)
        lost.disk.wipe()
        await world.start(lost.node_id)
        assert lost.member in voters_of(await replacing)


@virtual
async def test_a_replacement_whose_answer_was_lost_is_done_when_it_is_asked_for_again() -> None:
    async with quorum() as world:
        lost = await world.follower()
        new = await world.lose_disk(lost.node_id)
        for _ in range(2):
            assert new in voters_of(await world.ask(pb.ReplaceVoterRequest(node_id=lost.node_id)))
            assert len(world.changes) == 3


@virtual
async def test_a_leader_that_another_may_have_followed_says_of_nothing_that_it_is_done() -> None:
    async with quorum() as world:
        leader = await world.leader()
        other = await world.follower()
        world.cluster.wires.isolate(leader.node_id)
        for request in (pb.AddVoterRequest(node_id=other.node_id), pb.ReplaceVoterRequest(node_id=other.node_id)):
            error = await world.refused(request, leader.node_id)
            assert error.code in (errors_pb2.NOT_CONTROLLER, errors_pb2.QUORUM_CHANGE_NOT_NOW)


@virtual
async def test_who_is_no_member_cannot_be_replaced() -> None:
    async with quorum(also=(4,)) as world:
        error = await world.refused(pb.ReplaceVoterRequest(node_id=4))
        assert (error.code, world.changes) == (errors_pb2.INVALID_QUORUM_CHANGE, [])
        assert "quorum add 4" in error.message


# -- leadership


@virtual
async def test_leadership_is_transferred() -> None:
    async with quorum() as world:
        other = await world.follower()
        answer = await world.ask(pb.TransferLeadershipRequest(node_id=other.node_id))
        assert answer.leader_id == other.node_id == (await world.leader()).node_id
        assert (await world.ask(pb.TransferLeadershipRequest(node_id=other.node_id))).leader_id == other.node_id


@virtual
async def test_leadership_goes_to_voters_alone() -> None:
    async with quorum(also=(4,)) as world:
        leader = await world.leader()
        await node_of(world.cluster, leader.node_id).change_configuration(AddLearner(world.member(4)))
        for node_id in (4, 5, -1):
            error = await world.refused(pb.TransferLeadershipRequest(node_id=node_id))
            assert error.code == errors_pb2.INVALID_QUORUM_CHANGE
        assert (await world.leader()) is leader


@virtual
async def test_leadership_does_not_go_to_who_is_down() -> None:
    async with quorum() as world:
        leader, down = await world.leader(), await world.follower()
        await down.stop()
        error = await world.refused(pb.TransferLeadershipRequest(node_id=down.node_id))
        assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW
        assert f"node {down.node_id} does not answer at {ADDRESSES[down.node_id]}: start it" in error.message
        await world.propose(b"x")
        assert (await world.leader()) is leader


@virtual
async def test_leadership_does_not_go_to_who_lost_its_disk() -> None:
    async with quorum() as world:
        lost = await world.follower()
        await world.lose_disk(lost.node_id)
        error = await world.refused(pb.TransferLeadershipRequest(node_id=lost.node_id))
        assert error.code == errors_pb2.INVALID_QUORUM_CHANGE
        assert f"`quorum replace {lost.node_id}`" in error.message


@virtual
async def test_leadership_does_not_go_to_who_does_not_follow() -> None:
    async with quorum() as world:
        cut_off = await world.follower()
        world.cluster.wires.isolate(cut_off.node_id)
        error = await world.refused(pb.TransferLeadershipRequest(node_id=cut_off.node_id))
        assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW
        assert f"not {cut_off.node_id}" in error.message


# -- one at a time, and when the leader goes


@virtual
async def test_one_change_at_a_time() -> None:
    async with quorum(also=(4, 5)) as world:
        world.cluster.wires.isolate(4)
        leader = (await world.leader()).node_id
        adding = asyncio.ensure_future(world.ask(pb.AddVoterRequest(node_id=4), leader))
        await asyncio.sleep(1)
        for request in (pb.AddVoterRequest(node_id=5), pb.RemoveVoterRequest(node_id=1)):
            error = await world.refused(request, leader)
            assert error.code == errors_pb2.QUORUM_CHANGE_NOT_NOW
            assert "adding node 4" in error.message
        world.cluster.wires.heal()
        await adding
        assert len(voters_of(await world.ask(pb.AddVoterRequest(node_id=5)))) == 5


@virtual
async def test_a_caller_that_goes_away_does_not_block_the_next() -> None:
    async with quorum(also=(4, 5)) as world:
        world.cluster.wires.isolate(4)
        adding = asyncio.ensure_future(world.ask(pb.AddVoterRequest(node_id=4)))
        await asyncio.sleep(1)
        adding.cancel()
        await asyncio.sleep(1)
        assert len(voters_of(await world.ask(pb.AddVoterRequest(node_id=5)))) == 4


@virtual
async def test_a_change_that_was_begun_is_not_said_to_be_undone_when_the_leader_goes() -> None:
    async with quorum(also=(4,)) as world:
        leader = await world.leader()
        world.cluster.wires.isolate(4)
        adding = asyncio.ensure_future(world.ask(pb.AddVoterRequest(node_id=4), leader.node_id))
        await asyncio.sleep(1)
        other = await world.follower()
        await node_of(world.cluster, leader.node_id).transfer_leadership(other.node_id)
        with pytest.raises(ControllerError) as caught:
            await adding
        assert caught.value.code == errors_pb2.CONTROLLER_MOVED
        assert "begun" in caught.value.message
        world.cluster.wires.heal()
        assert len(voters_of(await world.ask(pb.AddVoterRequest(node_id=4)))) == 4


@virtual
async def test_a_quorum_that_does_not_commit_is_not_changed() -> None:
    """What its leader has in its log may yet be undone: nobody can say who is a member."""
    async with quorum(also=(4,)) as world:
        leader = await world.leader()
        for host in list(world.cluster.living):
            if host not in (leader, world.cluster[4]):
                world.cluster.wires.isolate(host.node_id)
        pending = asyncio.ensure_future(node_of(world.cluster, leader.node_id).propose(b"x"))
        await asyncio.sleep(0.05)
        error = await world.refused(pb.AddVoterRequest(node_id=4), leader.node_id)
        assert error.code in (errors_pb2.NOT_CONTROLLER, errors_pb2.QUORUM_CHANGE_NOT_NOW)
        assert world.changes == []
        pending.cancel()


@pytest.mark.parametrize(
    ("error", "code", "leader_id"),
    [
        (NotLeader(2), errors_pb2.NOT_CONTROLLER, 2),
        (NotLeader(None), errors_pb2.NOT_CONTROLLER, None),
        (ProposalReplaced("x"), errors_pb2.NOT_CONTROLLER, None),
        (ProposalLost("x"), errors_pb2.CONTROLLER_MOVED, None),
        (ChangeRefused("x"), errors_pb2.QUORUM_CHANGE_NOT_NOW, None),
        (TransferFailed("x"), errors_pb2.QUORUM_CHANGE_NOT_NOW, None),
        (InvalidChange("x"), errors_pb2.INVALID_QUORUM_CHANGE, None),
        (NodeStopped(), errors_pb2.UNAVAILABLE, None),
        (Overloaded("x"), errors_pb2.UNAVAILABLE, None),
    ],
)
def test_what_raft_refuses_has_a_meaning(error: Any, code: int, leader_id: int | None) -> None:
    refusal = refusal_of(error)
    assert (refusal.code, refusal.leader_id) == (code, leader_id)
    assert refusal.outcome_unknown == getattr(error, "outcome_unknown", False)
