"""Records clients' operations as they happen, with numbers and times."""

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
    """An operation in flight. Its client sets `completion` to the result."""

    number: int
    completion: Completion | None = None


@dataclass(slots=True)
class Recorder:
    """The recorder of one process of the history: one client, which may run operations one by one or concurrently."""

    process: str
    writer: HistoryWriter
    clock: Clock
    _count: int = field(default=0, init=False)

    def now(self) -> Moment:
        return Moment(int(self.clock.monotonic_seconds() * 1_000_000), self.clock.wall_ms() * 1000)

    def begin(self, make: Callable[..., Operation], **fields: Any) -> int:
        """Record the call. Return the operation's number."""
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
        """Wrap a call and record its end. A `LograftError` is recorded and suppressed; any other exception leaves the
        operation without an end."""
        pending = Pending(self.begin(make, **fields))
        try:
            yield pending
        except LograftError as error:
            self.end(pending.number, self.failure(error))
            return
        self.end(pending.number, pending.completion or Done(self.now()))

    def failure(self, error: LograftError) -> Failed | Unknown:
        """Return the completion that states whether the failed operation may have taken effect."""
        if error.outcome_unknown:
            return Unknown(self.now(), error.code, error.message)
        return Failed(self.now(), error.code, error.message)
