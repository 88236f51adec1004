"""Clocks that are wrong on demand: the calendar jumps, and time passes faster or slower than it should.

For tests of whole clusters: see `fault_settings`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from lograft.runtime.clock import LoopClock
from lograft.runtime.faults.settings import FaultSwitch


class FaultyClock(LoopClock):
    """The calendar is as wrong as the switch says; of the loop's time, the loop sees to that."""

    def __init__(self, switch: FaultSwitch) -> None:
        self._switch = switch

    def wall_ms(self) -> int:
        return super().wall_ms() + self._switch.settings.wall_offset_ms


class _PacedTime:
    """Passes `rate` times as fast as `true_time`, from whatever it was when the rate changed: it never goes back."""

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
    """From now on the loop's time, and all its timers, go at this rate, which may change."""
    paced = _PacedTime(loop.time, rate)
    selector: Any = getattr(loop, "_selector", None)
    assert selector is not None, "only a loop with a selector can be told how long to wait"
    select = selector.select

    def paced_select(timeout: float | None = None) -> Any:
        return select(timeout if timeout is None else timeout / paced.rate)

    selector.select = paced_select
    loop.time = paced.now  # type: ignore[method-assign]
