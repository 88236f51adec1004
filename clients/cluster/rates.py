"""Figures of a client's own: how much a second lately, and how long things took. Pure; whoever counts says what time it
is.

Made for the paths of batches, not of records: an addition each, and all else when somebody asks. Pure.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

RATE_WINDOW_MS = 10_000
"""What `Rate` calls lately."""

_SLOT_MS = 500
_SAMPLES = 1024


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of the latest so many, in milliseconds; all zero when there was none."""

    count: int = 0
    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


class Rate:
    """Counts, in all and by when. Invariant: slots are in order of time, and none is older than the window when it is
    looked at."""

    def __init__(self, now_ms: float, window_ms: int = RATE_WINDOW_MS) -> None:
        self.total = 0
        self._window_ms = window_ms
        self._began_ms = now_ms
        self._slots: deque[list[float]] = deque()  # [its beginning, its count]

    def add(self, count: int, now_ms: float) -> None:
        self.total += count
        start_ms = now_ms - now_ms % _SLOT_MS
        if self._slots and self._slots[-1][0] >= start_ms:
            self._slots[-1][1] += count
        else:
            self._forget(now_ms)
            self._slots.append([start_ms, count])

    def per_second(self, now_ms: float) -> float:
        """Over the window, or since the beginning if that is less long ago."""
        self._forget(now_ms)
        span_ms = min(self._window_ms, now_ms - self._began_ms)
        # In the first moments a few would look like very many.
        return 1000 * sum(count for _, count in self._slots) / max(span_ms, _SLOT_MS)

    def _forget(self, now_ms: float) -> None:
        while self._slots and self._slots[0][0] <= now_ms - self._window_ms:
            self._slots.popleft()


class LatencySamples:
    """How long the latest took."""

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
