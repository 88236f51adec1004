"""One node of a live cluster: a real process, started as a user starts it, with faults of its process and machine."""

import os
import shutil
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path

from lograft.broker.node.controller_role import METADATA_FOLDER
from lograft.chaos.live.cluster.damage import damage_files, lose_files
from lograft.chaos.live.cluster.layout import LiveLayout
from lograft.chaos.live.cluster.power_failure import Lost, lose_power
from lograft.clients.local.layout import to_toml
from lograft.clients.local.secret import make_secret
from lograft.runtime.faults.settings import FaultSettings, write_settings
from lograft.runtime.process.child_processes import ProcessState
from lograft.runtime.process.http_probe import why_not_ready
from lograft.runtime.process.supervised_process import SupervisedProcess
from lograft.runtime.production.node_runtime import FAULTS_VARIABLE
from lograft.runtime.rng import Rng
from lograft.storage.log.data_directory import FAILED_FILE

_SOUND = asdict(FaultSettings())
_READY_SECONDS = 1.0


class LiveNode:
    """Node `number`. Its files and output remain after it ends."""

    def __init__(self, directory: Path, layout: LiveLayout, number: int) -> None:
        self.number = number
        self.directory = directory / f"node-{number}"
        self.output_path = self.directory / "output.txt"
        self.data = self.directory / "data"
        self._copy = self.directory / "copy"
        self._faults = self.directory / "faults"
        self._settings = FaultSettings()
        self._layout = layout
        self._config = self.directory / "node.toml"
        self._process = SupervisedProcess(
            [sys.executable, "-P", "-m", "lograft", "server", "--config", str(self._config)],
            self.output_path,
            directory=self.directory,
            variables=_inherited() | {FAULTS_VARIABLE: str(self._faults)},
        )

    @property
    def process_id(self) -> int | None:
        """The process id, or None if the node is down."""
        return self._process.process_id if self.is_up else None

    @property
    def is_up(self) -> bool:
        return self._process.is_running

    @property
    def is_paused(self) -> bool:
        return self._process.state is ProcessState.PAUSED

    def start(self) -> None:
        assert not self.is_up
        for directory in (self.data, self._faults):
            directory.mkdir(parents=True, exist_ok=True)
        secret_file = make_secret(self.directory.parent)
        config = self._layout.node_config(self.number, str(self.data), str(secret_file))
        self._config.write_text(to_toml(config))
        self._process.start()

    def kill(self) -> bool:
        """Send SIGKILL. Return False if there was no process."""
        # Do not wait for its end: the relays must keep running meanwhile.
        return self._process.send_all(signal.SIGKILL)

    def pause(self) -> bool:
        return self._process.pause()

    def resume(self) -> bool:
        return self._process.resume()

    def ask_to_stop(self) -> bool:
        return self._process.ask_to_stop()

    # -- its machine

    def change_machine(self, **changes: object) -> None:
        """Change the faults of its disk and clocks from now on. `changes` are fields of `FaultSettings`."""
        self._settings = replace(self._settings, **changes)  # type: ignore[arg-type]
        self._faults.mkdir(parents=True, exist_ok=True)
        write_settings(str(self._faults), self._settings)

    def mend_machine(self) -> None:
        """End all faults. The boot id remains, because the machine has not restarted."""
        self.change_machine(**{name: value for name, value in _SOUND.items() if name != "boot_id"})

    def lose_power(self, rng: Rng) -> Lost:
        """Lose unsynced data, and start another kernel. The process must have been killed at that moment."""
        assert not self.is_up
        lost = lose_power(self.data, self._faults, rng, durable=self.data / METADATA_FOLDER)
        # An operator who restarts the machine has inspected its disk, too.
        (self.data / FAILED_FILE).unlink(missing_ok=True)
        self.change_machine(boot_id=f"boot-{rng.uuid()}")
        return lost

    def damage(self, rng: Rng, *, is_careful: bool) -> str | None:
        """Damage one of its files. Return a description. See `damage_files`."""
        assert not self.is_up
        return damage_files(self.data, rng, is_careful=is_careful)

    def lose_files(self, rng: Rng) -> str | None:
        """Remove files of one of its partitions. Return a description. See `damage.lose_files`."""
        assert not self.is_up
        return lose_files(self.data, rng)

    def copy_data(self) -> None:
        """Keep a copy of all its data, for `put_data_back`."""
        assert not self.is_up
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.data, self._copy)

    def put_data_back(self) -> None:
        """Restore the copied data, without anything newer."""
        assert not self.is_up
        shutil.rmtree(self.data)
        shutil.copytree(self._copy, self.data)

    def lose_store(self) -> None:
        """Replace the disk with the metadata by an empty one."""
        assert not self.is_up
        shutil.rmtree(self.data / METADATA_FOLDER)

    def why_not_ready(self) -> str | None:
        """Return the reason, or None if the node is ready."""
        if not self.is_up:
            return "down"
        return why_not_ready(self._layout.own.http_address(self.number), _READY_SECONDS)


def _inherited() -> dict[str, str]:
    """Return the environment without lograft's variables, which are meant for this process only."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LOGRAFT_")}
