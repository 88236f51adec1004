"""Futures of callers that wait for entries this node appended as leader."""

import asyncio
from dataclasses import dataclass
from typing import Any

from lograft.raft.core.entries import Entry
from lograft.raft.errors import ProposalLost, ProposalReplaced, TransferFailed


@dataclass(frozen=True, slots=True)
class _Waiting:
    term: int
    answer: "asyncio.Future[Any]"
    size_bytes: int


class Proposals:
    """Proposals by index. The term distinguishes an entry from another leader's at the same index."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._terms: set[int] = set()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, index: int, term: int, answer: "asyncio.Future[Any]", size_bytes: int = 0) -> None:
        assert index not in self._waiting, f"two proposals at {index}"
        self._waiting[index] = _Waiting(term, answer, size_bytes)
        self.size_bytes += size_bytes
        self._terms.add(term)

    def applied(self, entry: Entry, result: Any) -> None:
        """Resolve the proposal of the committed `entry`, or fail the one it replaced at its index."""
        waiting = self._waiting.pop(entry.index, None)
        if waiting is None:
            return
        self.size_bytes -= waiting.size_bytes
        if waiting.term != entry.term:
            replaced = f"entry {entry.index} of term {waiting.term} gave way to one of term {entry.term}"
            _fail(waiting.answer, ProposalReplaced(replaced))
        elif not waiting.answer.done():
            waiting.answer.set_result(result)

    def keep_only(self, term: int | None) -> None:
        """Fail proposals of other terms than `term`, which this node leads (None: it does not lead). Their outcome is
        unknown."""
        if self._terms <= {term}:
            return
        self._terms &= {term}
        for index, waiting in list(self._waiting.items()):
            if waiting.term != term:
                del self._waiting[index]
                self.size_bytes -= waiting.size_bytes
                _fail(waiting.answer, ProposalLost("leadership was lost before the entry was committed"))

    def stop(self) -> None:
        for proposal in self._waiting.values():
            _fail(proposal.answer, ProposalLost("the node stopped before the entry was committed"))
        self._waiting.clear()
        self.size_bytes = 0


@dataclass(frozen=True, slots=True)
class _Handover:
    target: int
    term: int
    answer: "asyncio.Future[None]"


class Transfers:
    """Callers that wait for leadership to move."""

    def __init__(self) -> None:
        self._waiting: list[_Handover] = []

    def add(self, target: int, term: int, answer: "asyncio.Future[None]") -> None:
        self._waiting.append(_Handover(target, term, answer))

    def settle(self, term: int, leader: int | None, target: int | None) -> None:
        """Resolve callers: `leader` leads in `term` as far as this node knows; `target` is the one it hands over to, if
        any."""
        kept = []
        for handover in self._waiting:
            if leader is None or (handover.term == term and handover.target == target):
                kept.append(handover)
            elif handover.term != term and leader == handover.target:
                if not handover.answer.done():
                    handover.answer.set_result(None)
            else:
                _fail(handover.answer, TransferFailed(f"node {leader} leads, not {handover.target}"))
        self._waiting = kept

    def stop(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for handover in waiting:
            _fail(handover.answer, error)


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
