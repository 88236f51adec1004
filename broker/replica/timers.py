"""Alarms that share one timer."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from lograft.runtime.clock import Clock
from lograft.runtime.tasks.cancellation import until_first


class ReplicaTimers:
    """Calls each alarm once, from `run`, at its time on the monotonic clock or slightly later. Alarms cannot be
    cancelled: a callback that is no longer needed must do nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = count()
        self._is_sooner = asyncio.Event()

    def ring_at(self, when_ms: int, ring: Callable[[], None]) -> None:
        if not self._heap or when_ms < self._heap[0][0]:
            self._is_sooner.set()
        heapq.heappush(self._heap, (when_ms, next(self._count), ring))

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._is_sooner.clear()
            if not self._heap:
                await self._is_sooner.wait()
                continue
            delay_ms = self._heap[0][0] - self._clock.monotonic_ms()
            if delay_ms > 0:
                await until_first(self._is_sooner.wait(), self._clock.sleep_ms(delay_ms))
                continue
            heapq.heappop(self._heap)[2]()
