"""Miniature logs of simulated brokers: writes, power failures and corruption. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from lograft.chaos.metadata.rules.facts import PartitionKey
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch
from lograft.runtime.rng import Rng

NO_EPOCH = LeaderEpoch(-1)


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry at one position. If two logs have equal entries at a position, they are equal up to it."""

    epoch: LeaderEpoch
    value: str


class StubLog:
    """The log of one replica in one directory. It outlives the process."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.high_watermark = 0
        self.synced = 0  # entries on disk; later ones are in the page cache
        self.is_corrupt = False  # only part of it is left, which does not count
        self.is_doubtful = False  # the power failed, and no process has registered since

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def last_epoch(self) -> LeaderEpoch:
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def append(self, entries: Sequence[Entry], *, is_synced: bool) -> None:
        assert not self.is_corrupt
        self.entries.extend(entries)
        if is_synced:
            self.synced = self.end

    def truncate(self, end: int) -> None:
        del self.entries[end:]
        self.synced = min(self.synced, end)
        self.high_watermark = min(self.high_watermark, end)

    def has(self, end: int, last_epoch: LeaderEpoch) -> bool:
        """Return whether a log with this end is a prefix of this log."""
        return end == 0 or (end <= self.end and self.entries[end - 1].epoch == last_epoch)

    def end_of(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, int]:
        """Return the latest epoch up to `epoch` that has entries, and the end of its entries."""
        end = self.end
        while end > 0 and self.entries[end - 1].epoch > epoch:
            end -= 1
        return (self.entries[end - 1].epoch if end else NO_EPOCH), end

    def lose_power(self, rng: Rng) -> None:
        if self.synced < self.end:
            self.truncate(rng.randint(self.synced, self.end))
        self.is_doubtful = True

    def rot(self, rng: Rng) -> None:
        """Make some data on the disk unreadable."""
        self.truncate(rng.randint(0, self.end))
        self.is_corrupt = True


@dataclass(slots=True)
class StubDirectory:
    """One data directory. `clean_epoch` is from the marker of a clean shutdown."""

    directory_id: UUID
    logs: dict[PartitionKey, StubLog] = field(default_factory=dict)
    clean_epoch: BrokerEpoch | None = None
    has_failed: bool = False


class StubDisks:
    """The machine of one broker: its directories and boot id. It outlives the processes."""

    def __init__(self, broker_id: BrokerId, directories: int, rng: Rng) -> None:
        self.broker_id = broker_id
        self._rng = rng
        self._boots = 1
        self.directories = [StubDirectory(rng.uuid()) for _ in range(directories)]

    @property
    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    @property
    def healthy(self) -> list[StubDirectory]:
        return [directory for directory in self.directories if not directory.has_failed]

    def find(self, directory_id: UUID | None) -> StubDirectory | None:
        return next((one for one in self.directories if one.directory_id == directory_id), None)

    def lose_power(self) -> None:
        """Lose everything in the kernel's memory."""
        self._boots += 1
        for directory in self.directories:
            for log in directory.logs.values():
                log.lose_power(self._rng)

    def wipe(self, number: int) -> None:
        """Replace one of the disks by a new one."""
        self.directories[number % len(self.directories)] = StubDirectory(self._rng.uuid())

    def repair(self) -> None:
        """Make failed directories usable again, with their contents."""
        for directory in self.directories:
            directory.has_failed = False

    def take_clean_epoch(self) -> BrokerEpoch | None:
        """Return the epoch in the markers if all agree. Remove them, because the next write invalidates them."""
        epochs = [directory.clean_epoch for directory in self.healthy]
        for directory in self.healthy:
            directory.clean_epoch = None
        return epochs[0] if epochs and all(epoch == epochs[0] for epoch in epochs) else None

    def leave_clean(self, epoch: BrokerEpoch) -> None:
        for directory in self.healthy:
            for log in directory.logs.values():
                log.synced = log.end
            directory.clean_epoch = epoch

    def registered(self) -> None:
        """Note that a process started after the last power failure has registered: the metadata knows of the risk."""
        for directory in self.directories:
            for log in directory.logs.values():
                log.is_doubtful = False
