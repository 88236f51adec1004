"""Sends the same request to several brokers concurrently."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from lograft.clients.errors import LograftError
from lograft.runtime.network import ConnectFailed


async def ask_each(broker_ids: Iterable[int], ask: Callable[[int], Awaitable[None]], within_ms: int) -> None:
    """Call `ask` for each broker. Skip brokers that are unreachable, refuse, or time out."""

    async def ask_one(broker_id: int) -> None:
        with contextlib.suppress(ConnectFailed, LograftError):
            await ask(broker_id)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_ms / 1000), asyncio.TaskGroup() as group:
            for broker_id in broker_ids:
                group.create_task(ask_one(broker_id))
