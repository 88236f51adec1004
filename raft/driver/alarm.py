"""When the driver looks at its timers."""

import asyncio
from collections.abc import Callable

from lograft.runtime.clock import Clock


class Alarm:
    """Calls `ring` at a moment of the node's clock. Its one task belongs to the group it is given."""

    def __init__(self, group: asyncio.TaskGroup, clock: Clock, ring: Callable[[], None]) -> None:
        self._group = group
        self._clock = clock
        self._ring = ring
        self._wake_ms = 0
        self._task: asyncio.Task[None] | None = None

    def set(self, wake_ms: int) -> None:
        """Ring at `wake_ms`, or before that at a moment set earlier: then it is set anew."""
        if self._task is not None and self._wake_ms <= wake_ms:
            return
        self.stop()
        self._wake_ms = wake_ms
        self._task = self._group.create_task(self._sleep(), name="raft-alarm")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _sleep(self) -> None:
        await self._clock.sleep_ms(max(self._wake_ms - self._clock.monotonic_ms(), 0))
        self._task = None
        self._ring()
