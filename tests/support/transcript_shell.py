"""A shell in which transcripts are typed: a home and a cluster of its own, and the same names each time."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from support.free_ports import PORTS_OF_DEV, free_port
from support.server_processes import variables
from support.transcripts import Step

DEADLINE_SECONDS = 120
DOCUMENTED_PORT = 9092
_WIDEST_PORT = 9_999 - PORTS_OF_DEV  # as many digits as in documents, so that tables look the same

S = TypeVar("S", bound="Shell")


class Shell:
    """Runs commands one after the other, in a home directory of its own. Ports and directories are told as documents
    have them. `knows_cluster`: where it is need not be said."""

    def __init__(self, home: Path, port: int, *, knows_cluster: bool = True) -> None:
        self._home = home
        self._port = port
        self._knows_cluster = knows_cluster
        home.mkdir(parents=True, exist_ok=True)

    def as_kind(self, kind: type[S]) -> S:
        """One of another kind, in the same home and with the same cluster."""
        return kind(self._home, self._port, knows_cluster=self._knows_cluster)

    def run(self, step: Step) -> list[str]:
        """The lines of its answer."""
        done = subprocess.run(
            ["bash", "-c", self._with_own_ports(step.command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=DEADLINE_SECONDS,
            cwd=self._home,
            env=self._variables(),
        )
        return self._answer(done.stdout.decode(), done.returncode)

    def _answer(self, output: str, code: int) -> list[str]:
        lines = self._as_documented(output).splitlines()
        return [*(line.rstrip() for line in lines), *([f"[exit {code}]"] if code else [])]

    def _variables(self) -> dict[str, str]:
        inherited = {name: value for name, value in variables().items() if not name.startswith(("XDG_", "LOGRAFT_"))}
        own = {
            "HOME": str(self._home),
            "TMPDIR": str(self._home),
            "PATH": f"{Path(sys.executable).parent}:{inherited['PATH']}",
            "COLUMNS": "120",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        return inherited | own | ({"LOGRAFT_BOOTSTRAP": f"127.0.0.1:{self._port}"} if self._knows_cluster else {})

    def _with_own_ports(self, command: str) -> str:
        moved = re.sub(r"(?<=:)90\d\d\b", lambda found: str(int(found[0]) - DOCUMENTED_PORT + self._port), command)
        return moved.replace("lograft dev up", f"lograft dev up --port {self._port}")

    def _as_documented(self, text: str) -> str:
        def port(found: re.Match[str]) -> str:
            number = int(found[0])
            is_ours = self._port <= number < self._port + PORTS_OF_DEV
            return str(number - self._port + DOCUMENTED_PORT) if is_ours else found[0]

        return re.sub(r"(?:(?<=:)|(?<=port ))\d{4}\b", port, text).replace(str(self._home), "~")


@contextmanager
def shell(home: Path, *, knows_cluster: bool = True) -> Iterator[Shell]:
    """Whatever cluster is started in it is gone in the end."""
    port = free_port(PORTS_OF_DEV)
    while port > _WIDEST_PORT:
        port = free_port(PORTS_OF_DEV)
    opened = Shell(home, port, knows_cluster=knows_cluster)
    try:
        yield opened
    finally:
        opened.run(Step("lograft dev down", ()))


def start_cluster(opened: Shell) -> None:
    """Start a cluster without a context of its own: chapters show what a user has who made none."""
    answer = opened.run(Step("LOGRAFT_CONFIG=~/no-contexts lograft dev up --detach", ()))
    assert answer, "it says what it did"
    assert not answer[-1].startswith("[exit"), answer
