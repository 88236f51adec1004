"""Requests of the application to a leader: handed to the core, and answered when the outcome is known."""

from typing import Any

from lograft.raft.core.configuration import InvalidChange
from lograft.raft.core.entries import Entry
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.roles import Leader
from lograft.raft.driver.inputs import ChangeConfiguration, Propose, TransferLeadership
from lograft.raft.driver.proposals import Proposals, Transfers
from lograft.raft.errors import ChangeRefused, NodeStopped, NotLeader, TransferFailed


class Requests:
    """Skips requests whose callers were cancelled before their turn."""

    def __init__(self, core: RaftCore) -> None:
        self._core = core
        self._proposals = Proposals()
        self._transfers = Transfers()

    @property
    def appended(self) -> int:
        """The number of proposals that wait for their commit."""
        return len(self._proposals)

    @property
    def appended_bytes(self) -> int:
        return self._proposals.size_bytes

    def propose(self, request: Propose) -> None:
        if request.answer.done():
            return
        index = self._core.propose(request.data)
        if index is None:
            request.answer.set_exception(self._not_leader())
        else:
            self._proposals.add(index, self._core.term, request.answer, request.size_bytes)

    def change_configuration(self, request: ChangeConfiguration) -> None:
        if request.answer.done():
            return
        try:
            index = self._core.change_configuration(request.change)
        except InvalidChange as error:
            request.answer.set_exception(error)
            return
        if index is not None:
            self._proposals.add(index, self._core.term, request.answer)
        elif self._led_term is None or self._transfer_target is not None:
            request.answer.set_exception(self._not_leader())
        else:
            request.answer.set_exception(ChangeRefused(f"not now: {request.change}"))

    def transfer_leadership(self, request: TransferLeadership) -> None:
        core, answer = self._core, request.answer
        if answer.done():
            return
        targets = [voter for voter in core.configuration.voters if voter.node_id == request.node_id]
        if self._led_term is None:
            answer.set_exception(self._not_leader())
        elif request.node_id == core.member.node_id:
            answer.set_result(None)
        elif targets and core.transfer_leadership(targets[0]):
            self._transfers.add(request.node_id, core.term, answer)
        else:
            answer.set_exception(TransferFailed(f"node {request.node_id} is not a voter"))

    def applied(self, entry: Entry, result: Any) -> None:
        """Resolve the caller of the committed `entry` with its result."""
        self._proposals.applied(entry, result)

    def settle(self) -> None:
        """Fail the requests that this node can no longer serve."""
        core = self._core
        self._proposals.keep_only(self._led_term)
        self._transfers.settle(core.term, core.leader.node_id if core.leader else None, self._transfer_target)

    def stop(self) -> None:
        self._proposals.stop()
        self._transfers.stop(NodeStopped())

    def _not_leader(self) -> NotLeader:
        """Return NotLeader with a hint: the leader this node follows or hands over to."""
        leader, target = self._core.leader, self._transfer_target
        if target is None and leader is not None and leader != self._core.member:
            target = leader.node_id
        return NotLeader(target)

    @property
    def _led_term(self) -> int | None:
        return self._core.term if isinstance(self._core.role, Leader) else None

    @property
    def _transfer_target(self) -> int | None:
        role = self._core.role
        transfer = role.transfer if isinstance(role, Leader) else None
        return transfer.target.node_id if transfer is not None else None
