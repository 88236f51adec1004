"""Requests of leaders to the controller for other ISRs, batched into one request at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lograft.broker.replication.isr_state import ProposeIsr
from lograft.metadata.decisions.partitions.alter_isr import Alteration
from lograft.metadata.image.partition import PartitionEpoch, PartitionKey
from lograft.proto.controller_pb2 import AlterPartitionsResponse
from lograft.proto.errors import ERRORS
from lograft.proto.errors_pb2 import ErrorCode
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

MAX_ALTERATIONS = 1000  # in one request


@dataclass(frozen=True, slots=True)
class Accepted:
    """The partition is now in that epoch; the image will have its new state."""

    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True)
class IsrRefused:
    """The request was not carried out, and never will be."""


@dataclass(frozen=True, slots=True)
class IsrOutcomeUnknown:
    """The request may have been carried out, or still may be."""


IsrAnswer: TypeAlias = Accepted | IsrRefused | IsrOutcomeUnknown


class IsrLeader(Protocol):
    """The leader that asked."""

    def isr_answered(self, proposal: ProposeIsr, answer: IsrAnswer) -> None: ...


Alter: TypeAlias = Callable[[Sequence[Alteration]], Awaitable[AlterPartitionsResponse]]


class IsrRequests:
    """Sends one request at a time, and batches proposals made meanwhile into the next. Each leader makes one proposal
    at a time, and gets an answer."""

    def __init__(self, alter: Alter) -> None:
        self._alter = alter
        self._waiting: dict[PartitionKey, tuple[ProposeIsr, IsrLeader]] = {}
        self._has_waiting = asyncio.Event()

    def ask(self, key: PartitionKey, proposal: ProposeIsr, leader: IsrLeader) -> None:
        """Queue a proposal. It replaces a waiting one for the same partition from an earlier epoch, whose leader gets
        no answer."""
        self._waiting[key] = (proposal, leader)
        self._has_waiting.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._has_waiting.wait()
            keys = list(self._waiting)[:MAX_ALTERATIONS]
            asked = [(key, *self._waiting.pop(key)) for key in keys]
            if not self._waiting:
                self._has_waiting.clear()
            answers = await self._ask_for([_alteration(key, proposal) for key, proposal, _ in asked])
            for (_, proposal, leader), answer in zip(asked, answers, strict=True):
                leader.isr_answered(proposal, answer)

    async def _ask_for(self, alterations: list[Alteration]) -> list[IsrAnswer]:
        try:
            response = await self._alter(alterations)
        except ControllerError as error:
            log.warning("isr_changes_failed", partitions=len(alterations), reason=error.message)
            return [_failure(error.code)] * len(alterations)
        if len(response.results) != len(alterations):
            return [IsrOutcomeUnknown()] * len(alterations)
        return [_answer(alteration, result) for alteration, result in zip(alterations, response.results, strict=True)]


def _alteration(key: PartitionKey, proposal: ProposeIsr) -> Alteration:
    return Alteration(*key, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)


def _answer(alteration: Alteration, result: AlterPartitionsResponse.Result) -> IsrAnswer:
    isr = [member.broker_id for member in alteration.isr]
    context = log.bind(topic_id=alteration.topic_id, partition=alteration.number, isr=isr)
    if result.HasField("error"):
        context.info("isr_change_refused", reason=result.error.message)
        return _failure(result.error.code)
    context.info("isr_changed", partition_epoch=result.partition_epoch)
    return Accepted(PartitionEpoch(result.partition_epoch))


def _failure(code: ErrorCode) -> IsrAnswer:
    """Return the answer for an error code. The outcome is unknown for codes of a later version."""
    return IsrRefused() if code in ERRORS and not ERRORS[code].outcome_unknown else IsrOutcomeUnknown()
