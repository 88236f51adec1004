"""The ordered events of a simulated run."""

import hashlib
from collections import Counter

Detail = str | int | float | None


class Schedule:
    """Record a run's events in order, for printing and for comparison with another run of the same seed."""

    def __init__(self) -> None:
        self._events: list[tuple[int, str, tuple[Detail, ...]]] = []
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._events)

    def note(self, now_us: int, event: str, *details: Detail) -> None:
        self._events.append((now_us, event, details))
        self.counts[event] += 1

    def digest(self) -> str:
        """Return a digest of all events. Two runs with equal digests are equal."""
        return hashlib.sha256(repr(self._events).encode()).hexdigest()

    def lines(self, *, with_messages: bool = True) -> list[str]:
        """Return one line per event: seconds, name, details. Without messages, omit deliveries and losses."""
        return [
            f"{now_us / 1_000_000:10.6f}  {event:18} {' '.join(map(str, details))}"
            for now_us, event, details in self._events
            if with_messages or event not in ("deliver", "lose")
        ]
