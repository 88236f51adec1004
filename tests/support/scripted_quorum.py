"""A Raft node whose every step a test decides on, and decisions that are easy to follow."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from lograft.metadata.controller.active_controller import ActiveController, ControllerLimits
from lograft.metadata.decisions.decision import Decide, Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import TopicId
from lograft.metadata.image.record_codec import encode_operation
from lograft.metadata.image.records import Operation, Record, TopicCreated
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.proto import errors_pb2
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.driver.observers import NodeObserver, Observers
from lograft.raft.errors import NotLeader, ProposalLost, RaftError, ReadLost
from lograft.raft.interfaces import RaftStatus
from lograft.rpc.coded_error import ControllerError

Waiting = tuple[bytes, "asyncio.Future[Any]"]


class ScriptedNode:
    """Keeps to the contract of a `RaftNode`; takes in, commits, refuses and forgets only when told.

    `queued` are proposals that wait for the node, `appended` those that are in its log and not committed.
    """

    def __init__(self, machine: MetadataMachine, node_id: int = 1) -> None:
        self.member = Member(node_id, UUID(int=node_id))
        self.machine = machine
        self.observers = Observers()
        self.observers.add(machine)
        self.term = 0
        self.leader: Member | None = None
        self.index = 0
        self.queued: list[Waiting] = []
        self.appended: list[Waiting] = []
        self.reads: list[asyncio.Future[int]] = []
        self.refuses_with: RaftError | None = None

    def observe(self, observer: NodeObserver) -> None:
        self.observers.add(observer)

    # -- what the controller asks

    async def propose(self, data: bytes) -> Any:
        if self.refuses_with is not None:
            raise self.refuses_with
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.queued.append((data, answer))
        return await answer

    async def read_index(self) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.reads.append(answer)
        return await answer

    def status(self) -> RaftStatus:
        role = "leader" if self.leader == self.member else "follower"
        return RaftStatus(
            self.member, role, self.term, self.leader, self.index, self.index, self.index, 0, Configuration()
        )

    # -- what the test decides

    def lead(self) -> None:
        """Elected; its first entry is committed."""
        self.term += 1
        self.leader = self.member
        self.index += 1
        self.observers.committed(self.index)
        self.observers.leadership_taken(self.term)

    def lose(self, to: int | None = None, surviving: int = 0) -> None:
        """Another leads. It has `surviving` of the entries that were appended, and commits them."""
        self.observers.leadership_lost(self.term)
        self.leader = Member(to, UUID(int=to)) if to is not None else None
        self.refuse_queued(NotLeader(to))
        for read in self.reads:
            _fail(read, ReadLost("the leader changed"))
        self.reads.clear()
        appended, self.appended = self.appended, []
        for _, answer in appended:
            _fail(answer, ProposalLost("leadership was lost"))
        for data, _ in appended[:surviving]:
            self._apply(data)
        self.observers.committed(self.index)

    def take_in(self) -> None:
        self.appended += [waiting for waiting in self.queued if not waiting[1].done()]
        self.queued = []

    def refuse_queued(self, error: RaftError) -> None:
        queued, self.queued = self.queued, []
        for _, answer in queued:
            _fail(answer, error)

    def commit(self, count: int | None = None) -> None:
        """The first `count` of what was appended; None: all that is there, queued or appended."""
        if count is None:
            self.take_in()
        committed, self.appended = self.appended[:count], self.appended[len(self.appended[:count]) :]
        for data, answer in committed:
            result = self._apply(data)
            if not answer.done():
                answer.set_result(result)
        if committed:
            self.observers.committed(self.index)

    def commit_of_others(self, *records: Record) -> None:
        """What another leader did."""
        self._apply(encode_operation(Operation(self.machine.image.sequence, records)))
        self.observers.committed(self.index)

    def answer_reads(self) -> None:
        for read in self.reads:
            if not read.done():
                read.set_result(self.index)
        self.reads.clear()

    def _apply(self, data: bytes) -> Any:
        self.index += 1
        return self.machine.apply(self.index, data)


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


# -- decisions


def name_topic(name: str, number: int) -> Decide[TopicId]:
    """Create topic `name` with the id of that number. Refused if the name is taken; the message is by which number."""

    def decide(image: ClusterImage) -> Decision[TopicId]:
        existing = image.topic_ids.get(name)
        if existing is not None:
            raise ControllerError(errors_pb2.TOPIC_ALREADY_EXISTS, str(existing.int))
        topic_id = TopicId(UUID(int=number))
        return Decision((TopicCreated(topic_id, name),), topic_id)

    return decide


def list_names(image: ClusterImage) -> Decision[list[str]]:
    return Decision((), sorted(image.topic_ids))


# -- a controller on such a node


class Office:
    def __init__(self, limits: ControllerLimits | None = None) -> None:
        self.machine = MetadataMachine()
        self.node = ScriptedNode(self.machine)
        self.controller = ActiveController(self.node, self.machine, limits)
        self.node.observe(self.controller)
        self._tasks: list[asyncio.Task[Any]] = []

    def submit(self, decide: Decide[Any]) -> "asyncio.Task[Any]":
        """Begun as soon as the test waits for anything."""
        task = asyncio.ensure_future(self.controller.submit(decide))
        self._tasks.append(task)
        return task

    async def submitted(self, *decisions: Decide[Any]) -> "list[asyncio.Task[Any]]":
        """Each decided in its turn, and on its way."""
        tasks = [self.submit(decide) for decide in decisions]
        await settle()
        return tasks


@asynccontextmanager
async def in_office(limits: ControllerLimits | None = None) -> AsyncIterator[Office]:
    """A controller that runs, on a node that leads."""
    office = Office(limits)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(office.controller.run())
        await settle()
        office.node.lead()
        yield office
        for task in office._tasks:
            task.cancel()
        running.cancel()


async def settle() -> None:
    """Until all that can happen by itself has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


async def refusal(task: "asyncio.Task[Any]") -> ControllerError:
    """The error that comes of it, now."""
    await settle()
    assert task.done(), "not answered"
    error = task.exception()
    assert isinstance(error, ControllerError), error
    return error
