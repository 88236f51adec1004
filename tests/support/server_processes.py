"""`lograft server` and `lograft dev` as a person would run them: processes of this machine."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support.free_ports import free_address

from lograft.clients.local.secret import make_secret
from lograft.runtime.process.child_processes import wait_until
from lograft.runtime.process.http_probe import get_page

DEADLINE_SECONDS = 60.0

# Many processes are started here, and compiling the program anew for each takes longest.
_compiled = Path(tempfile.gettempdir()) / f"lograft-tests-{os.getuid()}-compiled"


def variables(**more: str) -> dict[str, str]:
    """This process's, without what would change a node or how output is written, and without contexts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOGRAFT_")}
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        kept.pop(name, None)
    # Where there can be no file, whatever a command does.
    return {**kept, "LOGRAFT_CONFIG": f"{os.devnull}/none", "PYTHONPYCACHEPREFIX": str(_compiled), **more}


def lograft(
    *arguments: str, timeout_seconds: float = DEADLINE_SECONDS, **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end. Whoever keeps its output open would make this fail by its timeout."""
    return subprocess.run(
        [sys.executable, "-m", "lograft", *arguments], capture_output=True, text=True, check=False,
        timeout=timeout_seconds, env=variables(**more), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def until(condition: Callable[[], bool], what: str, timeout_seconds: float = DEADLINE_SECONDS) -> None:
    assert wait_until(condition, timeout_seconds=timeout_seconds), f"not in {timeout_seconds} s: {what}"


class ServerProcess:
    """One node, with its files under `directory`. `changes`: keys of its configuration."""

    def __init__(
        self, directory: Path, node_id: int, controllers: Mapping[int, str], changes: Mapping[str, Any] | None = None
    ) -> None:
        self.node_id = node_id
        self.directory = directory / f"node-{node_id}"
        self.directory.mkdir(exist_ok=True)
        self.data_directory = self.directory / "data"
        self.address, self.http_address = free_address(), free_address()
        self.config: dict[str, Any] = {
            "cluster_secret_file": str(make_secret(directory)),
            "node_id": node_id,
            "cluster_id": "processes",
            "data_dirs": [str(self.data_directory)],
            "listen": self.address,
            "nodes_listen": free_address(),
            "http": self.http_address,
            "controllers": [f"{one}@{address}" for one, address in controllers.items()],
            **(changes or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def arguments(self) -> list[str]:
        """The configuration is written anew."""
        path = self.directory / "node.toml"
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in self.config.items()))
        return ["server", "--config", str(path)]

    def start(self, *before: str) -> None:
        """`before`: a command that runs another one, which is the node."""
        with (self.directory / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [*before, sys.executable, "-m", "lograft", *self.arguments], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, env=variables(),
            )  # fmt: skip

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """Nothing, of a node that was never started."""
        path = self.directory / "output"
        return path.read_text() if path.exists() else ""

    @property
    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.output.splitlines()]

    def readiness(self) -> str:
        page = get_page(self.http_address, "/readyz", 5)
        return page.text.strip() if page is not None else ""

    def is_ready(self) -> bool:
        assert self.is_running, self.output[-3000:]
        return self.readiness() == "ready"

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Once it has ended."""
        return self.process.wait(DEADLINE_SECONDS)

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.exit_code()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def servers(directory: Path, count: int, brokers: int = 0) -> Iterator[list[ServerProcess]]:
    """Nodes of one cluster, not started: `count` with both roles, and then `brokers` that are nothing else. Nothing is
    left of them in the end."""
    controllers = {number: free_address() for number in range(1, count + 1)}
    nodes = [ServerProcess(directory, number, controllers) for number in controllers]
    for number in range(count + 1, count + brokers + 1):
        nodes.append(ServerProcess(directory, number, controllers, {"roles": ["broker"]}))
    try:
        yield nodes
    finally:
        for node in nodes:
            if node.is_running:
                node.kill()


def start_all(nodes: list[ServerProcess]) -> None:
    for node in nodes:
        node.start()
    until(lambda: all(node.is_ready() for node in nodes), "all are ready")
