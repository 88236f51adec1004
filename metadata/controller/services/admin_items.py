"""The items of a request, each with a decision and an operation of its own: they are proposed together, and a refused
item does not affect the others."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from lograft.metadata.controller.active_controller import Committed
from lograft.metadata.decisions.decision import Decide, Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import Operation
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import unknown_outcome
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

T = TypeVar("T")
Outcome: TypeAlias = T | ControllerError

# Of one request, and of all together: brokers, too, have things to ask of the controller.
MAX_IN_FLIGHT_OF_REQUEST = 64
MAX_IN_FLIGHT = 256

# What an item can be refused with that says nothing about the item: the whole request is for another controller, or
# for later.
_FAILS_ALL = (errors_pb2.NOT_CONTROLLER, errors_pb2.UNAVAILABLE, errors_pb2.CONTROLLER_MOVED)


class Submitter(Protocol):
    """The part of `ActiveController` that carries out items."""

    async def submit(self, decide: Decide[T]) -> Committed[T]: ...


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    answer: T
    has_changed: bool


class AdminItems:
    """Carries out the items of all requests."""

    def __init__(self, controller: Submitter) -> None:
        self._controller = controller
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def one(self, decide: Decide[T]) -> T:
        """Carry out one decision. Return its answer once it is committed."""
        return (await self._submit(decide)).answer

    async def rehearse_one(self, decide: Decide[T]) -> T:
        """Return the answer of a decision on the committed image, without changing anything."""
        return await self.one(lambda image: Decision((), decide(image).answer))

    async def each(self, decides: Sequence[Decide[T]]) -> list[Outcome[T]]:
        """Return the outcome of each item, in order; they are decided in that order, too.

        Raise errors that concern all items. If some were carried out by then, or may have been, that is
        CONTROLLER_MOVED.
        """
        outcomes: dict[int, _Done[T] | ControllerError] = {}
        failures: list[ControllerError] = []
        waiting = iter(enumerate(decides))

        async def work() -> None:
            for place, decide in waiting:
                try:
                    outcomes[place] = await self._submit(decide)
                except ControllerError as error:
                    if error.code in _FAILS_ALL:
                        failures.append(error)
                    outcomes[place] = error
                if failures:
                    return  # the outcome of items in flight decides which failure is reported

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(decides), MAX_IN_FLIGHT_OF_REQUEST)):
                group.create_task(work())
        if failures:
            raise _failure_of_all(failures, list(outcomes.values()))
        in_order = [outcomes[place] for place in range(len(decides))]
        return [outcome.answer if isinstance(outcome, _Done) else outcome for outcome in in_order]

    async def rehearse(self, decides: Sequence[Decide[T]]) -> list[Outcome[T]]:
        """Return what the outcome of each item would be, one after the other, on the committed image. Nothing is
        changed."""
        # On a copy, with pauses: thousands of decisions in one go would hold up the loop.
        image = await self.one(lambda image: Decision((), image.copy()))
        outcomes: list[Outcome[T]] = []
        for decide in decides:
            try:
                decision = _guarded(decide)(image)
            except ControllerError as error:
                outcomes.append(error)
                continue
            took_effect = image.apply_operation(Operation(image.sequence, decision.records))
            assert took_effect
            outcomes.append(decision.answer)
            await asyncio.sleep(0)
        return outcomes

    async def _submit(self, decide: Decide[T]) -> _Done[T]:
        async with self._in_flight:
            return (await self._controller.submit(_noting_change(_guarded(decide)))).answer


def _guarded(decide: Decide[T]) -> Decide[T]:
    """Turn a decision's bug into a refusal: it has changed nothing; and if this node died of it, so would the next one
    that gets the request."""

    def guarded(image: ClusterImage) -> Decision[T]:
        try:
            return decide(image)
        except ControllerError:
            raise
        except Exception as error:
            log.exception("admin_decision_failed")
            message = f"the controller failed to decide on this ({type(error).__name__}), and did nothing: see its log"
            raise ControllerError(errors_pb2.INTERNAL, message) from error

    return guarded


def _noting_change(decide: Decide[T]) -> Callable[[ClusterImage], Decision[_Done[T]]]:
    def noting(image: ClusterImage) -> Decision[_Done[T]]:
        decision = decide(image)
        return Decision(decision.records, _Done(decision.answer, bool(decision.records)))

    return noting


def _failure_of_all(failures: list[ControllerError], outcomes: Sequence[_Done[T] | ControllerError]) -> ControllerError:
    for failure in failures:
        if failure.outcome_unknown:
            return failure
    done = [outcome for outcome in outcomes if isinstance(outcome, _Done) and outcome.has_changed]
    if done:
        return unknown_outcome(f"{len(done)} items were carried out, but then: {failures[0].message}")
    return failures[0]
