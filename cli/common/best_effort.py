"""Questions that are not worth a long wait: what adds to an answer should not keep it from being given."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from lograft.clients.errors import LograftError

T = TypeVar("T")

SOON_MS = 5000


async def ask_soon(question: Awaitable[T], within_ms: int = SOON_MS) -> tuple[T | None, str]:
    """The answer; or none, and why."""
    try:
        async with asyncio.timeout(within_ms / 1000):
            return await question, ""
    except TimeoutError:
        return None, f"no answer within {within_ms / 1000:g}s"
    except LograftError as error:
        return None, error.message
