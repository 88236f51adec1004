"""Readers at the end of the log that wait for more. Pure."""

from collections.abc import Callable
from itertools import count


class ReadWaiters:
    """Wakes each reader once, when there is a record at or after its offset, or for another reason to look again."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, Callable[[], None]]] = {}
        self._count = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Return a function that withdraws the reader: at any time, and more than once."""
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
        # Whoever is woken may withdraw others, and wait anew.
        for key in keys:
            waiting = self._waiting.pop(key, None)
            if waiting is not None:
                waiting[1]()
