"""Is what was read of a log still what was written? Pure."""

from collections.abc import Iterable

from lograft.runtime.files import Buffer
from lograft.storage.batch.codec import iterate_batches
from lograft.storage.batch.header import BatchHeader, check_crc
from lograft.storage.errors import InvalidBatch
from lograft.storage.state.epoch_cache import EpochCache


class PlaceCheck:
    """Are batches, one after the other, where they belong: in [start, end), in order, in the epoch of their offset? No
    CRC covers that."""

    def __init__(self, start: int, end: int | None, epochs: EpochCache) -> None:
        self._next_offset = start
        self._end = end
        self._epochs = epochs

    def check(self, header: BatchHeader) -> None:
        """The next one; `InvalidBatch` if it is out of place."""
        if header.base_offset < self._next_offset:
            raise InvalidBatch(f"offset {header.base_offset} where {self._next_offset} is next")
        if self._end is not None and header.next_offset > self._end:
            raise InvalidBatch(f"offset {header.base_offset} where {self._end} is the end")
        if not self._epochs.allows(header.leader_epoch, header.base_offset):
            raise InvalidBatch(f"leader epoch {header.leader_epoch} at offset {header.base_offset}")
        self._next_offset = header.next_offset


def check_batches(buffers: Iterable[Buffer], epochs: EpochCache) -> None:
    """`InvalidBatch` unless every batch is intact, and in its place.

    What is well here, a follower takes, and a reader can open.
    """
    places = PlaceCheck(0, None, epochs)
    for buffer in buffers:
        for position, header in iterate_batches(buffer):
            check_crc(buffer, position, header)
            places.check(header)
