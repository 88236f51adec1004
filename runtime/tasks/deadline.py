"""How long requests may take. A request's `timeout_ms` says how long its sender waits for the answer.

Whoever serves it answers within `answer_ms` of that, and gives what it asks of others less again: so a definite
refusal from the inside arrives before any deadline around it has passed. All nested deadlines are made here.
"""

from google.protobuf.message import Message

from lograft.runtime.clock import Clock

DEFAULT_TIMEOUT_MS = 30_000
MAX_TIMEOUT_MS = 300_000
"""What a request may ask for at the most."""

ATTEMPT_MS = 10_000
"""How long a client waits for one broker before it asks another; for one that has to ask the controllers first, and
for one that is to say who coordinates a group, the times below."""

LINEARIZABLE_MS = 6000
COORDINATOR_MS = 2000  # a broker that takes longer may be gone; and a session does not last for ever

_WAY_BACK_MS = 1000
_FIELD = "timeout_ms"


def answer_ms(timeout_ms: int) -> int:
    """Return how long the receiver of a request may take, whose sender waits for `timeout_ms`: less, by the time that
    the answer may need on its way back."""
    return max(1, timeout_ms - max(1, min(timeout_ms // 5, _WAY_BACK_MS)))


class Deadline:
    """When the time of a request is over, by `clock`."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._ends_ms = clock.monotonic_ms() + timeout_ms

    @property
    def left_ms(self) -> int:
        """At least 1: there is no request without any time."""
        return max(1, self._ends_ms - self._clock.monotonic_ms())


def has_timeout(request_type: type[Message]) -> bool:
    """Return whether requests of that type say how long their sender waits."""
    return _FIELD in request_type.DESCRIPTOR.fields_by_name


def set_timeout(request: Message, timeout_ms: int) -> None:
    """Say in the request how long its sender waits, if it can be said there."""
    if has_timeout(type(request)):
        setattr(request, _FIELD, min(timeout_ms, MAX_TIMEOUT_MS))


def with_timeout(request_type: type[Message], request: bytes, timeout_ms: int) -> bytes:
    """As `set_timeout`, for an encoded request. All else in it stays, fields of later versions included: of a field
    that is there twice the last one counts."""
    if not has_timeout(request_type):
        return request
    last = request_type()
    set_timeout(last, timeout_ms)
    return request + last.SerializeToString()
