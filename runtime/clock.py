"""A node's clock."""

import asyncio
import time
from time import time_ns as wall_ns  # for hot paths where one more call costs too much
from typing import Protocol

__all__ = ["Clock", "LoopClock", "until_beat_ms", "wall_ns"]


class Clock(Protocol):
    """Two readings and a wait. Measure durations with `monotonic_ms`; use `wall_ms` for display and timestamps."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 (UTC). May jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start. Never goes back."""
        ...

    def monotonic_seconds(self) -> float:
        """The monotonic time in full resolution: for measurements, not for decisions."""
        ...

    async def sleep_ms(self, duration_ms: float) -> None:
        """Return after `duration_ms` by this clock."""
        ...


def until_beat_ms(now_ms: int, period_ms: int) -> int:
    """Return the time until the next beat, from 1 ms to `period_ms`, for periodic work.

    All periodic work of a node shares the same beats, because waking up costs an idle node more than the work itself.
    """
    return period_ms - now_ms % period_ms


class LoopClock:
    """The running event loop's clock for durations, and the machine's wall clock."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1000)
