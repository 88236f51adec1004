"""When the driver looks at its timers."""

import asyncio
from collections.abc import Callable

from lograft.runtime.clock import Clock

_SETTLE_MS = 20


class PatientTimer:
    """Says when a deadline is really due. Pure.

    A deadline noticed late means that the loop stood still, and what arrived meanwhile is not read yet, the word of a
    healthy leader perhaps. So then there is a while to read it first: it may move the deadline.
    """

    def __init__(self, stall_ms: int) -> None:
        self._stall_ms = stall_ms
        self._late_deadline_ms = -1
        self._settled_ms = 0

    def is_due(self, deadline_ms: int, now_ms: int) -> bool:
        if now_ms < deadline_ms:
            return False
        if now_ms - deadline_ms > self._stall_ms and self._late_deadline_ms != deadline_ms:
            self._late_deadline_ms = deadline_ms
            self._settled_ms = now_ms + _SETTLE_MS
        return now_ms >= self.wake_ms(deadline_ms)

    def wake_ms(self, deadline_ms: int) -> int:
        """When to ask again at the latest."""
        return self._settled_ms if self._late_deadline_ms == deadline_ms else deadline_ms


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
