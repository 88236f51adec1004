"""A node of a cluster as a real process on this machine."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO


class NodeProcess:
    """`program`, run as node `node_id`. Its files and its log are under `directory`; `kill` is kill -9."""

    def __init__(
        self, program: Path, node_id: int, cluster_id: str, directory: Path, controllers: Mapping[int, str]
    ) -> None:
        self.node_id = node_id
        self.address = controllers[node_id]
        self.directory = directory / f"node-{node_id}"
        self.log_path = directory / f"node-{node_id}.log"
        self._arguments = [
            sys.executable, str(program), "--cluster", cluster_id, "--node", str(node_id),
            "--directory", str(self.directory), *(f"{node}@{address}" for node, address in controllers.items()),
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def was_started(self) -> bool:
        return self._process is not None

    def check_running(self) -> None:
        assert self.is_running, f"node {self.node_id} has ended:\n{self.log_text()[-3000:]}"

    def start(self) -> None:
        assert not self.is_running
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE, stdout=self._log, stderr=self._log)

    def start_second(self) -> "subprocess.CompletedProcess[str]":
        """Run the same program once more, beside the first, to its end."""
        return subprocess.run(self._arguments, capture_output=True, text=True, check=False, timeout=30, input="")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._reap()

    def stop(self) -> int:
        """Let it end by itself; its exit code."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        return self._reap()

    def wipe(self) -> None:
        assert not self.is_running
        shutil.rmtree(self.directory)

    def log_text(self) -> str:
        return self.log_path.read_text()

    def _reap(self) -> int:
        assert self._process is not None
        assert self._log is not None
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()
        return code
