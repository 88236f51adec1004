"""What happened in a simulated run, in order."""

import hashlib
from collections import Counter

Detail = str | int | float | None


class Schedule:
    """Everything that happened, in order: to be printed, and to be compared with another run of the same seed."""

    def __init__(self) -> None:
        self._events: list[tuple[int, str, tuple[Detail, ...]]] = []
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._events)

    def note(self, now_us: int, event: str, *details: Detail) -> None:
        self._events.append((now_us, event, details))
        self.counts[event] += 1

    def digest(self) -> str:
        """Equal digests: equal runs."""
        return hashlib.sha256(repr(self._events).encode()).hexdigest()

    def lines(self, *, with_messages: bool = True) -> list[str]:
        """One line an event: seconds, what, and to whom."""
        return [
            f"{now_us / 1_000_000:10.6f}  {event:18} {' '.join(map(str, details))}"
            for now_us, event, details in self._events
            if with_messages or event not in ("deliver", "lose")
        ]
