"""Periodic checks of the free space on a node's disks."""

from collections.abc import Sequence

from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import get_logger
from lograft.storage.log.data_directory import DataDirectory

log = get_logger(__name__)

_LOOK_MS = 500
_SOONEST_MS = 20
_FASTEST_BYTES_PER_MS = 4 * 1000 * 1000  # twice the rate at which all programs that share a disk may write


class DiskWatch:
    """Checks the free space of a node's open directories. Between checks, each directory counts written bytes."""

    def __init__(self, clock: Clock, directories: Sequence[DataDirectory]) -> None:
        self._clock = clock
        self._directories = directories

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self._clock.sleep_ms(self._pause_ms())
            for directory in list(self._directories):
                try:
                    await directory.look_at_space()
                except OSError as error:
                    log.warning("disk_not_looked_at", path=directory.path, reason=str(error))

    def _pause_ms(self) -> int:
        """Return the time until the next check. It shrinks with the free space, because other nodes and programs may
        write to the same disk."""
        left = (
            each.space.free_bytes - each.space.reserve_bytes for each in self._directories if not each.space.is_full
        )
        nearest_bytes = min(left, default=_LOOK_MS * _FASTEST_BYTES_PER_MS)
        return max(_SOONEST_MS, min(_LOOK_MS, nearest_bytes // _FASTEST_BYTES_PER_MS))
