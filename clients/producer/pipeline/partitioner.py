"""Chooses the partition of a record. Pure."""

import zlib
from collections.abc import Callable
from typing import TypeAlias

from lograft.runtime.rng import Rng

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int | None]
"""(topic, key, value, number of partitions) to a partition; None leaves it to the default."""

FIRST_TURN_BYTES = 32 * 1024
"""The least that a partition gets per turn; small enough to spread even a few records."""


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key: its CRC-32 modulo the number of partitions, which is stable across programs."""
    return zlib.crc32(key) % partition_count


class Turns:
    """Distributes one topic's records without keys: partitions take turns, in a random order for each round.

    A turn ends when its batch was sent, which the caller detects, and at the latest after as many bytes as each
    partition has got on average, but at least `FIRST_TURN_BYTES` and at most `most_bytes`, one batch. So a short burst
    is spread evenly, and a long one fills its batches.
    """

    def __init__(self, rng: Rng, most_bytes: int) -> None:
        self.partition: int | None = None  # whose turn it is; None before the first turn
        self.left_bytes = 0
        self._rng = rng
        self._most_bytes = most_bytes
        self._turn_bytes = 0
        self._given_bytes = 0
        self._count = 0
        self._ahead: list[int] = []  # left in this round; the last one is next

    def is_over(self, partition_count: int, next_bytes: int) -> bool:
        """Return True if `next_bytes` exceed the rest of this turn. More than a whole turn gets one of its own."""
        return partition_count != self._count or self.left_bytes < min(next_bytes, self._turn_bytes)

    def next(self, partition_count: int, is_usable: Callable[[int], bool] = lambda _: True) -> int:
        """Begin the turn of another partition, if there is more than one. Skip unusable partitions, unless all are
        unusable."""
        previous = self.partition
        if partition_count != self._count:
            self._count, self._ahead = partition_count, []
        if not self._begin_usable(is_usable):
            self._draw_round(previous)
            if not self._begin_usable(is_usable):
                self.partition = self._rng.randrange(partition_count)
        assert self.partition is not None
        self.left_bytes = self._turn_bytes
        return self.partition

    def _begin_usable(self, is_usable: Callable[[int], bool]) -> bool:
        while self._ahead:
            self.partition = self._ahead.pop()
            if is_usable(self.partition):
                return True
        return False

    def _draw_round(self, previous: int | None) -> None:
        self._turn_bytes = min(max(FIRST_TURN_BYTES, self._given_bytes // self._count), self._most_bytes)
        self._ahead = list(range(self._count))
        self._rng.shuffle(self._ahead)
        if self._ahead[-1] == previous:  # no two turns in a row across rounds
            self._ahead.insert(0, self._ahead.pop())

    def give(self, size_bytes: int) -> None:
        """Count bytes given to the partition whose turn it is."""
        self.left_bytes -= size_bytes
        self._given_bytes += size_bytes
