"""The controller while this node leads the quorum: decides requests ahead of their commit, and answers after it.

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
    """An answer, and the log index by which everything it states is committed."""

    answer: T
    index: int


@dataclass(frozen=True, slots=True)
class ControllerLimits:
    """`max_waiting`: how many requests may wait for their outcome at once."""

    max_waiting: int = 1000


class Consensus(Protocol):
    """The part of `RaftNode` that the controller uses."""

    async def propose(self, data: bytes) -> Any: ...

    async def read_index(self) -> int: ...

    def status(self) -> RaftStatus: ...


class ActiveController(NodeObserver):
    """Decides requests one after the other, each on the image that all earlier ones will leave; none waits for the
    commit of earlier ones. An answer waits for its operation, and for all operations that the decision was based on.

    In office from the moment that this node has applied everything that earlier leaders committed, until it loses
    leadership. Its plans end with the office; a later leader commits the operations in flight, or not.

    Why no operation takes effect on a state that its decision did not see:

    - Operations are proposed in the order of their decisions, and are appended in the term of their decision or not at
      all: a node that must be elected again drains its waiting proposals before it can be.
    - Within a term nobody else appends. If an operation is refused, those decided on top of it find another sequence
      than they expect, and do nothing. Later decisions leave them out, and find the sequence that they expect.
    - An operation of unknown fate is never left out: one decided in its place could arrive at a matching sequence with
      the other one before it. So its fate is always awaited, even if no caller waits.
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
        """Carry operations through, until `close`; none is accepted before or after. If cancelled, their outcome is
        unknown."""
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
        """Accept no more operations. `run` returns when the fate of all proposed operations is known; close the node,
        too."""
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
        """The term of the office; None if another node holds it, or none."""
        return self._office.term if self._office is not None else None

    @property
    def image(self) -> ClusterImage:
        """The image, read-only: as all pending operations will leave it; out of office, as committed here."""
        return self._office.image if self._office is not None else self._machine.image

    @property
    def active_hint(self) -> int | None:
        """The id of the active controller, as far as this node knows."""
        status = self._node.status()
        if status.leader is None:
            return None
        # A leader that does not yet know everything committed before is about to be active.
        return status.leader.node_id if status.leader != status.member or self.is_active else None

    # -- what it does

    async def submit(self, decide: Decide[T]) -> Committed[T]:
        """Carry out the records that `decide` returns for the present image. Return its answer, or raise its error,
        once everything that the decision saw and did is committed.

        Otherwise raise `ControllerError`: NOT_CONTROLLER or UNAVAILABLE if nothing was done, CONTROLLER_MOVED if that
        is unknown, INVALID_REQUEST if the operation is too large. Cancelling the caller does not withdraw its
        operation.
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
        """Propose the operation and await its fate. This task is the controller's, not the caller's: a proposed
        operation must be followed to its end."""
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
        """Return when everything visible in the office's image is committed, with the index by which it is.

        The image must have been the newest, too. Pending operations do not prove that, because others may have accepted
        them long ago, before they elected another leader: a majority must confirm, from now on, that nobody else leads.
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
