"""One node of a local cluster: its files, and the process that may be running."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lograft.clients.local.errors import LocalClusterError
from lograft.clients.local.layout import Layout, to_toml
from lograft.clients.local.secret import make_secret
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.files import FileLocked, is_without_room
from lograft.runtime.process.child_processes import ProcessIdentity, ProcessState, start_process
from lograft.runtime.process.http_probe import get_page

_READY_TIMEOUT_SECONDS = 1.0
_SHOWN_LINES = 3
_PROCESS_BYTES = 256
_HTTP_OK = 200


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """`state` is ready, starting, paused, stopping or down; `reason` says why it is not ready, where that is known."""

    state: str
    process_id: int | None
    reason: str = ""


class LocalNode:
    """Node `number`. Whether it runs is asked of the machine each time: other commands start and stop it, too."""

    def __init__(self, cluster_directory: Path, layout: Layout, number: int) -> None:
        self.number = number
        self.layout = layout
        self.directory = cluster_directory / f"node-{number}"
        # Not `.log`, which is what segments are called.
        self.output_path = self.directory / "output.txt"
        self._process_path = self.directory / "process.json"

    # -- the process

    @property
    def process(self) -> ProcessIdentity | None:
        """The one that was started last, whatever has become of it."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            fields = json.loads(self._process_path.read_text())
            return ProcessIdentity(int(fields["process_id"]), int(fields["started"]), str(fields["boot"]))
        return None

    @property
    def process_state(self) -> ProcessState:
        process = self.process
        return process.state if process is not None else ProcessState.GONE

    @property
    def is_up(self) -> bool:
        """True if any process of the node lives."""
        return self.process_state is not ProcessState.GONE or bool(self.processes)

    @property
    def is_paused(self) -> bool:
        return self.process_state is ProcessState.PAUSED

    @property
    def processes(self) -> list[ProcessIdentity]:
        """The living processes of the node, the main one first."""
        process = self.process
        return process.session() if process is not None else []

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to every process of the node. Return False if there is none."""
        # The main process comes first, so that it starts no new one for one that ends.
        reached = [process.send(number) for process in self.processes]
        return any(reached)

    def start(self) -> None:
        """`LocalClusterError` if its files cannot be written: then nothing was started."""
        assert not self.is_up
        try:
            self._start()
        except OSError as error:
            raise LocalClusterError(
                f"node {self.number} was not started: {error.filename or self.directory}: {error.strerror}",
                "make room on that disk, then start it again"
                if is_without_room(error)
                else "see that the directory can be written",
            ) from None

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        secret_file = make_secret(self.directory.parent)
        config = self.layout.node_config(self.number, str(self.directory / "data"), str(secret_file))
        config_path = self.directory / "node.toml"
        config_path.write_text("# Written by `lograft dev` at every start.\n" + to_toml(config))
        variables = {f"LOGRAFT_{key.upper()}" for key in config}
        self._make_room_for_process()
        identity = start_process(
            # Without -P, a folder called lograft in the working directory would be taken for the program.
            [sys.executable, "-P", "-m", "lograft", "server", "--config", str(config_path)],
            output_path=str(self.output_path),
            directory=str(self.directory),
            variables={name: value for name, value in os.environ.items() if name not in variables},
        )
        try:
            self._note_process(identity)
        except BaseException:
            identity.send(signal.SIGKILL)  # nobody would find it
            raise

    def _make_room_for_process(self) -> None:
        """Reserve room for the note of the process, so that a full disk fails before the process is started."""
        self._process_path.with_suffix(".tmp").write_text(" " * _PROCESS_BYTES)

    def _note_process(self, identity: ProcessIdentity) -> None:
        """Over what `_make_room_for_process` wrote, so that it takes no room."""
        fields = {"process_id": identity.process_id, "started": identity.started, "boot": identity.boot}
        temporary = self._process_path.with_suffix(".tmp")
        with temporary.open("r+") as file:
            file.write((json.dumps(fields) + "\n").ljust(_PROCESS_BYTES))
        temporary.replace(self._process_path)

    def ask_to_stop(self) -> None:
        """Ask the main process to stop; a paused node is resumed to hear it."""
        process = self.process
        if process is not None and process.send(signal.SIGTERM):
            self.send(signal.SIGCONT)
        else:
            self.send(signal.SIGKILL)  # nothing is left that could stop the others

    def forget(self) -> None:
        """It is down because it should be."""
        self._process_path.unlink(missing_ok=True)

    @property
    def is_wanted(self) -> bool:
        """It was started, and not taken down since; it may have been killed."""
        return self._process_path.exists()

    @contextlib.contextmanager
    def being_started(self) -> Iterator[None]:
        """Nobody else starts it meanwhile."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with locked(self.directory / "dev.lock", f"node {self.number}"):
            yield

    # -- how it is

    def status(self) -> NodeStatus:
        process = self.process
        state = process.state if process is not None else ProcessState.GONE
        if process is None or state is ProcessState.GONE:
            if left := len(self.processes):
                return NodeStatus("stopping", None, f"{left} of its processes still run")
            return NodeStatus("down", None)
        if state is ProcessState.PAUSED:
            return NodeStatus("paused", process.process_id)
        page = get_page(self.layout.http_address(self.number), "/readyz", _READY_TIMEOUT_SECONDS)
        if page is not None and page.status == _HTTP_OK:
            return NodeStatus("ready", process.process_id)
        return NodeStatus("starting", process.process_id, page.text.strip() if page is not None else "no answer yet")

    def last_words(self) -> str:
        """The end of its output: if it refused to start, that says why."""
        try:
            lines = self.output_path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "it wrote nothing"
        plain = [line for line in lines[-_SHOWN_LINES:] if line.startswith("Error: ")]
        return plain[-1].removeprefix("Error: ") if plain else "\n".join(lines[-_SHOWN_LINES:])


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Held by this process alone, for as long as it lives."""
    try:
        lock = OsFiles().lock(str(path))
    except FileLocked:
        raise LocalClusterError(
            f"{what} is being started by another `lograft dev` command",
            "wait for that, and look at `lograft dev status`",
        ) from None
    try:
        yield
    finally:
        lock.release()
