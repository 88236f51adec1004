"""How long something took, and what it cost, for those who measure."""

import time

__all__ = ["Stopwatch", "now_seconds", "sleep_seconds"]

now_seconds = time.perf_counter
"""Since some moment in the past, as exactly as the machine can tell."""

sleep_seconds = time.sleep
"""For those who have no loop to wait on."""


class Stopwatch:
    """Runs from the moment it is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._cpu_began = time.process_time()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def cpu_seconds(self) -> float:
        """Of this process, all its threads together."""
        return time.process_time() - self._cpu_began
