"""What a data directory says of its own past: in which broker epoch it was last used, in a file of its own.

A copy of the directory that is put back later has an older epoch than the cluster remembers, by which it is known.
"""

from dataclasses import dataclass

from lograft.runtime.files import Files, read_whole, replace_file
from lograft.runtime.logging import get_logger
from lograft.storage.sealed_file import BrokenSeal, seal, unseal

log = get_logger(__name__)

USED_EPOCH_FILE = "used-epoch"
_KIND = "lograft-used-epoch-1"
_EPOCH = "broker_epoch"
_RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class DirectoryUse:
    """`used_epoch`: None if there is no note of one. `is_restored`: an operator has marked the directory as put back
    from a copy, and it was not used since."""

    used_epoch: int | None = None
    is_restored: bool = False


def read_use(files: Files, path: str) -> DirectoryUse:
    """Of the data directory at `path`. A damaged note is none: then the directory vouches for nothing."""
    file = f"{path}/{USED_EPOCH_FILE}"
    try:
        words = unseal(_KIND, read_whole(files, file)).decode().split()
    except FileNotFoundError:
        return DirectoryUse()
    except BrokenSeal as error:
        log.warning("used_epoch_damaged", path=file, reason=str(error))
        return DirectoryUse()
    return DirectoryUse(is_restored=True) if words == [_RESTORED] else DirectoryUse(int(words[1]))


def write_used_epoch(files: Files, path: str, epoch: int) -> None:
    """Durable when it returns."""
    replace_file(files, f"{path}/{USED_EPOCH_FILE}", seal(_KIND, f"{_EPOCH} {epoch}\n".encode()))


def write_restored(files: Files, path: str) -> None:
    """Mark the directory as put back from a copy. Durable when it returns."""
    replace_file(files, f"{path}/{USED_EPOCH_FILE}", seal(_KIND, f"{_RESTORED}\n".encode()))
