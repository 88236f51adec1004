"""A cluster of real processes to measure, started as a user starts one; and what the kernel tells of its processes."""

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Self

from lograft.clients.local.local_cluster import LocalCluster, find_cluster

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MeasuredCluster:
    """`lograft dev up --detach`, until the end of the `with`."""

    def __init__(self, directory: Path, nodes: int, port: int) -> None:
        self._directory = directory
        self._nodes = nodes
        self._port = port
        self.started_at = 0.0
        self.up: LocalCluster

    def __enter__(self) -> Self:
        self.started_at = perf_counter()
        self._dev("up", "--nodes", str(self._nodes), "--port", str(self._port), "--detach")
        up = find_cluster(self._directory)
        assert up is not None
        self.up = up
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._dev("down")

    @property
    def bootstrap(self) -> str:
        return self.up.layout.bootstrap

    @property
    def numbers(self) -> range:
        return self.up.layout.numbers

    def kill(self, number: int) -> None:
        self._dev("kill", str(number))

    def restart(self, number: int) -> None:
        """Returns when it is ready."""
        self._dev("restart", str(number))

    def resident_bytes(self, number: int) -> int:
        return int(self._process_file(number, "statm").split()[1]) * _PAGE_BYTES

    def processor_seconds(self) -> float:
        """Of all nodes together, since they were started."""
        seconds = 0.0
        for number in self.numbers:
            # Fields are counted behind the name, which may have blanks in it.
            fields = self._process_file(number, "stat").rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS
        return seconds

    def _process_file(self, number: int, name: str) -> str:
        process = self.up.node(number).process
        assert process is not None
        return Path(f"/proc/{process.process_id}/{name}").read_text()

    def _dev(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "lograft", "dev", *arguments, "--data-dir", str(self._directory)]
        # The user's contexts file stays as it is.
        environment = {**os.environ, "LOGRAFT_CONFIG": str(self._directory / "contexts.yaml")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
