"""Readers that wait at the end of the log for more records. Pure."""

from collections.abc import Callable
from itertools import count


class ReadWaiters:
    """Wakes each reader once, when there is a record at or after its offset, or when it must check again for another
    reason."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, Callable[[], None]]] = {}
        self._count = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Add a reader. Return a function that withdraws it; it may be called at any time, and repeatedly."""
        key = next(self._count)
        self._waiting[key] = (offset, wake)

        def withdraw() -> None:
            self._waiting.pop(key, None)

        return withdraw

    def reached(self, end: int) -> None:
        """Wake the readers that wait for offsets below `end`."""
        self._wake([key for key, (offset, _) in self._waiting.items() if offset < end])

    def wake_all(self) -> None:
        """Wake all readers: the replica's role has changed."""
        self._wake(list(self._waiting))

    def _wake(self, keys: list[int]) -> None:
        # A woken reader may withdraw others, or wait again.
        for key in keys:
            waiting = self._waiting.pop(key, None)
            if waiting is not None:
                waiting[1]()
