"""A client's own metrics: rates over a recent window, and latencies. The caller passes the time.

Made to be called per batch, not per record: adding is cheap, and reading does the rest of the work. Pure.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

RATE_WINDOW_MS = 10_000
"""The window over which `Rate` averages."""

_SLOT_MS = 500
_SAMPLES = 1024


@dataclass(frozen=True, slots=True)
class Latencies:
    """Percentiles of the latest samples, in milliseconds; all zero if there are none."""

    count: int = 0
    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


class Rate:
    """A total, and a rate over a recent window. Invariant: slots are ordered by time, and reads first drop those older
    than the window."""

    def __init__(self, now_ms: float, window_ms: int = RATE_WINDOW_MS) -> None:
        self.total = 0
        self._window_ms = window_ms
        self._began_ms = now_ms
        self._slots: deque[list[float]] = deque()  # [start, count]

    def add(self, count: int, now_ms: float) -> None:
        self.total += count
        start_ms = now_ms - now_ms % _SLOT_MS
        if self._slots and self._slots[-1][0] >= start_ms:
            self._slots[-1][1] += count
        else:
            self._forget(now_ms)
            self._slots.append([start_ms, count])

    def per_second(self, now_ms: float) -> float:
        """Return the rate over the window, or since creation if that is more recent."""
        self._forget(now_ms)
        span_ms = min(self._window_ms, now_ms - self._began_ms)
        # Right after creation, a tiny span would inflate the rate.
        return 1000 * sum(count for _, count in self._slots) / max(span_ms, _SLOT_MS)

    def _forget(self, now_ms: float) -> None:
        while self._slots and self._slots[0][0] <= now_ms - self._window_ms:
            self._slots.popleft()


class LatencySamples:
    """The latencies of the latest operations."""

    def __init__(self, samples: int = _SAMPLES) -> None:
        self._latest_ms: deque[float] = deque(maxlen=samples)
        self._count = 0

    def add(self, milliseconds: float) -> None:
        self._count += 1
        self._latest_ms.append(milliseconds)

    def summary(self) -> Latencies:
        if not self._latest_ms:
            return Latencies()
        ordered = sorted(self._latest_ms)
        p50, p90, p99 = (_share(ordered, share) for share in (0.5, 0.9, 0.99))
        return Latencies(self._count, p50, p90, p99, ordered[-1])


def _share(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
