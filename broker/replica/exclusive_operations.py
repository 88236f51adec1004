"""Operations on one log that exclude each other, and everything that appends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class ExclusiveOperations:
    """One at a time, in the order they were asked for. `became_idle`: told when the last that waited is through."""

    def __init__(self, became_idle: Callable[[], None]) -> None:
        self._became_idle = became_idle
        self._lock = asyncio.Lock()
        self._count = 0

    @property
    def is_idle(self) -> bool:
        """No operation is under way or waits."""
        return self._count == 0

    @asynccontextmanager
    async def exclusively(self) -> AsyncIterator[None]:
        self._count += 1
        try:
            async with self._lock:
                yield
        finally:
            self._count -= 1
            if self._count == 0:
                self._became_idle()

    async def until_idle(self) -> None:
        """Return when those that were asked for before are through."""
        async with self._lock:
            pass
