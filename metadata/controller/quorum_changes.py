"""Changes of the quorum's members, each in the few steps that Raft takes one at a time.

Every change can be requested again: completed steps are not repeated, and a change that has begun is continued.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias
from uuid import UUID

from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorCode
from lograft.raft.bootstrap.start_register import remedy
from lograft.raft.core.configuration import (
    AddLearner,
    Configuration,
    ConfigurationChange,
    InvalidChange,
    Member,
    PromoteLearner,
    RemoveMember,
    changed,
)
from lograft.raft.errors import (
    ChangeRefused,
    NotLeader,
    ProposalLost,
    ProposalReplaced,
    RaftError,
    ReadLost,
    TransferFailed,
)
from lograft.raft.interfaces import RaftStatus
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.clock import Clock

# How long to wait for what a healthy quorum does at once, before saying that it does not.
PATIENCE_MS = 5000
_LOOK_EVERY_MS = 50


class QuorumNode(Protocol):
    """The part of `RaftNode` that changes use."""

    @property
    def member(self) -> Member: ...

    def status(self) -> RaftStatus: ...

    async def read_index(self) -> int: ...

    async def change_configuration(self, change: ConfigurationChange) -> Configuration: ...

    async def transfer_leadership(self, node_id: int) -> None: ...


class ConnectedMembers(Protocol):
    """The part of `RaftTransport` that changes use."""

    def connected_members(self) -> list[Member]: ...

    def refusal_of(self, member: Member) -> str | None: ...


WhoAnswers: TypeAlias = Callable[[int], Awaitable[Member | None]]
"""Another controller with the disk that it has now, as it says itself; None if it does not answer."""


class QuorumChange:
    """One change, made on the leader, to be complete by `deadline_ms` of the clock."""

    def __init__(
        self,
        quorum: QuorumNode,
        connections: ConnectedMembers,
        who_answers: WhoAnswers,
        controllers: Mapping[int, str],
        clock: Clock,
        deadline_ms: int,
    ) -> None:
        self._quorum = quorum
        self._connections = connections
        self._ask_who = who_answers
        self._controllers = controllers
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._patience_ms = min(deadline_ms, clock.monotonic_ms() + PATIENCE_MS)
        self._has_changed = False

    # -- what can be asked for

    async def add(self, node_id: int, directory_id: UUID | None) -> Configuration:
        """Make the node a voter, with the disk of that id, or with its present disk. It is a learner until it has
        caught up, because as a voter it would hold up commits until then."""
        await self._settle()
        self._check_listed(node_id)
        answering = await self._who_answers(node_id)
        voter = self._voter(node_id)
        if voter is not None and directory_id in (None, voter.directory_id) and answering in (None, voter):
            self._check_accepted(voter)
            return self._configuration
        member = await self._find(node_id, directory_id)
        if voter is not None:
            raise _invalid(
                f"node {node_id} votes with another disk, as {voter}: if that is lost, replace it (`quorum replace "
                f"{node_id}`, one node at a time); otherwise remove it first"
            )
        await self._make_learner(member)
        return await self._promote(member)

    async def remove(self, node_id: int, directory_id: UUID | None) -> Configuration:
        """Remove the member, with the disk of that id or with any. If it leads, another one takes over. A configured
        controller that is not a member counts as removed already."""
        await self._settle()
        found = [
            member
            for member in reversed(self._configuration.members)  # learners first: they count for nothing
            if member.node_id == node_id and directory_id in (None, member.directory_id)
        ]
        if not found and directory_id is None and node_id in self._controllers:
            return self._configuration
        if not found:
            raise _invalid(f"{_named(node_id, directory_id)} is not a member of the quorum: {self._listed_members()}")
        if self._configuration.voters == (found[-1],):
            raise _invalid(f"node {node_id} is the last voter: add another one first")
        for member in found:
            configuration = await self._remove(member)
        return configuration

    async def replace(self, node_id: int, directory_id: UUID | None) -> Configuration:
        """Make the node vote with the disk of that id, or with its present disk, and with no other.

        The new member catches up first, and then replaces the old one in two steps. Between them there is one voter
        less, which makes nothing worse: the old one, whose disk is lost, could not vote either.

        Only the node itself, asked now, can confirm that nothing is left to do: a connection may belong to its former
        process, whose death is not known yet.
        """
        await self._settle()
        self._check_listed(node_id)
        if not any(member.node_id == node_id for member in self._configuration.members):
            raise _invalid(
                f"node {node_id} is not a member of the quorum, and has nothing to replace: {self._listed_members()}; "
                f"to add it, use `quorum add {node_id}`"
            )
        member = await self._find(node_id, directory_id)
        voter = self._voter(node_id)
        if voter == member:
            await self._check_takes_part(voter)
            return self._configuration
        await self._make_learner(member)
        await self._catch_up(member)
        if voter is not None:
            await self._remove(voter)
        return await self._promote(member)

    async def transfer(self, node_id: int) -> None:
        """Transfer leadership to the voter."""
        self._status()
        if self._voter(node_id) is None:
            raise _invalid(f"node {node_id} is no voter, and cannot lead: {self._listed_members()}")
        try:
            await self._quorum.transfer_leadership(node_id)
        except TransferFailed as error:
            raise await self._why_it_does_not_lead(node_id, error) from None
        except RaftError as error:
            raise self._refusal(error) from None

    # -- steps

    async def _settle(self) -> None:
        """Wait until everything in the leader's log is committed and no other node leads: then its members are the
        members."""
        last_index = self._status().last_index
        while self._status().commit_index < last_index:
            await self._pause(self._patience_ms, _not_now("the quorum does not commit what came before"))
        while not await self._is_confirmed():
            await self._pause(self._patience_ms, _not_now("most voters do not answer"))

    async def _is_confirmed(self) -> bool:
        """Return whether a majority still accepts this node as the leader."""
        self._status()
        try:
            async with self._until(self._patience_ms):
                await self._quorum.read_index()
        except (TimeoutError, ReadLost):
            return False
        except RaftError as error:
            raise self._refusal(error) from None
        return True

    async def _find(self, node_id: int, directory_id: UUID | None) -> Member:
        """Return the node as it is connected now."""
        while (present := await self._who_answers(node_id)) is None:
            await self._pause(self._patience_ms, self._does_not_answer(node_id))
        if directory_id not in (None, present.directory_id):
            raise _invalid(
                f"node {node_id} has the disk {present.directory_id} now, not {directory_id}: leave the id out to take "
                "the one it has"
            )
        return present

    def _check_accepted(self, voter: Member) -> None:
        """Raise if its store is from the past: it must be emptied, because only another store may vote in its place."""
        refusal = self._connections.refusal_of(voter)
        if refusal is not None:
            raise _invalid(f"nothing was changed, and node {voter.node_id} does not vote: {refusal}")

    async def _check_takes_part(self, voter: Member) -> None:
        """Raise if the voter answers with the disk that it votes with, and yet sends nothing to the leader. It may have
        started just now, or another member refuses its store."""
        self._check_accepted(voter)
        while not self._is_reached(voter):
            await self._pause(self._patience_ms, _takes_no_part(voter))
            self._check_accepted(voter)

    async def _make_learner(self, member: Member) -> None:
        for other in self._configuration.learners:
            if other.node_id == member.node_id and other != member:
                await self._remove(other)
        if member not in self._configuration.learners:
            await self._change(AddLearner(member))

    async def _catch_up(self, member: Member) -> None:
        """A learner that stopped answering takes nobody's place, however much it had."""
        while self._match_index(member) < self._status().commit_index or self._is_silent(member):
            await self._pause(self._deadline_ms, self._still_learning(member))

    async def _promote(self, member: Member) -> Configuration:
        while True:
            try:
                return await self._try(PromoteLearner(member))
            except ChangeRefused:
                await self._pause(self._deadline_ms, self._still_learning(member))

    async def _remove(self, member: Member) -> Configuration:
        """Raft refuses it if most of those who stay were not heard of for a while. Broken connections show sooner; and
        once it is tried in vain, nothing can be committed until some of them are back."""
        while not changed(self._configuration, RemoveMember(member)).is_majority(self._is_reached):
            missing = [voter for voter in self._configuration.voters if voter != member and not self._is_reached(voter)]
            without = f"without {member} there would be no majority of voters that answer"
            await self._pause(self._patience_ms, _not_now(f"{without}: {_answer_not(missing)}"))
        return await self._change(RemoveMember(member))

    async def _change(self, change: ConfigurationChange) -> Configuration:
        while True:
            try:
                return await self._try(change)
            except ChangeRefused:
                await self._pause(self._patience_ms, _not_now("the members cannot change at the moment"))

    async def _try(self, change: ConfigurationChange) -> Configuration:
        try:
            configuration = await self._quorum.change_configuration(change)
        except ChangeRefused:
            raise
        except (RaftError, InvalidChange) as error:
            raise self._refusal(error) from None
        self._has_changed = True
        self._patience_ms = min(self._deadline_ms, self._clock.monotonic_ms() + PATIENCE_MS)
        return configuration

    async def _pause(self, until_ms: int, complaint: ControllerError) -> None:
        """A moment; the complaint if there is none left."""
        if self._clock.monotonic_ms() + _LOOK_EVERY_MS >= until_ms:
            raise self._begun(complaint, errors_pb2.TIMED_OUT)
        await self._clock.sleep_ms(_LOOK_EVERY_MS)

    def _until(self, deadline_ms: int) -> asyncio.Timeout:
        return asyncio.timeout(max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000)

    # -- how things are

    def _status(self) -> RaftStatus:
        """Return the leader's status."""
        status = self._quorum.status()
        if status.role != "leader":
            raise self._refusal(NotLeader(status.leader.node_id if status.leader is not None else None))
        return status

    @property
    def _configuration(self) -> Configuration:
        return self._status().configuration

    def _voter(self, node_id: int) -> Member | None:
        return next((voter for voter in self._configuration.voters if voter.node_id == node_id), None)

    async def _who_answers(self, node_id: int) -> Member | None:
        if node_id == self._quorum.member.node_id:
            return self._quorum.member
        try:
            async with self._until(self._deadline_ms):
                return await self._ask_who(node_id)
        except TimeoutError:
            return None

    def _is_reached(self, member: Member) -> bool:
        """Return whether it is connected, and was heard of: a paused process keeps its connections."""
        if member == self._quorum.member:
            return True
        return member in self._connections.connected_members() and not self._is_silent(member)

    def _is_silent(self, member: Member) -> bool:
        return member in self._status().unreachable

    def _match_index(self, member: Member) -> int:
        return self._status().match_indexes.get(member, 0)

    def _check_listed(self, node_id: int) -> None:
        if node_id not in self._controllers:
            raise _invalid(
                f"node {node_id} is not in `controllers`: list it there ({node_id}@host:port) in the settings of every "
                "node, and restart them one by one, so that they find it"
            )

    def _listed_members(self) -> str:
        members = ", ".join(str(member) for member in self._configuration.members)
        return f"the members are {members}"

    # -- refusals

    def _does_not_answer(self, node_id: int) -> ControllerError:
        return ControllerError(
            errors_pb2.QUORUM_CHANGE_NOT_NOW,
            f"node {node_id} does not answer at {self._controllers.get(node_id, 'any known address')}: start it, or "
            "check the address in `controllers`",
        )

    async def _why_it_does_not_lead(self, node_id: int, error: TransferFailed) -> ControllerError:
        answering = await self._who_answers(node_id) if node_id in self._controllers else None
        if answering is None:
            return self._does_not_answer(node_id)
        if answering not in self._configuration.voters:
            return _invalid(
                f"node {node_id} has lost the disk it votes with: replace it (`quorum replace {node_id}`, "
                "one node at a time)"
            )
        return self._refusal(error)

    def _still_learning(self, member: Member) -> ControllerError:
        status = self._status()
        remedy = "it does not answer, start it or check the network to it, and " if self._is_silent(member) else ""
        return ControllerError(
            errors_pb2.TIMED_OUT,
            f"node {member.node_id} is still learning, at {self._match_index(member)} of {status.commit_index}, and "
            f"does not vote yet: {remedy}ask again to continue it",
        )

    def _refusal(self, error: RaftError | InvalidChange) -> ControllerError:
        return self._begun(refusal_of(error), errors_pb2.CONTROLLER_MOVED)

    def _begun(self, refusal: ControllerError, code: ErrorCode) -> ControllerError:
        """Return the refusal for a change that may have begun: after the first step, "nothing was done" is false."""
        if not self._has_changed or refusal.outcome_unknown:
            return refusal
        return ControllerError(code, f"the change was begun, but then: {refusal.message}; ask again to continue it")


def refusal_of(error: RaftError | InvalidChange) -> ControllerError:
    """Translate a Raft node's refusal into an error for the caller."""
    match error:
        case InvalidChange():
            return _invalid(str(error))
        case NotLeader(leader=leader):
            who = f"node {leader} is" if leader is not None else "none is known at the moment"
            message = f"this node is not the active controller; {who}"
            return ControllerError(errors_pb2.NOT_CONTROLLER, message, leader_id=leader)
        case ProposalReplaced():
            return ControllerError(errors_pb2.NOT_CONTROLLER, f"{error}: ask the new one")
        case ProposalLost():
            return ControllerError(errors_pb2.CONTROLLER_MOVED, f"{error}: look at the members before you ask again")
        case ChangeRefused() | TransferFailed():
            return _not_now(str(error))
        case _:
            assert not error.outcome_unknown
            return ControllerError(errors_pb2.UNAVAILABLE, f"{error}: try another controller")


def _invalid(message: str) -> ControllerError:
    return ControllerError(errors_pb2.INVALID_QUORUM_CHANGE, message)


def _not_now(what: str) -> ControllerError:
    return ControllerError(
        errors_pb2.QUORUM_CHANGE_NOT_NOW,
        f"{what}: an earlier change may be under way, or too many voters down or behind; look (`describe quorum`), "
        "start them, and try again",
    )


def _takes_no_part(voter: Member) -> ControllerError:
    node_id = voter.node_id
    return ControllerError(
        errors_pb2.QUORUM_CHANGE_NOT_NOW,
        f"node {node_id} has the disk that it votes with, but the leader does not hear from it: its log and /readyz "
        f"say why. If its store is from the past: {remedy(node_id)}",
    )


def _answer_not(members: Sequence[Member]) -> str:
    nodes = " and ".join(f"node {member.node_id}" for member in members)
    return f"{nodes} {'does' if len(members) == 1 else 'do'} not answer"


def _named(node_id: int, directory_id: UUID | None) -> str:
    return f"node {node_id}" if directory_id is None else str(Member(node_id, directory_id))
