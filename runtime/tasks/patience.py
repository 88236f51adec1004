"""When a deadline is really due, on a loop that may have stood still. Pure."""

_SETTLE_MS = 20


class PatientTimer:
    """Says when a deadline is really due. Pure.

    A deadline noticed late means that the loop stood still, and what arrived meanwhile is not read yet, the word of a
    healthy leader perhaps. So then there is a while to read it first: it may move the deadline.
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
        """When to ask again at the latest."""
        return self._settled_ms if self._late_deadline_ms == deadline_ms else deadline_ms
