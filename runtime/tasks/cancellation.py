"""Awaiting that never loses a cancellation: of one awaitable, and of tasks that race each other."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def keep_cancellation(awaitable: Awaitable[T]) -> T:
    """Await, and raise CancelledError if this task was asked to cancel meanwhile, whatever came of it.

    grpc.aio waits for tasks of its own, which take a cancellation meant for ours, and then end as if nothing had been;
    and what fails while a cancelled task cleans up takes its place. Where such a failure is survived, whoever cancelled
    would wait for ever. What was asked before counts for nothing here: cleaning up may take a while.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        result = await awaitable
    except Exception:
        if task.cancelling() > before:
            raise asyncio.CancelledError from None
        raise
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def until_first(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all at once until one of them returns; the others are cancelled, and have ended when this returns.

    None may raise but for a broken invariant, which comes out as a group.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        # Not left to the group's end: before Python 3.13, one that fails there leaves us marked as cancelled for good.
        await asyncio.wait(tasks)


async def until_first_ends(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all at once until one of them returns or raises; the others are cancelled, and have ended when this returns.

    Raise what the first that failed raised. A task group whose member fails just when it is cancelled forgets the
    cancellation, hence `keep_cancellation`.
    """
    try:
        await keep_cancellation(until_first(*coroutines))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
