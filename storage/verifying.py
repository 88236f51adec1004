"""Is what was read of a log still what was written? Pure."""

from collections.abc import Iterable

from lograft.runtime.files import Buffer
from lograft.storage.batch import iterate_batches
from lograft.storage.epochs import EpochCache
from lograft.storage.errors import InvalidBatch
from lograft.storage.header import check_crc


def check_batches(buffers: Iterable[Buffer], epochs: EpochCache) -> None:
    """`InvalidBatch` unless every batch is intact, and in its place: no CRC covers the offset and the epoch.

    What is well here, a follower takes, and a reader can open.
    """
    next_offset = 0
    for buffer in buffers:
        for position, header in iterate_batches(buffer):
            check_crc(buffer, position, header)
            if header.base_offset < next_offset:
                raise InvalidBatch(f"offset {header.base_offset} where {next_offset} is next")
            if not epochs.allows(header.leader_epoch, header.base_offset):
                raise InvalidBatch(f"leader epoch {header.leader_epoch} at offset {header.base_offset}")
            next_offset = header.next_offset
