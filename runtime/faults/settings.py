"""What is wrong with a node's machine at the moment, as whoever tests it says, in a file that may change at any time.

`LOGRAFT_FAULTS` names the directory with that file. It is for tests of whole clusters alone: a node without the
variable knows nothing of all this, and does not even import it.
"""

import json
import os
from dataclasses import asdict, dataclass
from time import monotonic

SETTINGS_FILE = "settings.json"

_LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """`boot_id`: of the machine; empty: its own. `is_full`: no more bytes fit. `fails_syncs`: they raise EIO.
    `lies_about_syncs`: they return, and nothing is durable; no promise holds on such a disk. Each write or sync takes
    up to so much longer. `wall_offset_ms`: how wrong the calendar is. `clock_rate`: how fast time passes for the
    node."""

    boot_id: str = ""
    is_full: bool = False
    fails_syncs: bool = False
    lies_about_syncs: bool = False
    write_delay_ms: float = 0.0
    sync_delay_ms: float = 0.0
    wall_offset_ms: int = 0
    clock_rate: float = 1.0


def read_settings(directory: str) -> FaultSettings:
    """Without a file, nothing is wrong."""
    try:
        with open(f"{directory}/{SETTINGS_FILE}", encoding="utf-8") as file:
            return FaultSettings(**json.load(file))
    except FileNotFoundError:
        return FaultSettings()


def write_settings(directory: str, settings: FaultSettings) -> None:
    """At once and whole, for whoever reads at that moment."""
    temporary = f"{directory}/{SETTINGS_FILE}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(asdict(settings), file)
    os.replace(temporary, f"{directory}/{SETTINGS_FILE}")


class FaultSwitch:
    """The settings as they are, give or take a few milliseconds. From any thread."""

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
        """Each write of the settings makes another file."""
        try:
            status = os.stat(f"{self.directory}/{SETTINGS_FILE}")
        except FileNotFoundError:
            return 0, 0
        return status.st_ino, status.st_mtime_ns
