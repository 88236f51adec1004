"""Interfaces for work that would block the event loop, and so runs off it."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
Operation = TypeVar("Operation", contravariant=True)


class Blocking(Protocol):
    """Runs single functions off the event loop: in a thread pool in production, inline in simulation."""

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run `function(*arguments)` off the event loop and return its result. It must not touch state that the loop
        may change meanwhile."""
        ...

    async def close(self) -> None:
        """Refuse new functions, and wait for running ones."""
        ...


class Worker(Protocol, Generic[Operation]):
    """Performs operations off the event loop, in order of submission; each round takes all that are waiting.

    Its factory takes `perform(operations) -> result`, which runs off the loop, and `completed(result)`, which runs on
    the loop afterwards, in the same order. Neither may raise: an exception there ends the node.
    """

    def submit(self, operation: Operation) -> None:
        """Queue `operation` and return at once."""
        ...

    async def close(self) -> None:
        """Wait until all submitted operations are performed and `completed` has been called for them."""
        ...


R = TypeVar("R")


class WorkerFactory(Protocol):
    """Creates a worker: a thread in production, delayed callbacks in simulation."""

    def __call__(self, name: str, perform: Callable[[list[Any]], R], completed: Callable[[R], None]) -> Worker[Any]: ...


async def run_to_end(
    blocking: Blocking, function: Callable[..., T], *arguments: Any, dispose: Callable[[T], None] | None = None
) -> T:
    """Call `run_blocking`, and return only after `function` has returned, even if the caller is cancelled.

    Use it for functions that must not outlive their caller, or whose failure must not be lost: a failure takes
    precedence over the cancellation. Pass the result of a cancelled call to `dispose`.
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
