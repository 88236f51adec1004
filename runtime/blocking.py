"""Work that would hold up the loop, done beside it."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
Operation = TypeVar("Operation", contravariant=True)


class Blocking(Protocol):
    """Runs single functions off the loop: a thread pool in production, inline in simulation."""

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """`function(*arguments)`, run beside the loop. It must not touch what the loop is changing meanwhile."""
        ...

    async def close(self) -> None:
        """Wait for what is running; refuse anything new."""
        ...


class Worker(Protocol, Generic[Operation]):
    """Performs operations in the order they were submitted, beside the loop, as many at once as are waiting.

    It is made with `perform(operations) -> result`, which runs off the loop, and `completed(result)`, which runs on
    the loop afterwards, in the same order. Neither may raise: an exception there ends the node.
    """

    def submit(self, operation: Operation) -> None:
        """Queue `operation` and return at once."""
        ...

    async def close(self) -> None:
        """Return when all that was submitted is performed and `completed` was called for it."""
        ...


R = TypeVar("R")


class WorkerFactory(Protocol):
    """Makes a worker: a thread in production, delayed callbacks in simulation."""

    def __call__(self, name: str, perform: Callable[[list[Any]], R], completed: Callable[[R], None]) -> Worker[Any]: ...


async def run_to_end(
    blocking: Blocking, function: Callable[..., T], *arguments: Any, dispose: Callable[[T], None] | None = None
) -> T:
    """As `run_blocking`, but returns only when `function` has: a caller that is cancelled waits for it first.

    For what must not go on behind its caller's back, or whose failure must not be lost: if it failed, that comes
    instead of the cancellation. A result that nobody gets is given to `dispose`.
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
