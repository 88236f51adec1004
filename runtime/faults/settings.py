"""The current faults of a node's machine, set by a test in a file that may change at any time.

`LOGRAFT_FAULTS` names the directory with that file. It is only for tests of whole clusters: without the variable, a
node does not even import this package.
"""

import json
import os
from dataclasses import asdict, dataclass
from time import monotonic

SETTINGS_FILE = "settings.json"

_LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """Faults of one machine.

    `boot_id`: the simulated boot id; empty for the real one. `is_full`: the disk accepts no more bytes. `fails_syncs`:
    syncs raise EIO. `lies_about_syncs`: syncs return, but nothing becomes durable; no guarantee holds on such a disk.
    `write_delay_ms`, `sync_delay_ms`: the most extra time of a write or sync. `wall_offset_ms`: the error of the wall
    clock. `clock_rate`: how fast time passes for the node."""

    boot_id: str = ""
    is_full: bool = False
    fails_syncs: bool = False
    lies_about_syncs: bool = False
    write_delay_ms: float = 0.0
    sync_delay_ms: float = 0.0
    wall_offset_ms: int = 0
    clock_rate: float = 1.0


def read_settings(directory: str) -> FaultSettings:
    """Return the settings in the directory; without a file, return those without faults."""
    try:
        with open(f"{directory}/{SETTINGS_FILE}", encoding="utf-8") as file:
            return FaultSettings(**json.load(file))
    except FileNotFoundError:
        return FaultSettings()


def write_settings(directory: str, settings: FaultSettings) -> None:
    """Replace the settings atomically, so that concurrent readers see a complete file."""
    temporary = f"{directory}/{SETTINGS_FILE}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(asdict(settings), file)
    os.replace(temporary, f"{directory}/{SETTINGS_FILE}")


class FaultSwitch:
    """The current settings, at most a few milliseconds old. May be used from any thread."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._version = self._version_now()
        self._settings = read_settings(directory)
        self._looked_seconds = monotonic()

    @property
    def settings(self) -> FaultSettings:
        now_seconds = monotonic()
        if now_seconds - self._looked_seconds >= _LOOK_SECONDS:
            self._looked_seconds = now_seconds
            version = self._version_now()
            if version != self._version:
                self._version = version
                self._settings = read_settings(self.directory)
        return self._settings

    def _version_now(self) -> tuple[int, int]:
        """Return a version of the settings: each write creates another file."""
        try:
            status = os.stat(f"{self.directory}/{SETTINGS_FILE}")
        except FileNotFoundError:
            return 0, 0
        return status.st_ino, status.st_mtime_ns
