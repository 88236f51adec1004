"""Looks now and then how much room is left on a node's disks."""

from collections.abc import Sequence

from lograft.runtime.clock import Clock
from lograft.runtime.logging import get_logger
from lograft.storage.directory import DataDirectory

log = get_logger(__name__)

_LOOK_MS = 500


class DiskWatch:
    """Of all directories that a node has open. Between two looks, what is written is counted."""

    def __init__(self, clock: Clock, directories: Sequence[DataDirectory]) -> None:
        self._clock = clock
        self._directories = directories

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep_ms(_LOOK_MS)
            for directory in list(self._directories):
                try:
                    await directory.look_at_space()
                except OSError as error:
                    log.warning("disk_not_looked_at", path=directory.path, reason=str(error))
