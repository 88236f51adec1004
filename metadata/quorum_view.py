"""The Raft node as the rest of a controller sees it: absent until the node takes part, and queried with retries."""

import asyncio
from collections.abc import Mapping
from typing import Any

from lograft.metadata.controller.services.quorum_service import missing_voters
from lograft.proto import errors_pb2
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.driver.observers import NodeObserver
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.errors import NotLeader, RaftError, ReadLost
from lograft.raft.interfaces import RaftStatus
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.retry import ExponentialWait, retrying

log = get_logger(__name__)

# Callers give up on a controller that is silent for 1.5 s, and close its connection.
_READ_INDEX_SECONDS = 1.2
_ASK_AGAIN_MS = 20


class Quorum:
    """Until `node` is set, no leader is known."""

    def __init__(self, member: Member, clock: Clock) -> None:
        self.node: RaftNode | None = None
        self._clock = clock
        self._waiting = RaftStatus(member, "waiting", 0, None, 0, 0, 0, 0, Configuration())

    def status(self) -> RaftStatus:
        return self.node.status() if self.node is not None else self._waiting

    async def propose(self, data: bytes) -> Any:
        return await self._started().propose(data)

    async def read_index(self) -> int:
        return await self._started().read_index()

    def _started(self) -> RaftNode:
        if self.node is None:
            raise NotLeader(None)
        return self.node

    async def latest_index(self) -> int:
        """Return an index by which everything committed anywhere before the call is applied here. Raise UNAVAILABLE if
        no leader is found in a while."""
        try:
            async with asyncio.timeout(_READ_INDEX_SECONDS):
                # `ReadLost` means that the leader changed, or that there is none, which is answered at once.
                wait = ExponentialWait(None, _ASK_AGAIN_MS, _ASK_AGAIN_MS)
                return await retrying(self._clock, wait, on=ReadLost)(self.read_index)
        except (TimeoutError, RaftError) as error:
            reason = str(error) or f"no answer within {_READ_INDEX_SECONDS} s"
            raise ControllerError(
                errors_pb2.UNAVAILABLE, f"the metadata quorum has no leader at the moment ({reason}): try again"
            ) from None


class VoterList(NodeObserver):
    """Warns of voters that this node's configuration does not list: after losing its disk, it would not ask them."""

    def __init__(self, quorum: Quorum, controllers: Mapping[int, str]) -> None:
        self._quorum = quorum
        self._controllers = controllers
        self._missing: tuple[Member, ...] = ()

    def leader_changed(self, leader: Member | None, term: int) -> None:
        self._look()

    def committed(self, index: int) -> None:
        self._look()

    def _look(self) -> None:
        missing = missing_voters(self._quorum.status().configuration, self._controllers)
        if missing != self._missing:
            self._missing = missing
            if missing:
                remedy = "list every voter in `controllers` on every node"
                log.warning("voters_not_listed", voters=[str(voter) for voter in missing], remedy=remedy)
