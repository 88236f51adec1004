"""How fast something may go on: so many bytes a second. Pure."""

from collections.abc import Callable

_BURST_MS = 250  # what was not used for longer is forgone


class Throttle:
    """`rate()`: bytes a second as they are wanted now. Whoever is let through may take more than there is; then all
    wait until that is made up for."""

    def __init__(self, rate: Callable[[], int], now_ms: int) -> None:
        self._rate = rate
        self._balance = 0.0  # bytes, below 0 while what was taken is not made up for
        self._as_of_ms = now_ms

    def take(self, size_bytes: int, now_ms: int) -> None:
        self._refill(now_ms)
        self._balance -= size_bytes

    def wait_ms(self, now_ms: int) -> float:
        """0: go on."""
        self._refill(now_ms)
        return max(-self._balance * 1000 / self._rate(), 0)

    def piece_bytes(self) -> int:
        """How much to take at a time: a tenth of a second's."""
        return max(self._rate() // 10, 1)

    def _refill(self, now_ms: int) -> None:
        rate, elapsed_ms = self._rate(), now_ms - self._as_of_ms
        self._balance = min(self._balance + rate * elapsed_ms / 1000, rate * _BURST_MS / 1000)
        self._as_of_ms = now_ms
