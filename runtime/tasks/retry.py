"""Retries: tenacity with a node's clock and random numbers, so that simulations replay them.

A loop that retries:

    wait = ExponentialWait(runtime.rng, first_ms=20, last_ms=500)
    async for attempt in retrying(runtime.clock, wait, on=ConnectFailed):
        with attempt:
            return await ask()

`await retrying(...)(function)` does the same with an `async def`. Tenacity does not await the result of a lambda.

Raise `TryAgain` inside `with attempt` to retry because of an answer instead of an exception. A stream that works again
calls `wait.succeeded()`, which makes the next delay short. Code that is not a loop, such as a producer's queue of one
partition, holds an `ExponentialWait` and calls `next_ms()`.
"""

from collections.abc import Callable

from tenacity import AsyncRetrying, RetryCallState, TryAgain, retry_if_exception
from tenacity.stop import StopBaseT, stop_never
from tenacity.wait import WaitBaseT, wait_base

from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import Logger
from lograft.runtime.rng import Rng

__all__ = ["Complaints", "ExponentialWait", "TryAgain", "retrying"]

Retriable = type[Exception] | tuple[type[Exception], ...] | Callable[[BaseException], bool]

_MAX_DOUBLINGS = 16


class ExponentialWait(wait_base):
    """Tenacity's wait strategy: delays double with each failure since the last success, from `first_ms` to `last_ms`.

    With an `rng`, draw each delay from its upper half, so that clients that failed together do not retry together.
    Tenacity passes the result to `sleep` unchanged, so the unit is milliseconds, as for `Clock.sleep_ms`.
    """

    def __init__(self, rng: Rng | None, first_ms: int, last_ms: int) -> None:
        self._rng = rng
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._failures = 0

    def __call__(self, retry_state: RetryCallState) -> float:
        return self.next_ms()

    def next_ms(self) -> float:
        """Count a failure, and return the delay before the next attempt."""
        longest_ms = min(self._last_ms, self._first_ms << min(self._failures, _MAX_DOUBLINGS))
        self._failures += 1
        return longest_ms if self._rng is None else self._rng.uniform(longest_ms / 2, longest_ms)

    def succeeded(self) -> None:
        """Reset the delays to the first one."""
        self._failures = 0


def retrying(clock: Clock, wait: WaitBaseT, on: Retriable, stop: StopBaseT = stop_never) -> AsyncRetrying:
    """Return tenacity's loop over attempts. It retries failures that match `on`, and `TryAgain`, until an attempt
    succeeds. It raises everything else, including cancellation.

    `wait`: returns milliseconds. Bound the loop with a deadline around it (`asyncio.timeout`), or with `stop`, after
    which it raises the last failure.
    """
    is_retriable = (lambda error: isinstance(error, on)) if isinstance(on, type | tuple) else on
    return AsyncRetrying(
        sleep=clock.sleep_ms, wait=wait, stop=stop, retry=retry_if_exception(is_retriable), reraise=True
    )


class Complaints:
    """Logs a failure only when its kind changes, not at every attempt."""

    def __init__(self, log: Logger, event: str) -> None:
        self._log = log
        self._event = event
        self.kind = ""  # of the latest failure; empty after a success

    def complain(self, kind: str, reason: str) -> None:
        if kind != self.kind:
            self.kind = kind
            self._log.warning(self._event, kind=kind, reason=reason)

    def succeeded(self) -> None:
        self.kind = ""
