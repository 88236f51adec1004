"""Which partition a record goes to. Pure."""

import zlib
from collections.abc import Callable
from typing import TypeAlias

from lograft.runtime.rng import Rng

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int | None]
"""(topic, key, value, number of partitions) to a partition; None leaves it to the default."""


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The same for the same key, in any program, for as long as the topic has as many partitions: by CRC-32."""
    return zlib.crc32(key) % partition_count


class StickyPartitions:
    """Records without a key: all to one partition until its batch is full or sent, then to another, at random."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._current: dict[bytes, int] = {}

    def partition(self, topic_id: bytes, partition_count: int, is_filling: Callable[[int], bool]) -> int:
        """`is_filling` tells whether a partition has a batch that takes more."""
        partition = self._current.get(topic_id, -1)
        if not 0 <= partition < partition_count or not is_filling(partition):
            partition = self._current[topic_id] = self._rng.randrange(partition_count)
        return partition
