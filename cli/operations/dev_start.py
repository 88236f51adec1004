"""Plan and carry out `lograft dev up`: start a new cluster, the missing nodes of one, or brokers to add to one."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from lograft.cli.common.command_error import CommandError
from lograft.cli.operations.dev_context import same_directory
from lograft.clients.local.layout import DEFAULT_NODES, DEFAULT_PORT, new_layout
from lograft.clients.local.local_cluster import LocalCluster, check_ports, find_cluster, stop_nodes, wait_ready
from lograft.clients.local.local_node import LocalNode
from lograft.runtime.rng import system_rng

_READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class StartPlan:
    """The cluster as it will be. `starting`: its nodes that are down. `running`: those that are up, which stay as they
    are. `added`: the numbers of nodes that an existing cluster gets."""

    cluster: LocalCluster
    starting: Sequence[LocalNode]
    running: Sequence[LocalNode]
    added: Sequence[int] = ()

    @property
    def announcement(self) -> str:
        """One line that describes the start."""
        every, numbers = count(self.cluster.layout.nodes), [node.number for node in self.starting]
        if not numbers:
            return f"Nothing to start: {every} up in {self.cluster.directory}."
        what = f"{node_list(numbers)} of {self.cluster.layout.nodes}" if self.running else every
        new = f" ({node_list(self.added)} {'is' if len(self.added) == 1 else 'are'} new)" if self.added else ""
        return f"Starting {what} in {self.cluster.directory}{new} ..."

    @property
    def advice(self) -> list[str]:
        """What the user of a grown cluster should know."""
        if not self.added:
            return []
        controllers = self.cluster.layout.controllers
        voters = "node 1" if controllers == 1 else f"nodes 1 to {controllers}"
        are = "is a broker" if len(self.added) == 1 else "are brokers"
        return [
            f"{node_list(self.added).capitalize()} {are} only; the quorum stays on {voters}. `lograft reassign run` "
            "moves existing partitions to new brokers."
        ]


def plan_start(directory: Path, nodes: int | None, port: int | None) -> StartPlan:
    """Plan what `dev up` starts. Options that are None stay as they were."""
    former = find_cluster(directory)
    if former is None:
        cluster_id = f"dev-{system_rng().uuid().hex[:12]}"
        cluster = LocalCluster(directory, new_layout(cluster_id, nodes or DEFAULT_NODES, port or DEFAULT_PORT))
        return StartPlan(cluster, cluster.nodes, [])
    layout, here = former.layout, same_directory(directory)
    if nodes is not None and nodes < layout.nodes:
        raise CommandError(
            f"the cluster in {directory} has {layout.nodes} nodes, not {nodes}",
            f"leave --nodes out to start all of them; to do without a broker, run `lograft drain broker N` and "
            f"`lograft dev kill N{here}`; for another cluster, choose another --data-dir and --port",
        )
    if former.up_nodes and port not in (None, layout.port):
        raise CommandError(
            f"the cluster in {directory} is running on port {layout.port}, not {port}",
            f"leave --port out, or stop the cluster first with `lograft dev down{here}`",
        )
    cluster = LocalCluster(directory, layout.grown(nodes or layout.nodes).moved(port or layout.port))
    running = [node for node in cluster.nodes if node.is_up]
    starting = [node for node in cluster.nodes if node not in running]
    return StartPlan(cluster, starting, running, cluster.layout.numbers[layout.nodes :])


def start(plan: StartPlan, is_interrupted: Callable[[], bool]) -> None:
    """Start the planned nodes, and wait until every node that is not paused is ready. If a node does not start, stop
    those that were started, and no others."""
    with contextlib.ExitStack() as locks:
        check_ports(plan.starting)
        plan.cluster.save()
        tell(plan.announcement)
        for node in plan.starting:
            locks.enter_context(node.being_started())
        try:
            for node in plan.starting:
                node.start()
            wait_ready(plan.starting, _READY_SECONDS, is_interrupted, tell)
        except BaseException:
            stop(plan.starting, is_interrupted)
            raise
    wait_ready([node for node in plan.running if not node.is_paused], _READY_SECONDS, is_interrupted, tell)


def stop(nodes: Sequence[LocalNode], is_hurried: Callable[[], bool]) -> None:
    report_killed(stop_nodes([node for node in nodes if node.is_up], is_hurried))
    for node in nodes:
        node.forget()


def report_killed(nodes: Sequence[LocalNode]) -> None:
    for node in nodes:
        tell(f"node {node.number} did not stop in time and was killed")


def tell(line: str) -> None:
    click.echo(line, err=True)


def count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def node_list(numbers: Sequence[int]) -> str:
    """`node 2`, or `nodes 2, 3`."""
    return f"node{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
