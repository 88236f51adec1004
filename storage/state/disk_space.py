"""Free space on the disk of a data directory, and which records it still accepts. On the loop; no IO of its own.

Below the reserve, the broker accepts no records of user topics, neither from clients nor from leaders: the rest is for
metadata, offset commits, and the writes that deleting needs. Below a quarter of the reserve, groups cannot commit.
"""

import asyncio
from collections.abc import Callable

from lograft.runtime.observability.logging import get_logger
from lograft.storage.errors import DiskFull

log = get_logger(__name__)

DEFAULT_RESERVE_BYTES = 1024**3
_DEFAULT_PART = 20  # the reserve is at most this part of the disk
_LAST_PART = 4  # this part of the reserve is for metadata and deleting only
_SLACK_PART = 20  # hysteresis: this part of the reserve must be free beyond it before writing resumes
_UNKNOWN_BYTES = 1 << 62


def default_reserve(disk_bytes: int) -> int:
    return min(DEFAULT_RESERVE_BYTES, disk_bytes // _DEFAULT_PART)


class DiskSpace:
    """The space of one directory, unlimited until `measured`. `free_bytes` accounts for writes since the
    measurement."""

    def __init__(self, path: str = "", reserve_bytes: int = 0, disk_bytes: int = 0) -> None:
        self.path = path
        self.reserve_bytes = reserve_bytes
        self.disk_bytes = disk_bytes
        self.free_bytes = _UNKNOWN_BYTES
        self.is_full = False  # for user topics
        self.is_critical = False  # for group offsets, too
        self.on_change: Callable[[], None] = lambda: None  # called when `is_full` or `is_critical` changes
        self._is_stalled = False
        self._has_room = asyncio.Event()

    def measured(self, free_bytes: int, *, is_stalled: bool = False) -> None:
        """Record the measured free space. `is_stalled`: the disk refused a write and has not accepted it since."""
        self.free_bytes = max(0, free_bytes)
        self._is_stalled = is_stalled
        self._settle()

    def took(self, size_bytes: int) -> None:
        """Account for bytes queued for the disk."""
        self.free_bytes = max(0, self.free_bytes - size_bytes)
        if self.free_bytes < self.reserve_bytes:
            self._settle()

    def ran_out(self) -> None:
        """Record that the disk refused a write."""
        self._is_stalled = True
        self._settle()

    def takes_records(self, *, is_internal: bool) -> bool:
        """Return True if records of a user topic, or of an internal one, can be stored."""
        return not (self.is_critical if is_internal else self.is_full)

    def check(self, *, is_internal: bool) -> None:
        """Raise DiskFull if no records are accepted for a user topic, or for an internal one."""
        if not self.takes_records(is_internal=is_internal):
            left = "no space left" if self._is_stalled else f"only {_megabytes(self.free_bytes)} left"
            raise DiskFull(
                f"the disk of {self.path} has {left} (its reserve is {_megabytes(self.reserve_bytes)}): make room "
                "there, or have retention delete more, and writing goes on by itself"
            )

    async def until_room(self, *, is_internal: bool) -> None:
        """Wait until `check` would pass."""
        while not self.takes_records(is_internal=is_internal):
            self._has_room.clear()
            await self._has_room.wait()

    def has_room_for(self, size_bytes: int) -> bool:
        """Return True if the space beyond the metadata's part suffices."""
        return not self._is_stalled and self.free_bytes - size_bytes >= self.reserve_bytes // _LAST_PART

    def _settle(self) -> None:
        before = (self.is_full, self.is_critical)
        self.is_full = self._is_below(self.reserve_bytes, was_below=self.is_full)
        self.is_critical = self._is_below(self.reserve_bytes // _LAST_PART, was_below=self.is_critical)
        if before == (self.is_full, self.is_critical):
            return
        self._has_room.set()
        tell = log.error if self.is_full else log.info
        tell(
            "disk_full" if self.is_full else "disk_has_room",
            path=self.path, free_bytes=self.free_bytes, reserve_bytes=self.reserve_bytes,
            groups_write=not self.is_critical,
        )  # fmt: skip
        self.on_change()

    def _is_below(self, limit_bytes: int, *, was_below: bool) -> bool:
        slack_bytes = self.reserve_bytes // _SLACK_PART if was_below else 0
        return self._is_stalled or self.free_bytes < limit_bytes + slack_bytes


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:,.1f} MB"
