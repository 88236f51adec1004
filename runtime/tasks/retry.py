"""Trying again: after how long, and how often it is worth a line in the log."""

from lograft.runtime.observability.logging import Logger
from lograft.runtime.rng import Rng


class Backoff:
    """Delays that double with each failure; with jitter, lest those who failed together come back together."""

    def __init__(self, rng: Rng, first_ms: int, last_ms: int) -> None:
        self._rng = rng
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._failures = 0

    def next_ms(self) -> float:
        """How long to wait before the next attempt."""
        longest_ms = min(self._last_ms, self._first_ms << min(self._failures, 16))
        self._failures += 1
        return self._rng.uniform(longest_ms / 2, longest_ms)

    def succeeded(self) -> None:
        self._failures = 0


class Complaints:
    """Says what is wrong once for each kind of failure, not at every attempt."""

    def __init__(self, log: Logger, event: str) -> None:
        self._log = log
        self._event = event
        self.kind = ""  # of the latest; empty if there was none since all was well

    def complain(self, kind: str, reason: str) -> None:
        if kind != self.kind:
            self.kind = kind
            self._log.warning(self._event, kind=kind, reason=reason)

    def succeeded(self) -> None:
        self.kind = ""
