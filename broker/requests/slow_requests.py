"""Slow requests: one log event each, and a count. Time spent waiting by design is excluded.

The broker setting `slow.request.ms` is the threshold, once the image has it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lograft.metadata.config.cluster_config import SLOW_REQUEST, broker_default_of
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.metadata.image.state_machine import MachineListener
from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)


class CallTimer:
    """The time that one call has waited by design."""

    __slots__ = ("waited_seconds",)

    def __init__(self) -> None:
        self.waited_seconds = 0.0


_timer: ContextVar[CallTimer | None] = ContextVar("lograft_call_timer", default=None)


def begin_timing() -> CallTimer:
    """Start the timer of the call that the current task serves, and return it."""
    timer = CallTimer()
    _timer.set(timer)
    return timer


@contextmanager
def waiting(clock: Clock) -> Iterator[None]:
    """Exclude the time in this context from the call's duration: the call waits by design, as for new data."""
    timer, began_seconds = _timer.get(), clock.monotonic_seconds()
    try:
        yield
    finally:
        if timer is not None:
            timer.waited_seconds += clock.monotonic_seconds() - began_seconds


class SlowRequests:
    """Slow requests of one server. `counts`: their number by method."""

    def __init__(self) -> None:
        self.threshold_seconds = int(broker_default_of(SLOW_REQUEST)) / 1000
        self.counts: dict[str, int] = {}

    def note(self, method: str, seconds: float, **fields: Any) -> None:
        """Log and count a request that took `threshold_seconds` or longer. `fields` identify the request."""
        self.counts[method] = self.counts.get(method, 0) + 1
        log.warning("slow_request", method=method, elapsed_ms=round(seconds * 1000), **fields)


class SlowRequestSetting(MachineListener):
    """Applies the broker's `slow.request.ms` from the image."""

    def __init__(self, broker_id: BrokerId, image: Callable[[], ClusterImage], slow: SlowRequests) -> None:
        self._resource = ConfigResource(ResourceKind.BROKER, str(broker_id))
        self._image = image
        self._slow = slow

    def advanced(self, index: int) -> None:
        value = self._image().config_of(self._resource).get(SLOW_REQUEST, broker_default_of(SLOW_REQUEST))
        self._slow.threshold_seconds = int(value) / 1000
