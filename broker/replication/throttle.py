"""A limit in bytes per second. Pure."""

from collections.abc import Callable

_BURST_MS = 250  # an unused allowance accumulates for this long


class Throttle:
    """`rate()`: the current limit in bytes per second. A caller may take more than is available; then all callers wait
    until the balance has recovered."""

    def __init__(self, rate: Callable[[], int], now_ms: int) -> None:
        self._rate = rate
        self._balance = 0.0  # bytes; negative after callers took more than was available
        self._as_of_ms = now_ms

    def take(self, size_bytes: int, now_ms: int) -> None:
        self._refill(now_ms)
        self._balance -= size_bytes

    def wait_ms(self, now_ms: int) -> float:
        """Return how long to wait before taking more, or 0 if there is no need to wait."""
        self._refill(now_ms)
        return max(-self._balance * 1000 / self._rate(), 0)

    def piece_bytes(self) -> int:
        """Return how many bytes to take at a time: the allowance of a tenth of a second."""
        return max(self._rate() // 10, 1)

    def _refill(self, now_ms: int) -> None:
        rate, elapsed_ms = self._rate(), now_ms - self._as_of_ms
        self._balance = min(self._balance + rate * elapsed_ms / 1000, rate * _BURST_MS / 1000)
        self._as_of_ms = now_ms
