"""A cluster of real processes, for as long as a block lasts."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lograft.clients.errors import InvalidArgument
from lograft.clients.local.layout import HOST, MAX_NODES, PORTS
from lograft.clients.local.local_cluster import LocalCluster, find_cluster
from lograft.clients.option_checks import check_integer
from lograft.runtime.process.child_processes import run_module
from lograft.runtime.process.host import is_port_free
from lograft.runtime.rng import system_rng

# Below the ephemeral ports, so that no outgoing connection takes one while a node is restarted.
_FIRST_PORT, _LAST_PORT = 12_100, 31_000
_ATTEMPTS = 20


class ClusterFailed(Exception):
    """The cluster could not be started, or did not obey; the message has its whole output."""


class TestingCluster:
    """Nodes are 1 to `nodes`. `bootstrap`: for clients. `directory`: where the nodes' files are, `node-N/` each."""

    __test__ = False  # pytest takes it for a test otherwise

    def __init__(self, directory: Path, found: LocalCluster) -> None:
        self.directory = directory
        self.nodes = found.layout.nodes
        self.bootstrap = found.layout.bootstrap

    def kill(self, number: int) -> None:
        """kill -9."""
        self._dev("kill", number)

    def pause(self, number: int) -> None:
        """Stop the node in its tracks: it keeps its connections, and answers nobody."""
        self._dev("pause", number)

    def resume(self, number: int) -> None:
        self._dev("resume", number)

    def restart(self, number: int) -> None:
        """Start the node, after an orderly stop if it is up; returns when it is ready."""
        self._dev("restart", number)

    def _dev(self, command: str, number: int) -> None:
        check_integer("the number of a node", number, 1, self.nodes)
        exit_code, message = _run_dev(self.directory, command, str(number))
        if exit_code:
            raise ClusterFailed(message.strip())


@contextlib.contextmanager
def cluster(nodes: int = 1) -> Iterator[TestingCluster]:
    """A new, empty cluster on free ports of 127.0.0.1, which is ready. Its processes and files are gone afterwards."""
    check_integer("nodes", nodes, 1, MAX_NODES)
    directory = Path(tempfile.mkdtemp(prefix="lograft-testing-"))
    try:
        _start(directory, nodes)
        found = find_cluster(directory)
        assert found is not None
        yield TestingCluster(directory, found)
    finally:
        _run_dev(directory, "down")
        shutil.rmtree(directory, ignore_errors=True)


def _start(directory: Path, nodes: int) -> None:
    """Between the look for a port and its use somebody else may take it: then another is tried."""
    for _ in range(_ATTEMPTS):
        ports = str(_free_ports())
        exit_code, message = _run_dev(directory, "up", "--detach", "--nodes", str(nodes), "--port", ports)
        if exit_code == 0:
            return
        if "taken by another process" not in message:
            break
        shutil.rmtree(directory)
        directory.mkdir()
    raise ClusterFailed(f"the cluster did not start: {message.strip()}")


def _run_dev(directory: Path, *arguments: str) -> tuple[int, str]:
    """Run `lograft dev`. The contexts file is the cluster's own, so that tests leave the user's as it is."""
    contexts = {"LOGRAFT_CONFIG": str(directory / "contexts.yaml")}
    return run_module("lograft", "dev", *arguments, "--data-dir", str(directory), variables=contexts)


def _free_ports() -> int:
    rng = system_rng()
    for _ in range(_ATTEMPTS):
        first = rng.randrange(_FIRST_PORT, _LAST_PORT - PORTS)
        if all(is_port_free(HOST, port) for port in range(first, first + PORTS)):
            return first
    raise InvalidArgument(f"no {PORTS} free ports in a row from {_FIRST_PORT} to {_LAST_PORT}")
