"""When a log ended where: how far behind a follower is, in time. Pure."""

from bisect import bisect_right

_MARKS_IN_SPAN = 32
_MAX_MARKS = 2 * _MARKS_IN_SPAN


class LagHistory:
    """Marks, some thirty within the last `span_ms`. Between two of them the answer is the earlier one: who is judged by
    it may seem further behind than it is, by as much as lies between two marks."""

    __slots__ = ("_ends", "_times_ms", "span_ms")

    def __init__(self, span_ms: int) -> None:
        self.span_ms = span_ms
        self._ends: list[int] = []
        self._times_ms: list[int] = []

    def moves_on(self, end: int, now_ms: int) -> None:
        """The log ended at `end` until now."""
        times_ms = self._times_ms
        if times_ms and now_ms - times_ms[-1] < self.span_ms // _MARKS_IN_SPAN:
            return
        if len(times_ms) >= _MAX_MARKS:
            old = min(bisect_right(times_ms, now_ms - self.span_ms), _MAX_MARKS - 1) or 1
            del times_ms[:old], self._ends[:old]
        times_ms.append(now_ms)
        self._ends.append(end)

    def when_at(self, offset: int) -> int | None:
        """The last time known at which the log ended at `offset` or before. None: longer ago than is remembered, or
        never."""
        place = bisect_right(self._ends, offset)
        return self._times_ms[place - 1] if place else None
