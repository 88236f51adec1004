"""`lograft dev ...` as a person would use it: a cluster of real processes, and what is left of it on disk."""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.free_ports import PORTS_OF_DEV, free_port
from support.programs import lograft_program
from support.server_processes import DEADLINE_SECONDS, lograft, until, variables

from lograft.cli.common.contexts import Contexts, read_contexts
from lograft.clients.local.local_cluster import find_cluster


class Dev:
    """The commands on one cluster."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.contexts = directory.with_name("contexts.yaml")
        self.port = free_port(PORTS_OF_DEV)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return lograft(
            "dev", *arguments, "--data-dir", str(self.directory), timeout_seconds=2 * DEADLINE_SECONDS,
            LOGRAFT_CONFIG=str(self.contexts),
        )  # fmt: skip

    def done(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
        return result.stdout

    def refused(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert (result.returncode, result.stdout) == (1, ""), result.stdout
        assert "Traceback" not in result.stderr
        assert "\nRemedy: " in result.stderr
        return result.stderr

    def up(self, *more: str) -> str:
        return self.done("up", "--detach", "--port", str(self.port), *more)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.done("status", "-o", "json"))["status"]
        return status

    def states(self) -> list[str]:
        return [node["state"] for node in self.status()["nodes"]]

    def process_ids(self) -> list[int | None]:
        return [node["processId"] for node in self.status()["nodes"]]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    """Nothing is left of its processes in the end, whatever became of the test."""
    dev = Dev(tmp_path / "cluster")
    yield dev
    cluster = find_cluster(dev.directory)
    for node in cluster.nodes if cluster is not None else []:
        node.send(signal.SIGKILL)


def test_the_life_of_a_cluster(dev: Dev) -> None:
    port = dev.port
    # It returns although our pipes are its output: the nodes have none of it.
    ready = dev.up()
    assert ready == (
        f"The cluster is ready: 3 nodes, bootstrap 127.0.0.1:{port},127.0.0.1:{port + 1},127.0.0.1:{port + 2}\n"
    )
    status = dev.status()
    assert status["bootstrap"] == f"127.0.0.1:{port},127.0.0.1:{port + 1},127.0.0.1:{port + 2}"
    third = status["nodes"][2]
    assert (third["id"], third["state"], third["reason"]) == (3, "ready", None)
    assert third["address"] == f"127.0.0.1:{port + 2}"
    assert third["controllerAddress"] == f"127.0.0.1:{port + 12}"
    assert third["httpAddress"] == f"127.0.0.1:{port + 22}"
    assert Path(third["directory"]) == dev.directory / "node-3"
    first_ids = dev.process_ids()

    assert dev.done("kill", "2") == "node 2 killed\n"
    assert dev.states() == ["ready", "down", "ready"]
    assert "node 2 is not running\nRemedy: start it with `lograft dev restart 2 --data-dir" in dev.refused("kill", "2")
    again = dev.run("up", "--detach")
    assert (again.returncode, again.stdout) == (0, ready)
    assert again.stderr.startswith(f"Starting node 2 of 3 in {dev.directory} ...\n")
    assert dev.done("restart", "1") == "node 1 ready\n"
    assert dev.states() == ["ready"] * 3
    assert [one == other for one, other in zip(dev.process_ids(), first_ids, strict=True)] == [False, False, True]

    dev.done("pause", "3")
    assert dev.states() == ["ready", "ready", "paused"]
    dev.done("resume", "3")
    until(lambda: dev.states() == ["ready"] * 3, "the paused one is back")
    dev.done("pause", "3")
    assert dev.done("restart", "3") == "node 3 ready\n"

    events = [json.loads(line)["event"] for line in dev.done("logs", "1", "-o", "json").splitlines()]
    assert events.count("node_starting") == 2
    assert events.count("node_stopped") == 1
    assert "there is no node 4" in dev.refused("kill", "4")

    dev.done("down")
    assert dev.states() == ["down"] * 3
    assert dev.run("down").returncode == 0
    assert all((dev.directory / f"node-{number}/data/clean-shutdown").exists() for number in (1, 2, 3))
    # The same cluster again: what is not said is as it was before.
    assert "has 3 nodes, not 2" in dev.refused("up", "--nodes", "2")
    assert dev.done("up", "--detach") == ready
    dev.done("down")


def test_a_cluster_grows_while_it_runs(dev: Dev) -> None:
    dev.up("--nodes", "1")
    bootstrap = f"127.0.0.1:{dev.port}"
    assert Contexts({f"dev-{dev.port}": bootstrap}, f"dev-{dev.port}") == read_contexts(dev.contexts.read_text())
    first = dev.process_ids()

    bootstrap += f",127.0.0.1:{dev.port + 1}"
    assert dev.up("--nodes", "2") == f"The cluster is ready: 2 nodes, bootstrap {bootstrap}\n"
    assert dev.process_ids()[:1] == first
    assert dev.done("up", "--detach") == f"The cluster is ready: 2 nodes, bootstrap {bootstrap}\n", "nothing is missing"
    assert dev.process_ids()[:1] == first
    # The context is current, and knows the node that was added.
    shown = lograft("get", "nodes", "-o", "jsonpath={.items[*].spec.roles}", LOGRAFT_CONFIG=str(dev.contexts))
    assert shown.stdout == '["controller","broker"] ["broker"]', shown.stderr
    assert read_contexts(dev.contexts.read_text()).bootstraps == {f"dev-{dev.port}": bootstrap}

    dev.done("down")
    assert read_contexts(dev.contexts.read_text()) == Contexts()
    assert dev.states() == ["down"] * 2


def test_ctrl_c_stops_all_that_was_started_in_front(dev: Dev) -> None:
    arguments = ["dev", "up", "--nodes", "2", "--port", str(dev.port), "--data-dir", str(dev.directory)]
    environment = variables(LOGRAFT_CONFIG=str(dev.contexts))
    with lograft_program(*arguments, env=environment, stderr=subprocess.STDOUT) as process:
        assert any(line.startswith("Ctrl+C") for line in iter(process.line, ""))
        assert dev.states() == ["ready"] * 2
        dev.done("kill", "2")
        assert process.line() == "node 2 is down\n"
        dev.done("restart", "2")
        assert process.line() == "node 2 is up again\n"
        process.interrupt()
        rest = process.rest()
        assert process.wait(DEADLINE_SECONDS) == 0
    assert rest.endswith("The cluster is down.\n")
    assert read_contexts(dev.contexts.read_text()) == Contexts()
    assert dev.states() == ["down"] * 2


def test_the_one_in_front_ends_when_the_cluster_is_taken_down_elsewhere(dev: Dev) -> None:
    arguments = ["dev", "up", "--nodes", "1", "--port", str(dev.port), "--data-dir", str(dev.directory)]
    with lograft_program(*arguments, stderr=subprocess.PIPE) as process:
        assert process.line().startswith("The cluster is ready: 1 node,")
        dev.done("down")
        assert process.wait(DEADLINE_SECONDS) == 0


def test_a_port_that_is_taken_is_named_and_nothing_is_started(dev: Dev) -> None:
    with contextlib.ExitStack() as taken:
        for port in (dev.port + 1, dev.port + 10, dev.port + 22):
            listener = taken.enter_context(contextlib.closing(socket.socket()))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
        told = dev.refused("up", "--port", str(dev.port))
    assert f"port {dev.port + 10} (node 1, controllers), port {dev.port + 1} (node 2, clients)" in told
    assert f"port {dev.port + 22} (node 3, HTTP)" in told
    assert "choose other ports with --port" in told
    assert not (dev.directory / "node-1").exists()


def test_a_node_that_does_not_start_is_told_of_and_the_others_are_stopped(dev: Dev) -> None:
    dev.up("--nodes", "2")
    dev.done("down")
    shutil.rmtree(dev.directory / "node-2" / "data")
    (dev.directory / "node-2" / "data").write_text("in the way")
    told = dev.refused("up", "--detach")
    assert f"Error: node 2 has ended: {dev.directory}/node-2/data cannot be used" in told
    assert "lograft dev logs 2" in told
    assert dev.states() == ["down"] * 2


def test_variables_of_the_environment_do_not_move_the_nodes(dev: Dev, tmp_path: Path) -> None:
    stray = {"LOGRAFT_NODE_ID": "77", "LOGRAFT_DATA_DIRS": str(tmp_path / "elsewhere"), "LOGRAFT_LOG_LEVEL": "error"}
    result = lograft(
        "dev",
        "up",
        "--detach",
        "--nodes",
        "1",
        "--port",
        str(dev.port),
        "--data-dir",
        str(dev.directory),
        **stray,  # type: ignore[arg-type]
    )
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "elsewhere").exists()
    assert (dev.directory / "node-1" / "output.txt").read_text() == "", "but what dev does not set, they may"
    dev.done("down")


def test_a_directory_without_a_cluster_is_refused(dev: Dev) -> None:
    for command in (["status"], ["down"], ["kill", "1"], ["restart", "1"], ["logs", "1"]):
        assert f"Error: there is no cluster in {dev.directory}\n" in dev.refused(*command)
    assert not dev.directory.exists()


def test_logs_can_be_followed(dev: Dev) -> None:
    (dev.directory / "node-1").mkdir(parents=True)
    layout = {"format": "lograft-dev-1", "cluster_id": "x", "nodes": 1, "port": free_port()}
    (dev.directory / "cluster.json").write_text(json.dumps(layout))
    assert "node 1 has logged nothing yet" in dev.refused("logs", "1")
    output = dev.directory / "node-1" / "output.txt"
    output.write_text("one\n")
    with lograft_program("dev", "logs", "1", "-f", "--data-dir", str(dev.directory)) as process:
        assert process.line() == "one\n"
        with output.open("a") as file:
            file.write("tw")
            file.flush()
            file.write("o\n")
        assert process.line() == "two\n"
        process.interrupt()
        process.wait(DEADLINE_SECONDS)
