"""Timeouts for silent peers, because a stopped process keeps its sockets open."""

from lograft.runtime.clock import Clock

_SETTLE_MS = 20


class PatientTimer:
    """Decides when a deadline is due, on an event loop that may stall. Pure.

    If a deadline is noticed late, the loop has stalled, and has not read messages that arrived meanwhile, perhaps from
    a healthy leader. Then allow some time to read them first, which may move the deadline.
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
        """Return the latest time to check again."""
        return self._settled_ms if self._late_deadline_ms == deadline_ms else deadline_ms


SILENCE_LIMIT_MS = 1500
"""Both ends of an open stream send something every 500 ms."""

_BEAT_MS = 500
_STALL_MS = 100


class Silence:
    """Measures how long the other end has been silent, starting at its creation."""

    def __init__(self, clock: Clock, limit_ms: int = SILENCE_LIMIT_MS) -> None:
        self._clock = clock
        self.limit_ms = limit_ms
        self._heard_ms = clock.monotonic_ms()

    def heard(self) -> None:
        self._heard_ms = self._clock.monotonic_ms()

    @property
    def lasted_ms(self) -> int:
        return self._clock.monotonic_ms() - self._heard_ms

    async def too_long(self) -> None:
        """Return after a silence of `limit_ms`. After a stall of the event loop, first allow time to read messages that
        arrived meanwhile."""
        timer = PatientTimer(_STALL_MS)
        while True:
            deadline_ms, now_ms = self._heard_ms + self.limit_ms, self._clock.monotonic_ms()
            if timer.is_due(deadline_ms, now_ms):
                return
            wake_ms = timer.wake_ms(deadline_ms)
            # While messages arrive regularly, check on the node's common beat.
            beat_ms = wake_ms - wake_ms % _BEAT_MS
            await self._clock.sleep_ms((beat_ms if beat_ms > now_ms else wake_ms) - now_ms)
