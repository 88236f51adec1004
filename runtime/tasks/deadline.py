"""Deadlines of requests. A request's `timeout_ms` is how long its sender waits for the answer.

The server answers within `answer_ms` of that, and gives its own requests to other nodes still less, so that a definite
refusal from an inner node arrives before any outer deadline passes. This module computes all nested deadlines.
"""

from google.protobuf.message import Message

from lograft.runtime.clock import Clock

DEFAULT_TIMEOUT_MS = 30_000
MAX_TIMEOUT_MS = 300_000
"""The largest timeout of a request."""

ATTEMPT_MS = 10_000
"""How long a client waits for one broker before it tries another. The constants below are for brokers that ask the
controllers first, and for brokers that look up a group's coordinator."""

LINEARIZABLE_MS = 6000
COORDINATOR_MS = 2000  # a broker that takes longer may be gone, and the member's session is limited

_WAY_BACK_MS = 1000
_FIELD = "timeout_ms"


def answer_ms(timeout_ms: int) -> int:
    """Return how long the receiver of a request may take if the sender waits for `timeout_ms`. It is less, to leave
    time for the answer to arrive."""
    return max(1, timeout_ms - max(1, min(timeout_ms // 5, _WAY_BACK_MS)))


class Deadline:
    """The end of a request's time, by `clock`."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._ends_ms = clock.monotonic_ms() + timeout_ms

    @property
    def left_ms(self) -> int:
        """The remaining time, at least 1."""
        return max(1, self._ends_ms - self._clock.monotonic_ms())


def has_timeout(request_type: type[Message]) -> bool:
    """Return True if requests of that type have a `timeout_ms`."""
    return _FIELD in request_type.DESCRIPTOR.fields_by_name


def set_timeout(request: Message, timeout_ms: int) -> None:
    """Set `timeout_ms` in the request, if its type has it."""
    if has_timeout(type(request)):
        setattr(request, _FIELD, min(timeout_ms, MAX_TIMEOUT_MS))


def with_timeout(request_type: type[Message], request: bytes, timeout_ms: int) -> bytes:
    """Set `timeout_ms` in an encoded request, if its type has it. Append the field and keep everything else, including
    unknown fields: the last occurrence of a field counts."""
    if not has_timeout(request_type):
        return request
    last = request_type()
    set_timeout(last, timeout_ms)
    return request + last.SerializeToString()
