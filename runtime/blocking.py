"""Work that would block the loop, run off it."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
Operation = TypeVar("Operation", contravariant=True)


class Blocking(Protocol):
    """Runs single functions off the loop: a thread pool in production, inline in simulation."""

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run `function(*arguments)` off the loop and return its result. It must not touch state that the loop changes
        meanwhile."""
        ...

    async def close(self) -> None:
        """Wait for running functions; refuse new ones."""
        ...


class Worker(Protocol, Generic[Operation]):
    """Performs operations off the loop, in the order of their submission, all that wait at once.

    Its factory takes `perform(operations) -> result`, which runs off the loop, and `completed(result)`, which runs on
    the loop afterwards, in the same order. Neither may raise: an exception there ends the node.
    """

    def submit(self, operation: Operation) -> None:
        """Queue `operation` and return at once."""
        ...

    async def close(self) -> None:
        """Wait until every submitted operation is performed and `completed` was called for it."""
        ...


R = TypeVar("R")


class WorkerFactory(Protocol):
    """Makes a worker: a thread in production, delayed callbacks in simulation."""

    def __call__(self, name: str, perform: Callable[[list[Any]], R], completed: Callable[[R], None]) -> Worker[Any]: ...


async def run_to_end(
    blocking: Blocking, function: Callable[..., T], *arguments: Any, dispose: Callable[[T], None] | None = None
) -> T:
    """Like `run_blocking`, but return only after `function` has: a cancelled caller waits for it first.

    Use it for functions that must not outlive their caller, or whose failure must not be lost: a failure takes
    precedence over the cancellation. The result of a cancelled call is passed to `dispose`.
    """
    work = asyncio.ensure_future(blocking.run_blocking(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not work.cancelled():
            await asyncio.wait([work])
        if not work.cancelled():
            result = work.result()
            if dispose is not None:
                dispose(result)
        raise
