"""The lag of the event loop: how late its timers fire."""

from collections import deque

from lograft.runtime.clock import Clock, until_beat_ms
from lograft.runtime.histogram import Histogram

_BEAT_MS = 500  # on the node's common beat, so that an idle node does not wake up only for this
_RECENT = 20  # measurements


class LoopLag:
    """Measures the lag twice a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent_seconds: deque[float] = deque([0.0], maxlen=_RECENT)
        self.seconds = Histogram()

    @property
    def worst_seconds(self) -> float:
        """The largest lag of the last ten seconds."""
        return max(self._recent_seconds)

    async def run(self) -> None:
        """Measure until cancelled."""
        clock = self._clock
        while True:
            delay_ms = until_beat_ms(clock.monotonic_ms(), _BEAT_MS)
            due_seconds = clock.monotonic_seconds() + delay_ms / 1000
            await clock.sleep_ms(delay_ms)
            late_seconds = max(clock.monotonic_seconds() - due_seconds, 0.0)
            self._recent_seconds.append(late_seconds)
            self.seconds.observe(late_seconds)
