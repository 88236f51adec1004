"""The note in a data directory of the broker epoch it was last used in.

A copy of the directory that an operator restores later has an older epoch than the cluster recorded, which exposes it.
The note also says that the directory has a file `high-watermarks`: a directory without it cannot distinguish a lost log
from a new one, so it is not trusted. Versions that did not always write that file left the line out, so notes without
it are accepted.
"""

from dataclasses import dataclass

from lograft.runtime.files import Files, read_whole, replace_file
from lograft.runtime.observability.logging import get_logger
from lograft.storage.files.sealed_file import BrokenSeal, seal, unseal
from lograft.storage.state.watermarks_file import WATERMARKS_FILE, make_watermarks, read_watermarks

log = get_logger(__name__)

USED_EPOCH_FILE = "used-epoch"
_KIND = "lograft-used-epoch-1"
_EPOCH = "broker_epoch"
_HAS = "has"
_RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class RecordedUse:
    """`used_epoch`: None if none was noted. `is_restored`: an operator marked the directory as restored from a copy,
    and it was not used since. `damage`: which of the directory's own files is missing or damaged in a way no crash
    explains; None if sound."""

    used_epoch: int | None = None
    is_restored: bool = False
    damage: str | None = None


def read_use(files: Files, path: str) -> RecordedUse:
    """Return the use recorded in the data directory at `path`, and its damage."""
    words: list[str] = []
    damage = None
    try:
        words = unseal(_KIND, read_whole(files, f"{path}/{USED_EPOCH_FILE}")).decode().split()
    except FileNotFoundError:
        pass
    except BrokenSeal:
        damage = f"{USED_EPOCH_FILE} is damaged"
    damage = damage or _watermarks_damage(files, path, is_noted=words[2:] == [_HAS, WATERMARKS_FILE])
    if damage is not None:
        log.error("directory_damaged", path=path, reason=damage)
    if not words or words == [_RESTORED]:
        return RecordedUse(is_restored=bool(words), damage=damage)
    return RecordedUse(int(words[1]), damage=damage)


def write_used_epoch(files: Files, path: str, epoch: int) -> None:
    """Note the epoch, and create `high-watermarks` first if it is missing. Durable on return.

    A crash in between leaves a directory with the file whose note does not mention it yet.
    """
    make_watermarks(files, path)
    content = f"{_EPOCH} {epoch}\n{_HAS} {WATERMARKS_FILE}\n"
    replace_file(files, f"{path}/{USED_EPOCH_FILE}", seal(_KIND, content.encode()))


def write_restored(files: Files, path: str) -> None:
    """Mark the directory as restored from a copy. Durable on return."""
    replace_file(files, f"{path}/{USED_EPOCH_FILE}", seal(_KIND, f"{_RESTORED}\n".encode()))


def _watermarks_damage(files: Files, path: str, *, is_noted: bool) -> str | None:
    try:
        read_watermarks(files, path)
    except FileNotFoundError:
        return f"{WATERMARKS_FILE} is missing" if is_noted else None
    except BrokenSeal:
        return f"{WATERMARKS_FILE} is damaged"
    return None
