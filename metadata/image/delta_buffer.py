"""The latest changes of the metadata, for followers that were away for a moment. Pure."""

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Delta:
    """An operation that took effect: its index in the Raft log, and its bytes there.

    `wire` is the same operation as it travels to followers. The first sender encodes it; later ones find it here.
    """

    index: int
    data: bytes
    wire: bytes | None = None


@dataclass(frozen=True, slots=True)
class DeltaLimits:
    max_count: int = 20_000
    max_bytes: int = 16 * 1024 * 1024


class DeltaBuffer:
    """Every delta after index `floor`; older ones are forgotten as new ones come."""

    def __init__(self, limits: DeltaLimits | None = None) -> None:
        self._limits = limits or DeltaLimits()
        self._deltas: list[Delta] = []
        self._first = 0  # those before it are forgotten, and cut off now and then
        self._size_bytes = 0
        self.floor = 0

    def __len__(self) -> int:
        return len(self._deltas) - self._first

    def add(self, delta: Delta) -> None:
        newest = self._deltas[-1].index if len(self) else self.floor
        assert delta.index > newest, f"delta {delta.index} after {newest}"
        self._deltas.append(delta)
        self._size_bytes += len(delta.data)
        while len(self) > self._limits.max_count or self._size_bytes > self._limits.max_bytes:
            self._forget_oldest()

    def restart(self, index: int) -> None:
        """Forget all deltas: changes before `index` are unknown, and the next one follows it."""
        self._deltas, self._first, self._size_bytes = [], 0, 0
        self.floor = index

    def since(self, index: int, max_bytes: int | None = None) -> list[Delta] | None:
        """Return the deltas after `index`, in order; None if some of them are forgotten.

        `max_bytes` limits them, but at least one is returned.
        """
        if index < self.floor:
            return None
        begin = bisect_right(self._deltas, index, lo=self._first, key=_index_of)
        end, size_bytes = begin, 0
        while max_bytes is not None and end < len(self._deltas):
            size_bytes += len(self._deltas[end].data)
            if size_bytes > max_bytes and end > begin:
                break
            end += 1
        return self._deltas[begin : end if max_bytes is not None else None]

    def count_since(self, index: int) -> int:
        """Return how many deltas came after `index`; none of them is forgotten."""
        assert index >= self.floor
        return len(self._deltas) - bisect_right(self._deltas, index, lo=self._first, key=_index_of)

    def _forget_oldest(self) -> None:
        oldest = self._deltas[self._first]
        self.floor = oldest.index
        self._size_bytes -= len(oldest.data)
        self._first += 1
        if self._first * 2 > len(self._deltas):
            del self._deltas[: self._first]
            self._first = 0


def _index_of(delta: Delta) -> int:
    return delta.index
