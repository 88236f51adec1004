"""Real nodes: `lograft server`, and the Raft and controller programs of the tests; and `lograft` as a user runs it."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support.free_ports import free_address

from lograft.clients.local.secret import make_secret
from lograft.runtime.process.child_processes import wait_until
from lograft.runtime.process.http_probe import why_not_ready
from lograft.runtime.process.supervised_process import SupervisedProcess

DEADLINE_SECONDS = 60.0
LOGRAFT = [sys.executable, "-m", "lograft"]
_TESTS = str(Path(__file__).resolve().parents[1])

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
        [*LOGRAFT, *arguments], capture_output=True, text=True, check=False,
        timeout=timeout_seconds, env=variables(**more), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def until(condition: Callable[[], bool], what: str, timeout_seconds: float = DEADLINE_SECONDS) -> None:
    assert wait_until(condition, timeout_seconds=timeout_seconds), f"not in {timeout_seconds} s: {what}"


class NodeProcess(SupervisedProcess):
    """One node. Its output and `data_directory` are in `directory`/node-N."""

    def __init__(self, directory: Path, node_id: int, address: str, **more: str) -> None:
        """`more`: variables of its environment."""
        self.node_id = node_id
        self.address = address
        self.directory = directory / f"node-{node_id}"
        self.directory.mkdir(exist_ok=True)
        self.data_directory = self.directory / "data"
        super().__init__([], self.directory / "output", variables=variables(**more))


class QuorumProcess(NodeProcess):
    """A node that runs `program`, raft_process.py or controller_process.py."""

    def __init__(
        self, program: Path, directory: Path, node_id: int, cluster_id: str, controllers: Mapping[int, str]
    ) -> None:
        super().__init__(directory, node_id, controllers[node_id], PYTHONPATH=_TESTS)
        self.command = [
            sys.executable, str(program), "--cluster", cluster_id, "--node", str(node_id),
            "--directory", str(self.data_directory), *(f"{node}@{address}" for node, address in controllers.items()),
        ]  # fmt: skip

    def start_second(self) -> "subprocess.CompletedProcess[str]":
        """Run the same program once more, beside the first, to its end."""
        return subprocess.run(
            self.command, capture_output=True, text=True, check=False, timeout=30, stdin=subprocess.DEVNULL,
            env=self.variables,
        )  # fmt: skip

    def wipe(self) -> None:
        assert not self.is_running
        shutil.rmtree(self.data_directory)


class ServerProcess(NodeProcess):
    """A node that runs `lograft server`. `changes`: keys of its configuration."""

    def __init__(
        self, directory: Path, node_id: int, controllers: Mapping[int, str], changes: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(directory, node_id, free_address())
        self.http_address = free_address()
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

    @property
    def arguments(self) -> list[str]:
        """The configuration is written anew."""
        path = self.directory / "node.toml"
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in self.config.items()))
        return ["server", "--config", str(path)]

    def start(self, *before: str) -> None:
        """`before`: a command that runs another one, which is the node."""
        self.command = [*before, *LOGRAFT, *self.arguments]
        super().start()

    @property
    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.output.splitlines()]

    def readiness(self) -> str:
        return why_not_ready(self.http_address, 5) or "ready"

    def is_ready(self) -> bool:
        return self.readiness() == "ready"

    def until_ready(self) -> None:
        self.wait_until(self.is_ready, "it is ready")


@contextlib.contextmanager
def servers(directory: Path, count: int, brokers: int = 0) -> Iterator[list[ServerProcess]]:
    """Nodes of one cluster, not started: `count` with both roles, and then `brokers` that are nothing else. Nothing is
    left of them in the end."""
    controllers = {number: free_address() for number in range(1, count + 1)}
    nodes = [ServerProcess(directory, number, controllers) for number in controllers]
    for number in range(count + 1, count + brokers + 1):
        nodes.append(ServerProcess(directory, number, controllers, {"roles": ["broker"]}))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(node) for node in nodes]


def start_all(nodes: list[ServerProcess]) -> None:
    for node in nodes:
        node.start()
    for node in nodes:
        node.until_ready()
