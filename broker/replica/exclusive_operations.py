"""Operations on a log that exclude each other and all appends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class ExclusiveOperations:
    """Runs one operation at a time, in order of request. Calls `became_idle` when the last one has finished."""

    def __init__(self, became_idle: Callable[[], None]) -> None:
        self._became_idle = became_idle
        self._lock = asyncio.Lock()
        self._count = 0

    @property
    def is_idle(self) -> bool:
        """Return True if no operation is running or waiting."""
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
        """Return when all operations requested so far have finished."""
        async with self._lock:
            pass
