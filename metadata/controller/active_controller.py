"""The controller while this node leads the quorum: decides on what is to come, and answers when it has come.

controller = ActiveController(node, machine)
node.observe(machine)
node.observe(controller)
group.create_task(controller.run())
committed = await controller.submit(lambda image: create_topic(image, request, rng))
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from lograft.metadata.controller.pending_operations import PendingOperation, PendingOperations
from lograft.metadata.decisions.decision import Decide
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.record_codec import encode_operation
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.proto import errors_pb2
from lograft.raft.driver.observers import NodeObserver
from lograft.raft.errors import (
    EntryTooLarge,
    NotLeader,
    Overloaded,
    ProposalLost,
    ProposalReplaced,
    RaftError,
    ReadLost,
)
from lograft.raft.interfaces import RaftStatus
from lograft.rpc.coded_error import ControllerError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Committed(Generic[T]):
    """The answer, and by which index of the log all that it says is committed."""

    answer: T
    index: int


@dataclass(frozen=True, slots=True)
class ControllerLimits:
    """`max_waiting`: how many requests may wait for their outcome at once."""

    max_waiting: int = 1000


class Consensus(Protocol):
    """What is needed of a `RaftNode`."""

    async def propose(self, data: bytes) -> Any: ...

    async def read_index(self) -> int: ...

    def status(self) -> RaftStatus: ...


class ActiveController(NodeObserver):
    """Requests are decided one after the other, each on the image as all before it will leave it; none waits for those
    before it to be committed. Answers wait: for the operation, and for all that it was decided on.

    In office from when all that earlier leaders committed is applied here until leadership is lost. With the office go
    all its plans; operations that were under way are committed by a later leader or not.

    Why nothing takes effect on a state that its decider did not see:

    - Operations are proposed in the order they are decided, and are appended in the term they were decided in or not at
      all: a node that has to be elected again takes in what waits for it before it can be.
    - Within a term nobody else appends. If one of them is refused, those decided on it find another sequence than they
      expect, and do nothing. What is decided next leaves them out, and finds what it expects.
    - An operation whose fate is not known is never left out: something decided in its place could end up at a sequence
      that is right, with the other before it. So it is followed to its end even if nobody waits for it any more.
    """

    def __init__(self, node: Consensus, machine: MetadataMachine, limits: ControllerLimits | None = None) -> None:
        self._node = node
        self._machine = machine
        self._limits = limits or ControllerLimits()
        self._office: PendingOperations | None = None
        self._group: asyncio.TaskGroup | None = None
        self._is_closing = asyncio.Event()
        self._in_flight: dict[PendingOperation, PendingOperations] = {}
        self._confirming = 0

    # -- life

    async def run(self) -> None:
        """Carry operations through, until `close`; none is accepted before or after. If cancelled, their outcome is not
        known."""
        assert self._group is None, "run twice"
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._is_closing.wait()
        finally:
            self._is_closing.set()
            for in_flight in list(self._in_flight):
                self._end(in_flight, _stopped())  # not even begun: else it had come to its end

    def close(self) -> None:
        """Accept no more. `run` returns when the fate of all that was proposed is known: close the node, too."""
        self._is_closing.set()

    def leadership_taken(self, term: int) -> None:
        assert self._office is None, f"term {term} begins in that of {self.term}"
        self._office = PendingOperations(term, self._machine)

    def leadership_lost(self, term: int) -> None:
        assert self.term == term, f"{term} ends in {self.term}"
        self._office = None

    # -- what it is

    @property
    def is_active(self) -> bool:
        return self._office is not None and self._group is not None and not self._is_closing.is_set()

    @property
    def term(self) -> int | None:
        """Of the office. None: another node has it, or none."""
        return self._office.term if self._office is not None else None

    @property
    def image(self) -> ClusterImage:
        """For reading: as all that is under way will leave it. Out of office: as it is committed here."""
        return self._office.image if self._office is not None else self._machine.image

    @property
    def active_hint(self) -> int | None:
        """The id of the node that is the active controller, as far as this one knows."""
        status = self._node.status()
        if status.leader is None:
            return None
        # Who leads, but does not yet know all that was committed before, is about to be.
        return status.leader.node_id if status.leader != status.member or self.is_active else None

    # -- what it does

    async def submit(self, decide: Decide[T]) -> Committed[T]:
        """Have carried out what `decide` makes of the image, here and now. Returns, or raises what `decide` raised,
        once all that it saw and did is committed.

        Else `ControllerError`: NOT_CONTROLLER or UNAVAILABLE: nothing was done; CONTROLLER_MOVED: that is not known;
        INVALID_REQUEST: too much for one operation. A caller that is cancelled leaves its operation where it is.
        """
        office, group = self._office, self._group
        if office is None or group is None or self._is_closing.is_set():
            raise self._not_controller()
        waiting = len(self._in_flight) + self._confirming
        if waiting >= self._limits.max_waiting:
            raise ControllerError(
                errors_pb2.UNAVAILABLE, f"{waiting} requests wait for the quorum already: try again in a moment"
            )
        try:
            decision = decide(office.image)
        except ControllerError:
            await self._confirm(office)
            raise
        if not decision.records:
            return Committed(decision.answer, await self._confirm(office))
        in_flight = office.begin(decision.records)
        self._in_flight[in_flight] = office
        group.create_task(self._carry_through(office, in_flight), name="metadata-operation")
        return Committed(decision.answer, _index_or_raise(await in_flight.wait()))

    async def _carry_through(self, office: PendingOperations, in_flight: PendingOperation) -> None:
        """Belongs to the controller, not to who asked: what was begun must be followed to its end."""
        outcome: int | ControllerError = _unknown("the controller stopped")
        try:
            outcome = await self._propose(office, in_flight)
        finally:
            self._end(in_flight, outcome)

    def _end(self, in_flight: PendingOperation, outcome: int | ControllerError) -> None:
        self._in_flight.pop(in_flight).end(in_flight, outcome)

    async def _propose(self, office: PendingOperations, in_flight: PendingOperation) -> int | ControllerError:
        if self._office is not office:
            return self._not_controller()
        try:
            # No await between the look at the office and the node's taking it: see the class.
            applied = await self._node.propose(encode_operation(in_flight.operation))
        except RaftError as error:
            return self._refusal(error)
        if not applied.took_effect:
            return _void()
        index: int = applied.index
        return index

    async def _confirm(self, office: PendingOperations) -> int:
        """Return when all that can be seen in the office's image now is committed: by that index.

        It must have been the newest there was, too. What is under way does not prove that, for others may have accepted
        it long ago, before they elected another leader: a majority has to say, from now on, that nobody else leads.
        """
        latest = office.latest
        self._confirming += 1
        try:
            index = await self._read_index(office)
            outcome = await latest.wait() if latest is not None else index
        finally:
            self._confirming -= 1
        if isinstance(outcome, ControllerError):
            raise _void() if self._office is office else self._not_controller()
        return max(index, outcome)

    async def _read_index(self, office: PendingOperations) -> int:
        try:
            index = await self._node.read_index()
        except RaftError as error:
            raise self._refusal(error) from None
        if self._office is not office:
            raise self._not_controller()
        return index

    # -- refusals

    def _not_controller(self, hint: int | None = None) -> ControllerError:
        hint = hint if hint is not None else self.active_hint
        who = f"node {hint} is" if hint is not None else "none is known at the moment"
        return ControllerError(
            errors_pb2.NOT_CONTROLLER, f"this node is not the active controller; {who}", leader_id=hint
        )

    def _refusal(self, error: RaftError) -> ControllerError:
        match error:
            case NotLeader(leader=leader):
                return self._not_controller(leader)
            case ProposalReplaced() | ReadLost():
                return self._not_controller()
            case ProposalLost():
                return _unknown(str(error))
            case EntryTooLarge():
                return ControllerError(
                    errors_pb2.INVALID_REQUEST, f"too much for one operation: {error}; ask for less at a time"
                )
            case Overloaded():
                return ControllerError(errors_pb2.UNAVAILABLE, f"the quorum does not keep up: {error}; try again")
            case _:
                assert not error.outcome_unknown
                return ControllerError(errors_pb2.UNAVAILABLE, f"{error}: try another controller")


def _index_or_raise(outcome: int | ControllerError) -> int:
    if isinstance(outcome, ControllerError):
        raise outcome
    return outcome


def _void() -> ControllerError:
    return ControllerError(
        errors_pb2.UNAVAILABLE, "a change that this was decided on did not come about, so nothing was done: try again"
    )


def _stopped() -> ControllerError:
    return ControllerError(errors_pb2.UNAVAILABLE, "the controller has stopped: try another one")


def _unknown(cause: str) -> ControllerError:
    return ControllerError(
        errors_pb2.CONTROLLER_MOVED, f"{cause}: it is not known whether the change was carried out; look before a retry"
    )
