"""Checks that batches read from a log are intact and in place. Pure."""

from collections.abc import Iterable

from lograft.runtime.files import Buffer
from lograft.storage.batch.codec import iterate_batches
from lograft.storage.batch.header import BatchHeader, check_crc
from lograft.storage.errors import InvalidBatch
from lograft.storage.state.epoch_cache import EpochCache


class PlaceCheck:
    """Checks that consecutive batches are in place: in [start, end), in order, in the epoch of their offset. No CRC
    covers that."""

    def __init__(self, start: int, end: int | None, epochs: EpochCache) -> None:
        self._next_offset = start
        self._end = end
        self._epochs = epochs

    def check(self, header: BatchHeader) -> None:
        """Check the next batch. Raise InvalidBatch if it is out of place."""
        if header.base_offset < self._next_offset:
            raise InvalidBatch(f"offset {header.base_offset} where {self._next_offset} is next")
        if self._end is not None and header.next_offset > self._end:
            raise InvalidBatch(f"offset {header.base_offset} where {self._end} is the end")
        if not self._epochs.allows(header.leader_epoch, header.base_offset):
            raise InvalidBatch(f"leader epoch {header.leader_epoch} at offset {header.base_offset}")
        self._next_offset = header.next_offset


def check_batches(buffers: Iterable[Buffer], epochs: EpochCache) -> None:
    """Raise InvalidBatch unless every batch is intact and in place.

    A follower accepts batches that pass, and a reader can decode them.
    """
    places = PlaceCheck(0, None, epochs)
    for buffer in buffers:
        for position, header in iterate_batches(buffer):
            check_crc(buffer, position, header)
            places.check(header)
