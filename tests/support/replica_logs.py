"""A replica's log and disk in miniature: what is durable, what a crash takes, what was cut or deleted."""

from dataclasses import dataclass, field
from uuid import UUID

from support.metadata_images import directory

from lograft.metadata.image.partition import BrokerId
from lograft.runtime.rng import Rng
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry

Entry = tuple[int, int]  # the leader epoch it was written in, and a number of its own


class MiniatureLog:
    """As `storage.log.PartitionLog`, with one record a batch. Epochs are durable when they are assigned."""

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.stable_end = start_offset
        self.epochs = EpochCache()
        self.tombstones_removed_below = 0
        self._entries: list[Entry] = []

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self._entries)

    def entries(self, start: int, end: int) -> list[Entry]:
        assert self.start_offset <= start
        return self._entries[start - self.start_offset : end - self.start_offset]

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            assert self.epochs.epoch_at(self.end_offset) == entry[0], "a record of another epoch than its offset is in"
            self._entries.append(entry)

    def sync(self, end: int) -> None:
        self.stable_end = max(self.stable_end, min(end, self.end_offset))

    def truncate(self, offset: int) -> None:
        assert self.start_offset <= offset <= self.end_offset
        del self._entries[offset - self.start_offset :]
        self.epochs.truncate_from(offset)
        self.stable_end = self.end_offset

    def reset(self, start: int, epochs: tuple[EpochEntry, ...]) -> None:
        self.start_offset = self.stable_end = start
        self.tombstones_removed_below = 0
        self._entries = []
        self.epochs.replace_all(epochs)

    def delete_prefix(self, offset: int) -> None:
        assert offset <= self.end_offset
        if offset > self.start_offset:
            del self._entries[: offset - self.start_offset]
            self.start_offset = offset
            self.stable_end = max(self.stable_end, offset)
            self.epochs.forget_before(offset)

    def crash(self, rng: Rng) -> None:
        """What was not synced may be there, or not."""
        end = rng.randint(self.stable_end, self.end_offset)
        del self._entries[end - self.start_offset :]
        self.epochs.clip_to(end)
        self.stable_end = end


@dataclass
class MiniatureDirectory:
    """What a broker has of the partition in one directory. `noted_watermark`: as of the last checkpoint."""

    directory_id: UUID
    log: MiniatureLog = field(default_factory=MiniatureLog)
    noted_watermark: int = 0
    is_corrupt: bool = False

    @property
    def watermark(self) -> int:
        return max(min(self.noted_watermark, self.log.end_offset), self.log.start_offset)

    def start_over(self) -> None:
        self.log = MiniatureLog()
        self.noted_watermark = 0
        self.is_corrupt = False

    def rot(self, rng: Rng) -> None:
        self.log.truncate(rng.randint(self.log.start_offset, self.log.end_offset))
        self.is_corrupt = True


class MiniatureDisks:
    """Two directories of one broker: they outlive its processes. One that failed may come back as it was."""

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self._directories_made = 0
        self.directories = [self._make(), self._make()]
        self.used = self.directories[0]

    def _make(self) -> MiniatureDirectory:
        self._directories_made += 1
        return MiniatureDirectory(directory(self._broker_id, self._directories_made - 1))

    def find(self, directory_id: UUID | None) -> MiniatureDirectory | None:
        return next((one for one in self.directories if one.directory_id == directory_id), None)

    def wipe(self) -> None:
        """An empty disk takes the place of the one that was in use."""
        self.directories = [self._make() if one is self.used else one for one in self.directories]
        self.used = self.directories[0]

    def crash(self, rng: Rng) -> None:
        for one in self.directories:
            one.log.crash(rng)
