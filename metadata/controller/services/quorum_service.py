"""The part of the public service `lograft.v1.Admin` that concerns the metadata quorum, on controllers."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from lograft.metadata.controller.quorum_changes import (
    ConnectedMembers,
    QuorumChange,
    QuorumNode,
    WhoAnswers,
    refusal_of,
)
from lograft.metadata.controller.services.admin_codec import read_optional_uuid
from lograft.metadata.controller.services.admin_handler import admin_handler, time_to_answer_ms
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.errors import NotLeader
from lograft.raft.interfaces import RaftStatus
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.network import Handler
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.deadline import answer_ms
from lograft.runtime.world import Runtime

log = get_logger(__name__)


# How long a silent voter's node is asked which store it has: a description waits for it.
_ASK_MS = 500


def _lost_store(node_id: int) -> str:
    return (
        f"node {node_id} runs with a new store, and has lost the one that it voted with; give it its vote again with "
        f"`lograft quorum replace {node_id}`; one node at a time: wait until that command has succeeded before you "
        "stop the next"
    )


def missing_voters(configuration: Configuration, controllers: Mapping[int, str]) -> tuple[Member, ...]:
    """Return the voters that this node cannot find, because its `controllers` do not list them."""
    return tuple(voter for voter in configuration.voters if voter.node_id not in controllers)


class QuorumService:
    """`quorum`: this node's Raft node, or None before there is one. Only the leader carries out changes; others name
    the leader. `who_answers`: another controller with the disk that it reports now; None if it does not answer.

    One change at a time: each takes several steps, between which another would find an intermediate state.
    """

    def __init__(
        self,
        runtime: Runtime,
        quorum: Callable[[], QuorumNode | None],
        connections: ConnectedMembers,
        who_answers: WhoAnswers,
        controllers: Mapping[int, str],
        cluster_id: str,
    ) -> None:
        self._clock = runtime.clock
        self._quorum = quorum
        self._connections = connections
        self._who_answers = who_answers
        self._controllers = controllers
        self._cluster_id = cluster_id
        self._under_way = ""

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers, by method."""
        served: tuple[tuple[str, Any, Any], ...] = (
            (methods.DESCRIBE_QUORUM, self._describe, pb.DescribeQuorumRequest),
            (methods.ADD_VOTER, self._add_voter, pb.AddVoterRequest),
            (methods.REMOVE_VOTER, self._remove_voter, pb.RemoveVoterRequest),
            (methods.REPLACE_VOTER, self._replace_voter, pb.ReplaceVoterRequest),
            (methods.TRANSFER_LEADERSHIP, self._transfer_leadership, pb.TransferLeadershipRequest),
        )
        return {name: admin_handler(answer, request, self._controllers) for name, answer, request in served}

    # -- looking

    async def _describe(self, request: pb.DescribeQuorumRequest) -> pb.DescribeQuorumResponse:
        status = self._node().status()
        if status.role != "leader":
            raise refusal_of(NotLeader(status.leader.node_id if status.leader is not None else None))
        return pb.DescribeQuorumResponse(
            cluster_id=self._cluster_id,
            leader_id=status.member.node_id,
            term=status.term,
            commit_index=status.commit_index,
            last_index=status.last_index,
            members=self._members(status.configuration, await self._lost_stores(status)),
        )

    async def _lost_stores(self, status: RaftStatus) -> dict[Member, str]:
        """Return why voters are silent whose nodes answer, but with another store than the one that votes."""
        silent = [voter for voter in status.configuration.voters if voter in status.unreachable]
        found: dict[Member, str] = {}

        async def ask(voter: Member) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ASK_MS / 1000):
                    present = await self._who_answers(voter.node_id)
                    if present not in (None, voter):
                        found[voter] = _lost_store(voter.node_id)

        async with asyncio.TaskGroup() as group:
            for voter in silent:
                group.create_task(ask(voter), name=f"ask-voter-{voter.node_id}")
        return found

    def _members(
        self, configuration: Configuration, lost: Mapping[Member, str] = MappingProxyType({})
    ) -> list[pb.QuorumMember]:
        status = self._node().status()
        return [
            pb.QuorumMember(
                node_id=member.node_id,
                directory_id=member.directory_id.bytes,
                address=self._controllers.get(member.node_id, ""),
                is_voter=member in configuration.voters,
                match_index=status.match_indexes.get(member) or None,  # 0: nothing was heard of it yet
                refusal=lost.get(member) or self._connections.refusal_of(member),
                silent_ms=0 if member == status.member else status.silences_ms.get(member),
                is_unreachable=member in status.unreachable,
            )
            for member in configuration.members
        ]

    # -- changing

    async def _add_voter(self, request: pb.AddVoterRequest) -> pb.QuorumChangeResponse:
        directory_id = read_optional_uuid(request.directory_id, "directory_id")
        with self._changing(request, f"adding node {request.node_id}") as change:
            return self._changed(await change.add(request.node_id, directory_id))

    async def _remove_voter(self, request: pb.RemoveVoterRequest) -> pb.QuorumChangeResponse:
        directory_id = read_optional_uuid(request.directory_id, "directory_id")
        with self._changing(request, f"removing node {request.node_id}") as change:
            return self._changed(await change.remove(request.node_id, directory_id))

    async def _replace_voter(self, request: pb.ReplaceVoterRequest) -> pb.QuorumChangeResponse:
        directory_id = read_optional_uuid(request.directory_id, "directory_id")
        with self._changing(request, f"replacing node {request.node_id}") as change:
            return self._changed(await change.replace(request.node_id, directory_id))

    async def _transfer_leadership(self, request: pb.TransferLeadershipRequest) -> pb.TransferLeadershipResponse:
        with self._changing(request, f"transferring leadership to node {request.node_id}") as change:
            await change.transfer(request.node_id)
        return pb.TransferLeadershipResponse(leader_id=request.node_id)

    def _changed(self, configuration: Configuration) -> pb.QuorumChangeResponse:
        return pb.QuorumChangeResponse(members=self._members(configuration))

    @contextmanager
    def _changing(self, request: Any, what: str) -> Iterator[QuorumChange]:
        quorum = self._node()
        if self._under_way:
            raise ControllerError(
                errors_pb2.QUORUM_CHANGE_NOT_NOW, f"{self._under_way} is not through yet: wait for that, and try again"
            )
        # Shorter than the handler's: what a change refuses at its end has to arrive before that time is over.
        deadline_ms = self._clock.monotonic_ms() + answer_ms(time_to_answer_ms(request))
        self._under_way = what
        try:
            log.info("quorum_change_begins", what=what)
            yield QuorumChange(
                quorum, self._connections, self._who_answers, self._controllers, self._clock, deadline_ms
            )
            log.info("quorum_change_done", what=what)
        except ControllerError as error:
            log.warning("quorum_change_failed", what=what, reason=error.message)
            raise
        finally:
            self._under_way = ""

    def _node(self) -> QuorumNode:
        quorum = self._quorum()
        if quorum is None:
            raise ControllerError(
                errors_pb2.UNAVAILABLE, "this controller does not take part in the quorum yet: ask another, or wait"
            )
        return quorum
