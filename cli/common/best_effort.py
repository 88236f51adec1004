"""Bound the wait for optional parts of an answer, so that they do not delay the rest."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from lograft.clients.errors import LograftError

T = TypeVar("T")

SOON_MS = 5000


async def ask_soon(question: Awaitable[T], within_ms: int = SOON_MS) -> tuple[T | None, str]:
    """Return the result and an empty string, or None and the reason."""
    try:
        async with asyncio.timeout(within_ms / 1000):
            return await question, ""
    except TimeoutError:
        return None, f"no answer within {within_ms / 1000:g}s"
    except LograftError as error:
        return None, error.message
