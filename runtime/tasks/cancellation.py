"""Awaiting without losing cancellations: one awaitable, or tasks that race each other."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def keep_cancellation(awaitable: Awaitable[T]) -> T:
    """Await, and raise CancelledError if this task was cancelled meanwhile, regardless of the outcome.

    grpc.aio waits for tasks of its own, which can swallow a cancellation meant for the caller's task; and an exception
    during the cleanup of a cancelled task replaces the cancellation. If a caller catches that, the canceller waits
    forever. Cancellations before the call do not count, because cleanup code may await.
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
    """Run all concurrently until one returns; cancel the others and wait until they have ended.

    None may raise, except for a broken invariant, which propagates as a group.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        # Wait here, not at the end of the group: before Python 3.13, a task that fails there leaves this task marked as
        # cancelled.
        await asyncio.wait(tasks)


async def until_first_ends(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all concurrently until one returns or raises; cancel the others and wait until they have ended.

    Raise the first failure. If a member of a task group fails just when the group is cancelled, the group forgets the
    cancellation, hence `keep_cancellation`.
    """
    try:
        await keep_cancellation(until_first(*coroutines))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
