"""The past ends of a log, by time: they tell how long a follower has lagged. Pure."""

from bisect import bisect_right

_MARKS_IN_SPAN = 32
_MAX_MARKS = 2 * _MARKS_IN_SPAN


class LagHistory:
    """Keeps about thirty marks for the last `span_ms`. For an offset between two marks, the answer is the earlier one,
    so a follower may seem to lag longer than it does, by up to the time between two marks."""

    __slots__ = ("_ends", "_times_ms", "span_ms")

    def __init__(self, span_ms: int) -> None:
        self.span_ms = span_ms
        self._ends: list[int] = []
        self._times_ms: list[int] = []

    def moves_on(self, end: int, now_ms: int) -> None:
        """Note that the log ended at `end` until now."""
        times_ms = self._times_ms
        if times_ms and now_ms - times_ms[-1] < self.span_ms // _MARKS_IN_SPAN:
            return
        if len(times_ms) >= _MAX_MARKS:
            old = min(bisect_right(times_ms, now_ms - self.span_ms), _MAX_MARKS - 1) or 1
            del times_ms[:old], self._ends[:old]
        times_ms.append(now_ms)
        self._ends.append(end)

    def when_at(self, offset: int) -> int | None:
        """Return the latest known time at which the log ended at or before `offset`. Return None if that was before the
        oldest mark, or never."""
        place = bisect_right(self._ends, offset)
        return self._times_ms[place - 1] if place else None
