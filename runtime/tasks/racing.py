"""Tasks of which the first to finish ends the others."""

import asyncio
from collections.abc import Coroutine
from typing import Any


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
