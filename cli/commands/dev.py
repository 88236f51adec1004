"""`lograft dev ...`: run a local cluster of real processes."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from lograft.cli.common.cluster_options import Settings, command_flags
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.common_flags import FORMATS
from lograft.cli.operations.dev_context import default_directory, remove_context, same_directory, write_context
from lograft.cli.operations.dev_start import count, node_list, plan_start, report_killed, start, stop, tell
from lograft.cli.output.log_lines import LEVELS, LogFilter, LogLine, format_line, parse_line
from lograft.cli.output.resource_output import has_colours
from lograft.cli.resources.dev_status import write_status
from lograft.clients.local.layout import DEFAULT_NODES, DEFAULT_PORT, HIGHEST_PORT, MAX_NODES
from lograft.clients.local.local_cluster import (
    LocalCluster,
    check_ports,
    existing_cluster,
    stop_nodes,
    wait_ready,
)
from lograft.clients.local.local_node import LocalNode, locked
from lograft.clients.times import BadTime, Moment, parse_duration, parse_moment
from lograft.runtime.clock import LoopClock
from lograft.runtime.process.child_processes import reap_children, wait_until

_READY_SECONDS = 60.0
_FOLLOW_SECONDS = 24 * 3600.0
_WATCH_SECONDS = 0.2
_KILL_SECONDS = 10.0


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
              help=f"How many; {DEFAULT_NODES} for a new cluster. A higher number adds brokers.")  # fmt: skip
@_data_directory
@click.option("--port", type=click.IntRange(1, HIGHEST_PORT), metavar="PORT",
              help=f"Client port of node 1.  [default: {DEFAULT_PORT}] The other nodes use the next ports. Controllers "
              "listen 10 ports above, HTTP 20, brokers among themselves 40.")  # fmt: skip
@click.option("--detach", is_flag=True, help="Return when the cluster is ready and leave it running.")
def up(nodes: int | None, directory: Path, port: int | None, detach: bool) -> None:
    """Start a cluster, or those nodes of an existing one that are down.

    Nodes 1 to 3 are controllers and brokers, the others are brokers only. The command stays in front until Ctrl+C,
    which stops the whole cluster. It writes the context `dev` (`dev-PORT` with another --data-dir) and makes it current
    if no context is; `lograft dev down` removes it.

    \b
    Examples:
      # Start three nodes and return
      lograft dev up --detach
      # Add two brokers to them
      lograft dev up --nodes 5 --detach
    """
    with _interruptions() as interrupted:
        _make_directory(directory)
        with locked(directory / "dev.lock", f"the cluster in {directory}"):
            plan = plan_start(directory, nodes, port)
            start(plan, lambda: interrupted.count > 0)
        cluster = plan.cluster
        if interrupted.count > 0 and plan.running:
            tell(f"Stopping {node_list([node.number for node in plan.starting])} ...")
            stop(plan.starting, lambda: interrupted.count > 1)
            raise click.Abort
        if interrupted.count == 0:
            _tell_ready(cluster)
            for line in plan.advice:
                tell(line)
            write_context(directory, cluster.layout)
            if detach:
                tell(f"Stop it with `lograft dev down{same_directory(directory)}`.")
                return
            tell("Ctrl+C stops it.")
            _watch(cluster, interrupted)
        if interrupted.count > 0:
            tell("Stopping the cluster (press Ctrl+C again to kill it) ...")
            _stop(existing_cluster(directory), lambda: interrupted.count > 1)


@dev.command()
@_data_directory
def down(directory: Path) -> None:
    """Stop all nodes gracefully. Their data is kept."""
    cluster = existing_cluster(directory)
    if not cluster.up_nodes:
        tell("No node was running.")
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
    """Kill all processes of node N with SIGKILL, as a crash would."""
    node = _running_node(directory, number)
    # Again and again, because a process may have started another one meanwhile.
    if not wait_until(lambda: not node.send(signal.SIGKILL), timeout_seconds=_KILL_SECONDS):
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
            report_killed(stop_nodes([node], lambda: interrupted.count > 0))
        check_ports([node])
        node.start()
        wait_ready([node], _READY_SECONDS, lambda: interrupted.count > 0, tell)
    if interrupted.count > 0:
        raise click.Abort
    click.echo(f"node {number} ready")


@dev.command()
@_number
@_data_directory
@click.option("--level", type=click.Choice(LEVELS), default=LEVELS[0], help="Only events of this level or above.")
@click.option("--since", metavar="DURATION|TIME", help="Only events since then: 10m ago, or a time.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N of them.")
@click.option("-f", "--follow", is_flag=True, help="Print new events as they are logged, until Ctrl+C.")
@command_flags("table", "json", asks_cluster=False)
def logs(
    settings: Settings, number: int, directory: Path, level: str, since: str | None, tail: int | None, follow: bool
) -> None:
    """Print the log of node N. With -o json, print the lines as the node wrote them.

    \b
    Examples:
      # What went wrong in the last ten minutes
      lograft dev logs 1 --level warning --since 10m
      # The last 20 events, and those to come
      lograft dev logs 1 --tail 20 -f
    """
    log_filter = LogFilter(level, _since_ms(since))
    node = existing_cluster(directory).node(number)
    try:
        file = node.output_path.open("rb")
    except FileNotFoundError:
        raise CommandError(
            f"node {number} has logged nothing yet",
            f"start it with `lograft dev restart {number}{same_directory(directory)}`",
        ) from None
    is_coloured = has_colours(sys.stdout)

    def write(line: LogLine) -> None:
        click.echo(format_line(line, is_coloured=is_coloured) if settings.is_table else line.text, color=is_coloured)

    with file:
        found = filter(log_filter.accepts, _stored_lines(file, has_more=follow))
        for line in found if tail is None else deque(found, maxlen=tail):
            write(line)
        for line in filter(log_filter.accepts, _lines_to_come(file)) if follow else ():
            write(line)
            sys.stdout.flush()


def _since_ms(text: str | None) -> int:
    if text is None:
        return 0
    now_ms = LoopClock().wall_ms()
    try:
        return now_ms - parse_duration(text)
    except BadTime:
        pass
    try:
        moment = parse_moment(text, now_ms)
    except BadTime:
        moment = None
    if not isinstance(moment, Moment):
        raise click.BadParameter(
            f"{text!r} is neither a duration such as 10m nor a time such as 2026-01-01T00:00Z", param_hint="'--since'"
        )
    return moment.epoch_ms


def _stored_lines(file: BinaryIO, *, has_more: bool) -> Iterator[LogLine]:
    """Yield the lines up to the end. `has_more`: leave the last one alone if the node is still writing it."""
    while line := file.readline():
        if has_more and not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield parse_line(line.decode(errors="replace").rstrip("\n"))


def _lines_to_come(file: BinaryIO) -> Iterator[LogLine]:
    """Yield lines as the node writes them."""
    while True:
        size = os.fstat(file.fileno()).st_size
        yield from _stored_lines(file, has_more=True)
        wait_until(
            lambda size=size: os.fstat(file.fileno()).st_size != size,  # type: ignore[misc]
            timeout_seconds=_FOLLOW_SECONDS,
            every_seconds=_WATCH_SECONDS,
        )


# -- parts


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


def _tell_ready(cluster: LocalCluster) -> None:
    nodes, bootstrap = count(cluster.layout.nodes), cluster.layout.bootstrap
    paused = [node.number for node in cluster.nodes if node.is_paused]
    but = f", {node_list(paused)} paused" if paused else ""
    click.echo(f"The cluster is ready: {nodes}{but}, bootstrap {bootstrap}")
    for number in paused:
        tell(f"Resume it with `lograft dev resume {number}{same_directory(cluster.directory)}`.")


def _watch(cluster: LocalCluster, interrupted: _Interruptions) -> None:
    """Watch the nodes until this command is interrupted or `dev down` stops them. Report nodes that stop or start."""
    was_up = {node.number: True for node in cluster.nodes}

    def look() -> bool:
        reap_children()
        # Another `dev up` may have added nodes.
        nodes = existing_cluster(cluster.directory).nodes
        for node in nodes:
            is_up, before = node.is_up, was_up.get(node.number, False)
            if is_up != before:
                tell(f"node {node.number} is {'down' if before else 'up again' if node.number in was_up else 'up'}")
                was_up[node.number] = is_up
        return interrupted.count > 0 or not any(node.is_wanted for node in nodes)

    while not wait_until(look, timeout_seconds=_FOLLOW_SECONDS, every_seconds=_WATCH_SECONDS):
        pass


def _stop(cluster: LocalCluster, is_hurried: Callable[[], bool]) -> None:
    stop(cluster.nodes, is_hurried)
    remove_context(cluster.directory, cluster.layout)
    tell("The cluster is down.")


def _running_node(directory: Path, number: int) -> LocalNode:
    node = existing_cluster(directory).node(number)
    if not node.is_up:
        raise CommandError(
            f"node {number} is not running", f"start it with `lograft dev restart {number}{same_directory(directory)}`"
        )
    return node
