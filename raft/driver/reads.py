"""Callers that wait for a read index, and callers that wait for an index to be applied."""

import asyncio
import heapq
from dataclasses import dataclass

from lograft.raft.core.configuration import Member
from lograft.raft.errors import ReadLost
from lograft.runtime.rng import Rng

_FEW = 64


class AppliedWaiters:
    """Callers that wait until the state machine has applied an index."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, asyncio.Future[int]]] = []
        self._number = 0
        self._tidy_at = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, index: int, answer: "asyncio.Future[int]") -> None:
        """Resolve `answer` once `index` is applied."""
        if len(self._heap) >= self._tidy_at:
            self._forget_abandoned()
        self._number += 1
        heapq.heappush(self._heap, (index, self._number, answer))

    def applied(self, applied_index: int) -> None:
        while self._heap and self._heap[0][0] <= applied_index:
            index, _, answer = heapq.heappop(self._heap)
            if not answer.done():
                answer.set_result(index)

    def _forget_abandoned(self) -> None:
        """Drop abandoned callers, which would pile up while nothing is applied."""
        self._heap = [waiting for waiting in self._heap if not waiting[2].done()]
        heapq.heapify(self._heap)
        self._tidy_at = max(_FEW, 2 * len(self._heap))

    def stop(self, error: Exception) -> None:
        waiting, self._heap = self._heap, []
        for _, _, answer in waiting:
            if not answer.done():
                answer.set_exception(error)


@dataclass(frozen=True, slots=True)
class _Question:
    """Several reads that arrived together and share one request."""

    term: int
    leader: Member | None
    answers: "list[asyncio.Future[int]]"

    @property
    def is_abandoned(self) -> bool:
        return all(answer.done() for answer in self.answers)


class Reads:
    """Reads whose index is not known yet, by the id of the request to the leader."""

    def __init__(self, rng: Rng) -> None:
        # Start at a random id: an answer to an earlier process of this node may still be in flight, and would be too
        # old.
        self._next_id = rng.getrandbits(62)
        self._questions: dict[int, _Question] = {}

    def __len__(self) -> int:
        return len(self._questions)

    def ask(self, answers: "list[asyncio.Future[int]]", term: int, leader: Member | None) -> int:
        """Group the waiting reads into one request to `leader`, and return its id."""
        self._forget_abandoned()
        self._next_id += 1
        self._questions[self._next_id] = _Question(term, leader, answers)
        return self._next_id

    def answered(self, read_id: int, index: int | None, waiters: AppliedWaiters) -> None:
        """Move the readers on to wait until `index` is applied; fail them if it is None (the node asked does not lead).
        Repeated answers are ignored."""
        question = self._questions.pop(read_id, None)
        if question is None:
            return
        for answer in question.answers:
            if answer.done():
                continue
            if index is None:
                answer.set_exception(ReadLost("no leader answered"))
            else:
                waiters.add(index, answer)

    def keep_only(self, term: int, leader: Member | None) -> None:
        """Fail the requests sent to another leader, which will not answer."""
        for read_id, question in list(self._questions.items()):
            if (question.term, question.leader) != (term, leader):
                del self._questions[read_id]
                self._fail(question, ReadLost("the leader changed"))

    def stop(self, error: Exception) -> None:
        questions, self._questions = self._questions, {}
        for question in questions.values():
            self._fail(question, error)

    def _forget_abandoned(self) -> None:
        """Drop requests whose readers all gave up: a request may be lost on the way."""
        for read_id in [read_id for read_id, question in self._questions.items() if question.is_abandoned]:
            del self._questions[read_id]

    def _fail(self, question: _Question, error: Exception) -> None:
        for answer in question.answers:
            if not answer.done():
                answer.set_exception(error)
