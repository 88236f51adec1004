"""`lograft dev ...`: run a local cluster of real processes."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from lograft.cli.common.cluster_options import Settings, command_flags
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.common_flags import FORMATS
from lograft.cli.resources.dev_status import write_status
from lograft.clients.local.layout import DEFAULT_NODES, DEFAULT_PORT, HIGHEST_PORT, MAX_NODES, Layout
from lograft.clients.local.local_cluster import (
    LocalCluster,
    check_ports,
    existing_cluster,
    find_cluster,
    stop_nodes,
    wait_ready,
)
from lograft.clients.local.local_node import LocalNode, locked
from lograft.runtime.process.child_processes import reap_children, wait_until
from lograft.runtime.rng import system_rng

_READY_SECONDS = 60.0
_FOLLOW_SECONDS = 24 * 3600.0
_WATCH_SECONDS = 0.2
_KILL_SECONDS = 10.0


def default_directory() -> str:
    data_home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data_home, "lograft", "dev")


def _data_directory(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--data-dir", "directory", default=default_directory, show_default="~/.local/share/lograft/dev", metavar="DIR",
        callback=lambda _context, _parameter, value: Path(value).absolute(),
        help="Directory of the cluster. Selects the cluster.",
    )(command)  # fmt: skip


_number = click.argument("number", metavar="N", type=int)


@click.group()
def dev() -> None:
    """Run a local cluster of real processes on 127.0.0.1. Nodes are numbered from 1."""


# -- the whole cluster


@dev.command()
@click.option("--nodes", type=click.IntRange(1, MAX_NODES), metavar="N",
              help=f"How many; {DEFAULT_NODES} for a new cluster.")  # fmt: skip
@_data_directory
@click.option("--port", type=click.IntRange(1, HIGHEST_PORT), metavar="PORT",
              help=f"Client port of node 1.  [default: {DEFAULT_PORT}] The other nodes use the next ports. Controllers "
              "listen 10 ports above, HTTP 20, brokers among themselves 40.")  # fmt: skip
@click.option("--detach", is_flag=True, help="Return when the cluster is ready and leave it running.")
def up(nodes: int | None, directory: Path, port: int | None, detach: bool) -> None:
    """Start the cluster: a new one, or the one that was here before. Stays in front until Ctrl+C, which stops it."""
    with _interruptions() as interrupted:
        _make_directory(directory)
        with locked(directory / "dev.lock", f"the cluster in {directory}"):
            cluster = _plan(directory, nodes, port)
            _start(cluster, interrupted)
        if interrupted.count == 0:
            click.echo(f"The cluster is ready: {_count(cluster.layout.nodes)}, bootstrap {cluster.layout.bootstrap}")
            if not os.environ.get("LOGRAFT_BOOTSTRAP"):
                told = "So that commands find it, whichever of its nodes are up"
                click.echo(f"{told}: export LOGRAFT_BOOTSTRAP={cluster.layout.bootstrap}", err=True)
            if detach:
                click.echo(f"Stop it with `lograft dev down{_same_directory(directory)}`.", err=True)
                return
            click.echo("Ctrl+C stops it.", err=True)
            _watch(cluster, interrupted)
        if interrupted.count > 0:
            click.echo("Stopping the cluster (press Ctrl+C again to kill it) ...", err=True)
            _stop(cluster, lambda: interrupted.count > 1)


@dev.command()
@_data_directory
def down(directory: Path) -> None:
    """Stop all nodes gracefully. Their data is kept."""
    cluster = existing_cluster(directory)
    if not cluster.up_nodes:
        click.echo("No node was running.", err=True)
    with _interruptions() as interrupted:
        _stop(cluster, lambda: interrupted.count > 0)


@dev.command()
@_data_directory
@command_flags(*FORMATS, has_titles=True, asks_cluster=False)
def status(settings: Settings, directory: Path) -> None:
    """Show the state of each node."""
    cluster = existing_cluster(directory)
    write_status(cluster, [(node, node.status()) for node in cluster.nodes], settings)


# -- single nodes


@dev.command()
@_number
@_data_directory
def kill(number: int, directory: Path) -> None:
    """Kill node N with SIGKILL, as a crash would."""
    node = _running_node(directory, number)
    node.send(signal.SIGKILL)
    if not wait_until(lambda: not node.is_up, timeout_seconds=_KILL_SECONDS):
        raise CommandError(f"node {number} does not die", "its process may hang in the kernel: check `dmesg`")
    click.echo(f"node {number} killed")


@dev.command()
@_number
@_data_directory
def pause(number: int, directory: Path) -> None:
    """Pause node N with SIGSTOP. It keeps its connections but does not respond."""
    _running_node(directory, number).send(signal.SIGSTOP)
    click.echo(f"node {number} paused")


@dev.command()
@_number
@_data_directory
def resume(number: int, directory: Path) -> None:
    """Resume paused node N."""
    _running_node(directory, number).send(signal.SIGCONT)
    click.echo(f"node {number} resumed")


@dev.command()
@_number
@_data_directory
def restart(number: int, directory: Path) -> None:
    """Start node N and wait until it is ready. If it is running, stop it gracefully first."""
    node = existing_cluster(directory).node(number)
    with _interruptions() as interrupted, node.being_started():
        if node.is_up:
            _report_killed(stop_nodes([node], lambda: interrupted.count > 0))
        check_ports([node])
        node.start()
        wait_ready([node], _READY_SECONDS, lambda: interrupted.count > 0, _tell)
    if interrupted.count > 0:
        raise click.Abort
    click.echo(f"node {number} ready")


@dev.command()
@_number
@_data_directory
@click.option("-f", "--follow", is_flag=True, help="Go on with what is added, until Ctrl+C.")
def logs(number: int, directory: Path, follow: bool) -> None:
    """Print what node N has logged."""
    node = existing_cluster(directory).node(number)
    try:
        file = node.output_path.open("rb")
    except FileNotFoundError:
        raise CommandError(
            f"node {number} has logged nothing yet", f"start it with `lograft dev restart {number}`"
        ) from None
    with file:
        while True:
            while chunk := file.read(1 << 16):
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            if not follow:
                return
            size = file.tell()
            wait_until(
                lambda size=size: node.output_path.stat().st_size > size,  # type: ignore[misc]
                timeout_seconds=_FOLLOW_SECONDS,
                every_seconds=_WATCH_SECONDS,
            )


# -- parts


def _tell(line: str) -> None:
    click.echo(line, err=True)


class _Interruptions:
    """The number of signals received that ask this command to end."""

    count = 0


@contextmanager
def _interruptions() -> Iterator[_Interruptions]:
    """Count Ctrl+C and termination signals instead of ending at once, because nodes must be stopped first."""
    counted = _Interruptions()

    def count(_number: int, _frame: object) -> None:
        counted.count += 1

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, count) for number in signals}
    try:
        yield counted
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot create {directory}: {error.strerror}", "choose another --data-dir") from None


def _plan(directory: Path, nodes: int | None, port: int | None) -> LocalCluster:
    """Return the cluster to start. Options that are not given keep their former values."""
    former = find_cluster(directory)
    if former is None:
        cluster_id = f"dev-{system_rng().uuid().hex[:12]}"
        return LocalCluster(directory, Layout(cluster_id, nodes or DEFAULT_NODES, port or DEFAULT_PORT))
    here = _same_directory(directory)
    if running := former.up_nodes:
        numbers = ", ".join(str(node.number) for node in running)
        raise CommandError(
            f"the cluster in {directory} is running already (up: {numbers} of {former.layout.nodes} nodes, bootstrap "
            f"{former.layout.bootstrap})",
            f"`lograft dev status{here}` tells how it is, `lograft dev restart N{here}` starts a node that is down, "
            f"`lograft dev down{here}` stops it",
        )
    if nodes not in (None, former.layout.nodes):
        raise CommandError(
            f"the cluster in {directory} has {former.layout.nodes} nodes, not {nodes}",
            f"leave --nodes out, or choose another --data-dir, or remove {directory} with all its data",
        )
    return LocalCluster(directory, Layout(former.layout.cluster_id, former.layout.nodes, port or former.layout.port))


def _start(cluster: LocalCluster, interrupted: _Interruptions) -> None:
    check_ports(cluster.nodes)
    cluster.save()
    click.echo(f"Starting {_count(cluster.layout.nodes)} in {cluster.directory} ...", err=True)
    try:
        for node in cluster.nodes:
            node.start()
        wait_ready(cluster.nodes, _READY_SECONDS, lambda: interrupted.count > 0, _tell)
    except BaseException:
        _stop(cluster, lambda: interrupted.count > 0)
        raise


def _watch(cluster: LocalCluster, interrupted: _Interruptions) -> None:
    """Watch the nodes until this command is interrupted or `dev down` stops them. Report nodes that stop or start."""
    was_up = dict.fromkeys(cluster.nodes, True)

    def look() -> bool:
        reap_children()
        for node, before in was_up.items():
            was_up[node] = node.is_up
            if was_up[node] != before:
                click.echo(f"node {node.number} is {'up again' if was_up[node] else 'down'}", err=True)
        return interrupted.count > 0 or not any(node.is_wanted for node in cluster.nodes)

    while not wait_until(look, timeout_seconds=_FOLLOW_SECONDS, every_seconds=_WATCH_SECONDS):
        pass


def _stop(cluster: LocalCluster, is_hurried: Callable[[], bool]) -> None:
    _report_killed(stop_nodes(cluster.up_nodes, is_hurried))
    for node in cluster.nodes:
        node.forget()
    click.echo("The cluster is down.", err=True)


def _report_killed(nodes: list[LocalNode]) -> None:
    for node in nodes:
        click.echo(f"node {node.number} did not stop in time and was killed", err=True)


def _running_node(directory: Path, number: int) -> LocalNode:
    node = existing_cluster(directory).node(number)
    if not node.is_up:
        raise CommandError(
            f"node {number} is not running", f"start it with `lograft dev restart {number}{_same_directory(directory)}`"
        )
    return node


def _same_directory(directory: Path) -> str:
    """Return the flag that selects the same cluster in another command, or an empty string for the default one."""
    return "" if str(directory) == default_directory() else f" --data-dir {directory}"


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"
