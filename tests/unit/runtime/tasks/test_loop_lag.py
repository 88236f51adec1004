"""How late a loop is."""

import asyncio
import contextlib

import pytest

from lograft.runtime.histogram import Histogram
from lograft.runtime.tasks.loop_lag import LoopLag


class LateClock:
    """A clock whose sleeps end late, each by as much as was said; then never."""

    def __init__(self, *late_ms: int) -> None:
        self._late_ms = list(late_ms)
        self._now_ms = 100.0

    def wall_ms(self) -> int:
        raise AssertionError

    def monotonic_ms(self) -> int:
        return int(self._now_ms)

    def monotonic_seconds(self) -> float:
        return self._now_ms / 1000

    async def sleep_ms(self, duration_ms: float) -> None:
        if not self._late_ms:
            raise asyncio.CancelledError
        self._now_ms += duration_ms + self._late_ms.pop(0)


async def measured(*late_ms: int) -> LoopLag:
    lag = LoopLag(LateClock(*late_ms))
    with contextlib.suppress(asyncio.CancelledError):
        await lag.run()
    return lag


def test_the_worst_of_the_last_ten_seconds_is_told() -> None:
    lag = asyncio.run(measured(3, 200, 1))
    assert lag.worst_seconds == pytest.approx(0.2)
    assert lag.seconds.count == 3
    assert lag.seconds.sum == pytest.approx(0.204)
    assert asyncio.run(measured(200, *[1] * 20)).worst_seconds == pytest.approx(0.001)


def test_a_value_counts_at_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert (histogram.count, histogram.sum) == (5, 7.5)
