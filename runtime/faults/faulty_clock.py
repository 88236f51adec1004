"""Clocks that are wrong on demand: the wall clock jumps, and time passes too fast or too slowly.

For tests of whole clusters: see `settings`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from lograft.runtime.clock import LoopClock
from lograft.runtime.faults.settings import FaultSwitch


class FaultyClock(LoopClock):
    """Shifts the wall clock by the switch's offset. `run_loop_at_rate` changes the rate of the event loop's time."""

    def __init__(self, switch: FaultSwitch) -> None:
        self._switch = switch

    def wall_ms(self) -> int:
        return super().wall_ms() + self._switch.settings.wall_offset_ms


class _PacedTime:
    """A time that passes `rate` times as fast as `true_time`. It continues from its value when the rate changes, so it
    never goes back."""

    def __init__(self, true_time: Callable[[], float], rate: Callable[[], float]) -> None:
        self._true_time = true_time
        self._wanted_rate = rate
        self.rate = 1.0
        self._true_base = self._base = true_time()

    def now(self) -> float:
        true_now = self._true_time()
        now = self._base + (true_now - self._true_base) * self.rate
        if (wanted := self._wanted_rate()) != self.rate:
            self._true_base, self._base, self.rate = true_now, now, wanted
        return now


def run_loop_at_rate(loop: asyncio.AbstractEventLoop, rate: Callable[[], float]) -> None:
    """Make the event loop's time, and all its timers, pass at this rate, which may change."""
    paced = _PacedTime(loop.time, rate)
    selector: Any = getattr(loop, "_selector", None)
    assert selector is not None, "only a loop with a selector can be told how long to wait"
    select = selector.select

    def paced_select(timeout: float | None = None) -> Any:
        return select(timeout if timeout is None else timeout / paced.rate)

    selector.select = paced_select
    loop.time = paced.now  # type: ignore[method-assign]
