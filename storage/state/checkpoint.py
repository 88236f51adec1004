"""The two small files that say what a partition's segments cannot: its offsets, and its leader epochs. Pure."""

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
    """Offsets that must outlive the process. Each only ever understates what the disk holds."""

    log_start: int = 0
    recovery_point: int = 0  # all below it was fsynced: damage there is corruption, not a torn write
    first_dirty: int = 0  # compaction has cleaned all below it
    tombstones_removed_below: int = 0  # who has less than this cannot be brought up to date by appending
    cleaned_below: int = 0  # records may be missing because of later ones, which are all below this
    cleaned_in_epoch: int = -1  # the leader epoch in which that was so
    newest_segment: int = 0  # a segment with this base, or a later one, was made and is not to be missing
    resetting: int = 0  # 1: everything here is being given up, and the log continues, empty, at `log_start`
    lost_below: int = 0  # a log start up to here follows from damage: other replicas are not told to delete below it

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
