"""Writes down what clients do as they do it: numbers operations, and says when."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from lograft.chaos.history.entries import NEVER_RETURNED, Completion, Done, Event, Failed, Moment, Operation, Unknown
from lograft.chaos.history.history import HistoryWriter
from lograft.clients.errors import LograftError
from lograft.runtime.clock import Clock


@dataclass(slots=True)
class Pending:
    """An operation under way. What is put into `completion` is what became of it."""

    number: int
    completion: Completion | None = None


@dataclass(slots=True)
class Recorder:
    """Of one process of the history: here that is one client, which does one thing after the other or several at
    once."""

    process: str
    writer: HistoryWriter
    clock: Clock
    _count: int = field(default=0, init=False)

    def now(self) -> Moment:
        return Moment(int(self.clock.monotonic_seconds() * 1_000_000), self.clock.wall_ms() * 1000)

    def begin(self, make: Callable[..., Operation], **fields: Any) -> int:
        """Its number."""
        number, self._count = self._count, self._count + 1
        operation = make(process=self.process, number=number, invoked=self.now(), completion=NEVER_RETURNED, **fields)
        self.writer.invoked(operation)
        return number

    def end(self, number: int, completion: Completion) -> None:
        self.writer.completed(self.process, number, completion)

    def happened(self, make: Callable[..., Event], **fields: Any) -> None:
        self.writer.happened(make(at=self.now(), **fields))

    @asynccontextmanager
    async def doing(self, make: Callable[..., Operation], **fields: Any) -> AsyncIterator[Pending]:
        """Around a call: how it ended is told, whatever it raises. A refusal is not raised again."""
        pending = Pending(self.begin(make, **fields))
        try:
            yield pending
        except LograftError as error:
            self.end(pending.number, self.failure(error))
            return
        self.end(pending.number, pending.completion or Done(self.now()))

    def failure(self, error: LograftError) -> Failed | Unknown:
        """What an error says of whether it happened."""
        if error.outcome_unknown:
            return Unknown(self.now(), error.code, error.message)
        return Failed(self.now(), error.code, error.message)
