"""The Raft node as its controller sees it: perhaps not there yet, and asked with patience."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest
from support.raft_nodes import make_runtime, virtual

from lograft.metadata.quorum_view import Quorum, VoterList
from lograft.proto import errors_pb2
from lograft.raft.core.configuration import Configuration, Member, configuration
from lograft.raft.errors import NodeStopped, NotLeader, Overloaded, RaftError, ReadLost
from lograft.raft.interfaces import RaftStatus
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS

ME = Member(1, UUID(int=1))


class Node:
    """A Raft node that answers a read with the next of `outcomes`; with none left, never."""

    def __init__(self, *outcomes: int | RaftError) -> None:
        self.outcomes = list(outcomes)
        self.reads = 0
        self.configuration = Configuration()

    def status(self) -> RaftStatus:
        return RaftStatus(ME, "leader", 3, ME, 5, 5, 5, 0, self.configuration)

    async def propose(self, data: bytes) -> bytes:
        return data

    async def read_index(self) -> int:
        self.reads += 1
        if not self.outcomes:
            await asyncio.Event().wait()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, RaftError):
            raise outcome
        return outcome


def quorum(node: Node | None = None) -> Quorum:
    made = Quorum(ME, make_runtime(1).clock)
    made.node = cast(Any, node)
    return made


@virtual
async def test_before_the_node_takes_part_nobody_leads() -> None:
    waiting = quorum()
    status = waiting.status()
    assert (status.member, status.leader, status.role, status.configuration) == (ME, None, "waiting", Configuration())
    for ask in (waiting.propose(b"x"), waiting.read_index()):
        with pytest.raises(NotLeader) as caught:
            await ask
        assert caught.value.leader is None
    with pytest.raises(ControllerError) as refused:
        await waiting.latest_index()
    assert refused.value.code == errors_pb2.UNAVAILABLE


@virtual
async def test_once_it_takes_part_it_is_the_node_that_answers() -> None:
    here = quorum(Node(7))
    assert here.status().term == 3
    assert await here.propose(b"x") == b"x"
    assert await here.read_index() == 7


@virtual
async def test_a_read_that_was_lost_with_its_leader_is_asked_again() -> None:
    node = Node(ReadLost("changed"), ReadLost("changed"), 9)
    assert await quorum(node).latest_index() == 9
    assert node.reads == 3


@virtual
async def test_without_a_leader_it_is_asked_now_and_then_and_refused_before_the_caller_gives_up() -> None:
    node = Node(*[ReadLost("no leader")] * 1000)
    with pytest.raises(ControllerError, match="no leader") as caught:
        await quorum(node).latest_index()
    assert caught.value.code == errors_pb2.UNAVAILABLE
    assert caught.value.retriable
    assert 0.5 < asyncio.get_running_loop().time() < SILENCE_LIMIT_MS / 1000
    assert 10 < node.reads < 200


@virtual
async def test_a_question_that_nobody_answers_is_given_up() -> None:
    with pytest.raises(ControllerError, match="no answer within") as caught:
        await quorum(Node()).latest_index()
    assert caught.value.code == errors_pb2.UNAVAILABLE
    assert asyncio.get_running_loop().time() < SILENCE_LIMIT_MS / 1000


@pytest.mark.parametrize("make", [NodeStopped, lambda: Overloaded("too much")], ids=["stopped", "overloaded"])
def test_what_no_retry_here_can_help_is_refused_at_once(make: Callable[[], RaftError]) -> None:
    @virtual
    async def scenario() -> None:
        with pytest.raises(ControllerError) as caught:
            await quorum(Node(make())).latest_index()
        assert caught.value.code == errors_pb2.UNAVAILABLE
        assert asyncio.get_running_loop().time() == 0

    scenario()


@virtual
async def test_who_stops_waiting_is_not_told_that_there_is_no_leader() -> None:
    asking = asyncio.ensure_future(quorum(Node()).latest_index())
    await asyncio.sleep(0.1)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()


# -- voters that this node's configuration does not list


def voters(*node_ids: int) -> Configuration:
    return configuration(Member(node_id, UUID(int=node_id)) for node_id in node_ids)


@virtual
async def look_at(told_by: str, *configurations: Configuration) -> None:
    node = Node()
    here = quorum(node)
    voter_list = VoterList(here, {1: "c1:1", 2: "c2:1", 3: "c3:1"})
    for number, each in enumerate(configurations):
        node.configuration = each
        if told_by == "leader":
            voter_list.leader_changed(None, number)
        else:
            voter_list.committed(number)


@pytest.mark.parametrize("told_by", ["leader", "commit"])
@pytest.mark.parametrize(
    ("configurations", "named"),
    [
        ([voters(1, 2, 3)], []),
        ([voters(1, 2)], []),
        ([voters(1, 2, 3, 4)], [[4]]),
        ([voters(1, 2, 3), voters(1, 2, 3, 4), voters(1, 2, 3, 4)], [[4]]),
        ([voters(1, 4), voters(1, 4, 5), voters(1, 2, 3), voters(1, 4)], [[4], [4, 5], [4]]),
    ],
    ids=["all are listed", "more are listed", "one is not", "said once", "said for each change"],
)
def test_voters_that_are_not_listed_are_named_once(
    configurations: list[Configuration], named: list[list[int]], told_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        look_at(told_by, *configurations)
    said = [record for record in caplog.records if "voters_not_listed" in record.getMessage()]
    assert len(said) == len(named)
    for record, node_ids in zip(said, named, strict=True):
        for node_id in node_ids:
            assert str(Member(node_id, UUID(int=node_id))) in record.getMessage()
        assert "list every voter" in record.getMessage()
