"""Cancellation that somebody swallows is raised all the same."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

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
