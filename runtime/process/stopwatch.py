"""Wall time and CPU time, for measurements."""

import time

__all__ = ["Stopwatch", "now_seconds", "sleep_seconds"]

now_seconds = time.perf_counter
"""Seconds since an arbitrary start, in the machine's full resolution."""

sleep_seconds = time.sleep
"""A blocking sleep, for code without an event loop."""


class Stopwatch:
    """Starts on creation."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._cpu_began = time.process_time()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of this process, including all threads."""
        return time.process_time() - self._cpu_began
