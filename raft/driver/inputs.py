"""The bounded queue of inputs that wait while the driver is busy."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, TypeAlias

from lograft.raft.core.configuration import ConfigurationChange, Member
from lograft.raft.core.entries import ENTRY_OVERHEAD_BYTES, SnapshotMetadata
from lograft.raft.core.messages import Message
from lograft.raft.errors import Overloaded


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Bounds of the queue. Messages beyond them are dropped, which the protocol tolerates; proposals and reads are
    refused."""

    max_messages: int = 10_000
    max_proposals: int = 20_000
    max_proposal_bytes: int = 64 * 1024 * 1024
    max_reads: int = 20_000


@dataclass(frozen=True, slots=True)
class Received:
    message: Message


@dataclass(frozen=True, slots=True)
class ConnectionBroken:
    member: Member


@dataclass(frozen=True, slots=True)
class SnapshotReported:
    recipient: Member
    is_delivered: bool


@dataclass(frozen=True, slots=True)
class SnapshotSaved:
    """The node's own snapshot is durable."""

    metadata: SnapshotMetadata


@dataclass(frozen=True, slots=True)
class Propose:
    data: bytes
    answer: "asyncio.Future[Any]"

    @property
    def size_bytes(self) -> int:
        return ENTRY_OVERHEAD_BYTES + len(self.data)


@dataclass(frozen=True, slots=True)
class ChangeConfiguration:
    change: ConfigurationChange
    answer: "asyncio.Future[Any]"


@dataclass(frozen=True, slots=True)
class TransferLeadership:
    node_id: int
    answer: "asyncio.Future[None]"


@dataclass(frozen=True, slots=True)
class ReadIndex:
    answer: "asyncio.Future[int]"


Input: TypeAlias = (
    Received
    | ConnectionBroken
    | SnapshotReported
    | SnapshotSaved
    | Propose
    | ChangeConfiguration
    | TransferLeadership
    | ReadIndex
)


class InputQueue:
    """Inputs in their order of arrival. Sets `wake` when there is a reason to look."""

    def __init__(self, limits: NodeLimits) -> None:
        self._limits = limits
        self._inputs: deque[Input] = deque()
        self._messages = 0
        self._proposals = 0
        self._proposal_bytes = 0
        self._reads = 0  # unanswered
        self.dropped_messages = 0
        self.wake = asyncio.Event()

    def put(self, item: Input) -> None:
        """Add an input whose number is bounded anyway: by peers, snapshots or operators."""
        self._inputs.append(item)
        self.wake.set()

    def put_message(self, message: Message) -> None:
        if self._messages >= self._limits.max_messages:
            self.dropped_messages += 1
            return
        self._messages += 1
        self.put(Received(message))

    def put_proposal(self, proposal: Propose, appended: int, appended_bytes: int) -> None:
        """Add a proposal. Raise Overloaded if too many wait, here or (`appended`) for their commit. A lone one always
        fits."""
        waiting, waiting_bytes = self._proposals + appended, self._proposal_bytes + appended_bytes
        if waiting >= self._limits.max_proposals:
            raise Overloaded(f"{waiting} proposals wait already")
        if waiting and waiting_bytes + proposal.size_bytes > self._limits.max_proposal_bytes:
            raise Overloaded(f"{waiting_bytes} bytes of proposals wait already")
        self._proposals += 1
        self._proposal_bytes += proposal.size_bytes
        self.put(proposal)

    def put_read(self, read: ReadIndex) -> None:
        """Add a read. Raise Overloaded if too many wait, here or for the leader's answer."""
        if self._reads >= self._limits.max_reads:
            raise Overloaded(f"{self._reads} reads wait already")
        self._reads += 1
        read.answer.add_done_callback(self._read_ended)
        self.put(read)

    def _read_ended(self, answer: "asyncio.Future[int]") -> None:
        self._reads -= 1

    def __bool__(self) -> bool:
        return bool(self._inputs)

    def drain(self) -> deque[Input]:
        """Remove and return all inputs."""
        drained, self._inputs = self._inputs, deque()
        self._messages = self._proposals = self._proposal_bytes = 0
        return drained
