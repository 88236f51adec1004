"""The two small files beside a partition's segments: its checkpointed offsets, and its leader epochs. Pure."""

from dataclasses import dataclass, fields

from lograft.storage.files.sealed_file import seal, unseal
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry

CHECKPOINT_FILE = "checkpoint"
EPOCHS_FILE = "leader-epochs"
CHECKPOINT_KIND = "lograft-checkpoint-1"
EPOCHS_KIND = "lograft-leader-epochs-1"
_LEFT_OUT_AT_ZERO = ("newest_segment", "resetting", "lost_below")  # files from before these fields have none


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Offsets that must outlive the process. Each is a lower bound of what the disk holds."""

    log_start: int = 0
    recovery_point: int = 0  # all below it was fsynced: damage there is corruption, not a torn write
    first_dirty: int = 0  # compaction has cleaned everything below it
    tombstones_removed_below: int = 0  # a follower that ends below this cannot catch up by appending
    cleaned_below: int = 0  # compaction removed records because of later ones, all of which are below this
    cleaned_in_epoch: int = -1  # the leader epoch of that compaction
    newest_segment: int = 0  # a segment with this base or a later one must exist
    resetting: int = 0  # 1: a reset is in progress; the log will be empty and start at `log_start`
    lost_below: int = 0  # log starts up to here result from damage: followers must not delete below it

    def encode(self) -> bytes:
        lines = "".join(
            f"{field.name} {value}\n"
            for field in fields(self)
            if (value := getattr(self, field.name)) or field.name not in _LEFT_OUT_AT_ZERO
        )
        return seal(CHECKPOINT_KIND, lines.encode())

    @classmethod
    def decode(cls, content: bytes) -> "Checkpoint":
        """Return the inverse of `encode`; `ValueError` if it is not sound."""
        lines = unseal(CHECKPOINT_KIND, content).decode().splitlines()
        return cls(**{name: int(value) for name, value in (line.split(" ") for line in lines)})


def encode_epochs(epochs: EpochCache) -> bytes:
    lines = "".join(f"{entry.epoch} {entry.start_offset}\n" for entry in epochs)
    return seal(EPOCHS_KIND, lines.encode())


def decode_epochs(content: bytes) -> list[EpochEntry]:
    """Return the inverse of `encode_epochs`; `ValueError` if it is not sound."""
    lines = unseal(EPOCHS_KIND, content).decode().splitlines()
    return [EpochEntry(*map(int, line.split(" "))) for line in lines]
