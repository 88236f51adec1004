"""Files that wait for a free descriptor instead of failing, for a data directory's writer."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from lograft.runtime.files import File, Files, Lock, is_shortage
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

T = TypeVar("T")

_PAUSE_SECONDS = 0.05
_SAID_EVERY = 200  # pauses


def _pause() -> None:
    time.sleep(_PAUSE_SECONDS)


class PatientFiles:
    """Wraps `files`, and retries calls that need a descriptor until one is free.

    So an operation of several steps either completes or fails because of the disk: a process without free descriptors
    is no reason to distrust a disk. Blocks, so use it only off the event loop.
    """

    def __init__(self, files: Files, pause: Callable[[], None] = _pause) -> None:
        self._files = files
        self._pause = pause

    def open(self, path: str) -> File:
        return self._tried(path, lambda: self._files.open(path))

    def create(self, path: str) -> File:
        return self._tried(path, lambda: self._files.create(path))

    def list_directory(self, path: str) -> list[str]:
        return self._tried(path, lambda: self._files.list_directory(path))

    def sync_directory(self, path: str) -> None:
        self._tried(path, lambda: self._files.sync_directory(path))

    def lock(self, path: str) -> Lock:
        return self._tried(path, lambda: self._files.lock(path))

    def _tried(self, path: str, opened: Callable[[], T]) -> T:
        pauses = 0
        while True:
            try:
                return opened()
            except OSError as error:
                if not is_shortage(error):
                    raise
                if pauses % _SAID_EVERY == 0:
                    log.error("writing_waits_for_a_descriptor", path=path, reason=error.strerror)
            pauses += 1
            self._pause()

    # -- calls without a descriptor

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def make_directory(self, path: str) -> None:
        self._files.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._files.rename(old, new)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def remove_directory(self, path: str) -> None:
        self._files.remove_directory(path)

    def sync_all(self, files: Sequence[File]) -> None:
        self._files.sync_all(files)

    def free_bytes(self, path: str) -> int:
        return self._files.free_bytes(path)

    def disk_bytes(self, path: str) -> int:
        return self._files.disk_bytes(path)
