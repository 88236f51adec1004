"""A local cluster of real processes: found on disk, started, watched, stopped."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from lograft.clients.local.errors import LocalClusterError
from lograft.clients.local.layout import HOST, PORTS, Layout, UnknownLayout, layout_from_json
from lograft.clients.local.local_node import LocalNode
from lograft.runtime.process.child_processes import reap_children, wait_until
from lograft.runtime.process.host import is_port_free

LAYOUT_FILE = "cluster.json"

_LOOK_SECONDS = 0.05
_NOT_A_VOTER = "not a voter of the quorum"  # which does not change by itself
# A node in orderly shutdown waits up to 30 s for others to take over.
_STOP_SECONDS = 45.0
_KILL_SECONDS = 10.0


class LocalCluster:
    """The cluster in `directory`."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.directory = directory
        self.layout = layout
        self.nodes = [LocalNode(directory, layout, number) for number in layout.numbers]

    @property
    def up_nodes(self) -> list[LocalNode]:
        return [node for node in self.nodes if node.is_up]

    def node(self, number: int) -> LocalNode:
        if number not in self.layout.numbers:
            raise LocalClusterError(
                f"there is no node {number} in {self.directory}", f"its nodes are 1 to {self.layout.nodes}"
            )
        return self.nodes[number - 1]

    def save(self) -> None:
        temporary = self.directory / f"{LAYOUT_FILE}.tmp"
        temporary.write_text(self.layout.to_json())
        temporary.replace(self.directory / LAYOUT_FILE)


def find_cluster(directory: Path) -> LocalCluster | None:
    """The cluster that was made in `directory`, running or not."""
    path = directory / LAYOUT_FILE
    try:
        return LocalCluster(directory, layout_from_json(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, UnknownLayout) as error:
        raise LocalClusterError(
            f"{path} does not describe a cluster ({error})", "restore it, or choose another --data-dir"
        ) from None


def existing_cluster(directory: Path) -> LocalCluster:
    cluster = find_cluster(directory)
    if cluster is None:
        remedy = "start one with `lograft dev up`, or say with --data-dir where it is"
        raise LocalClusterError(f"there is no cluster in {directory}", remedy)
    return cluster


def check_ports(nodes: Sequence[LocalNode]) -> None:
    """Refuse if something else has a port that one of the nodes needs."""
    taken = [
        f"port {port} (node {node.number}, {use})"
        for node in nodes
        for use, address in node.layout.addresses(node.number).items()
        if not is_port_free(HOST, port := int(address.rpartition(":")[2]))
    ]
    if taken:
        raise LocalClusterError(
            f"taken by another process: {', '.join(taken)}",
            "stop what listens there, or choose other ports with --port; "
            f"a cluster takes them from there up to {PORTS - 1} more",
        )


def wait_ready(
    nodes: Sequence[LocalNode],
    timeout_seconds: float,
    is_interrupted: Callable[[], bool],
    tell: Callable[[str], object] = lambda line: None,
) -> None:
    """Wait until all nodes are ready, or until `is_interrupted()`. Raise `LocalClusterError` if one ends, or at the
    timeout. Call `tell` once for each node that needs somebody to act before it can be ready."""
    waiting = dict.fromkeys(nodes, "no answer yet")
    told: list[LocalNode] = []

    def look() -> bool:
        reap_children()
        for node in list(waiting):
            status = node.status()
            if status.state == "down":
                raise LocalClusterError(f"node {node.number} has ended: {node.last_words()}", _look_at_logs(node))
            if status.state == "ready":
                del waiting[node]
            else:
                waiting[node] = status.reason or status.state
                if _NOT_A_VOTER in waiting[node] and node not in told:
                    told.append(node)
                    tell(f"Waiting, for up to {timeout_seconds:.0f}s: node {node.number}: {waiting[node]}")
        return not waiting or is_interrupted()

    if not wait_until(look, timeout_seconds=timeout_seconds, every_seconds=_LOOK_SECONDS):
        reasons = "; ".join(f"node {node.number}: {reason}" for node, reason in waiting.items())
        raise LocalClusterError(
            f"not ready after {timeout_seconds:.0f} s: {reasons}", _look_at_logs(next(iter(waiting)))
        )


def _look_at_logs(node: LocalNode) -> str:
    return f"`lograft dev logs {node.number} --data-dir {node.directory.parent}` shows all it said"


def stop_nodes(nodes: Sequence[LocalNode], is_hurried: Callable[[], bool]) -> list[LocalNode]:
    """Have them end in an orderly way, all at once; those that would not, or that nobody has the patience for, are
    killed, and returned."""
    for node in nodes:
        node.ask_to_stop()

    def are_gone() -> bool:
        reap_children()
        return not any(node.is_up for node in nodes)

    wait_until(lambda: are_gone() or is_hurried(), timeout_seconds=_STOP_SECONDS)
    stubborn = [node for node in nodes if node.is_up]
    for node in stubborn:
        node.send(signal.SIGKILL)
    wait_until(are_gone, timeout_seconds=_KILL_SECONDS)
    return stubborn
