"""What is left of a node on disk is not taken for more than it is."""

import contextlib
import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lograft.clients.local import local_node as dev_node
from lograft.clients.local.errors import LocalClusterError
from lograft.clients.local.layout import new_layout
from lograft.clients.local.local_cluster import LocalCluster, existing_cluster, find_cluster, stop_nodes, wait_ready
from lograft.clients.local.local_node import LocalNode, NodeStatus, locked
from lograft.runtime.process.child_processes import (
    ProcessIdentity,
    ProcessState,
    reap_children,
    start_process,
    wait_until,
)
from lograft.runtime.process.host import boot_id

LAYOUT = new_layout("dev-1", 2, 1)  # nobody listens there


def node_with(directory: Path, process: Any) -> LocalNode:
    node = LocalNode(directory, LAYOUT, 1)
    node.directory.mkdir(exist_ok=True)
    text = process if isinstance(process, str) else json.dumps(process)
    (node.directory / "process.json").write_text(text)
    return node


def own_start() -> int:
    return int(Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_process_that_is_there_is_up_though_it_does_not_answer(tmp_path: Path) -> None:
    ours = {"process_id": os.getpid(), "started": own_start(), "boot": boot_id()}
    node = node_with(tmp_path, ours)
    assert node.is_up
    assert node.status() == NodeStatus("starting", os.getpid(), "no answer yet")


@pytest.mark.parametrize(
    "changes",
    [{"started": 1}, {"boot": "an earlier one"}, {"process_id": 2**22 + 1}],
    ids=["another process with its id", "before a reboot", "nobody"],
)
def test_a_process_that_is_gone_is_not_taken_for_another(tmp_path: Path, changes: dict[str, Any]) -> None:
    node = node_with(tmp_path, {"process_id": os.getpid(), "started": own_start(), "boot": boot_id(), **changes})
    assert not node.is_up
    assert node.status() == NodeStatus("down", None)
    assert not node.send(signal.SIGKILL), "or this test would not say so"


def test_a_node_is_all_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that outlives the main process keeps the ports: the node is not down."""
    workers = ["sh", "-c", "sleep 60 & sleep 60 & wait"]
    monkeypatch.setattr(dev_node, "start_process", lambda _, **options: start_process(workers, **options))
    node = LocalNode(tmp_path, LAYOUT, 1)
    node.start()
    try:
        assert wait_until(lambda: len(node.processes) == 3, timeout_seconds=10)
        main = node.processes[0]
        assert main == node.process
        main.send(signal.SIGKILL)
        assert wait_until(lambda: main.state is ProcessState.GONE, timeout_seconds=10)
        assert node.is_up
        assert node.status() == NodeStatus("stopping", None, "2 of its processes still run")
        assert node.send(signal.SIGKILL)
        assert wait_until(lambda: not node.is_up, timeout_seconds=10)
        assert node.status() == NodeStatus("down", None)
        reap_children()
        assert not node.send(signal.SIGKILL)
    finally:
        node.send(signal.SIGKILL)


def test_a_node_without_its_main_process_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        dev_node, "start_process", lambda _, **options: start_process(["sh", "-c", "sleep 60 & wait"], **options)
    )
    node = LocalNode(tmp_path, LAYOUT, 1)
    node.start()
    assert wait_until(lambda: len(node.processes) == 2, timeout_seconds=10)
    main = node.processes[0]
    main.send(signal.SIGKILL)
    assert wait_until(lambda: main.state is ProcessState.GONE, timeout_seconds=10)
    assert stop_nodes([node], lambda: False) == []
    assert not node.is_up


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"process_id": "x", "started": 1, "boot": ""}'])
def test_a_file_that_makes_no_sense_is_no_process(tmp_path: Path, text: str) -> None:
    node = node_with(tmp_path, text)
    assert node.process is None
    assert not node.is_up
    assert not LocalNode(tmp_path, LAYOUT, 2).is_up


def test_who_waits_for_a_node_is_told_once_what_has_to_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, other = LocalNode(tmp_path, LAYOUT, 1), LocalNode(tmp_path, LAYOUT, 2)
    not_a_voter = NodeStatus("starting", 7, "not a voter of the quorum: `quorum replace 1` if it lost its disk")
    states = {node: [NodeStatus("starting", 7, "no answer yet"), not_a_voter, not_a_voter, NodeStatus("ready", 7)]}
    states[other] = [NodeStatus("starting", 8, "logs are recovered"), NodeStatus("ready", 8)]
    monkeypatch.setattr(LocalNode, "status", lambda asked: states[asked].pop(0))
    told: list[str] = []
    wait_ready([node, other], 10, lambda: False, told.append)
    assert told == [f"Waiting, for up to 10s: node 1: {not_a_voter.reason}"]


def test_a_node_is_wanted_until_it_is_taken_down(tmp_path: Path) -> None:
    node = node_with(tmp_path, {})
    assert node.is_wanted
    node.forget()
    node.forget()
    assert not node.is_wanted


def test_last_words_are_why_it_refused_or_else_what_came_last(tmp_path: Path) -> None:
    node = node_with(tmp_path, {})
    assert node.last_words() == "it wrote nothing"
    node.output_path.write_text("{1}\n{2}\n{3}\n{4}\n")
    assert node.last_words() == "{2}\n{3}\n{4}"
    node.output_path.write_text('{"event": "node_starting"}\nError: /data is in use\n')
    assert node.last_words() == "/data is in use"


def test_only_one_starts_a_node_at_a_time(tmp_path: Path) -> None:
    def lock() -> contextlib.AbstractContextManager[None]:
        return locked(tmp_path / "lock", "node 1")

    with lock(), pytest.raises(LocalClusterError, match="node 1 is being started by another"), lock():
        pass
    with lock():
        pass


def test_a_cluster_is_found_where_it_was_made(tmp_path: Path) -> None:
    assert find_cluster(tmp_path) is None
    with pytest.raises(LocalClusterError, match="there is no cluster in"):
        existing_cluster(tmp_path)
    LocalCluster(tmp_path, LAYOUT).save()
    assert existing_cluster(tmp_path).layout == LAYOUT
    assert existing_cluster(tmp_path).up_nodes == []
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(LocalClusterError, match="does not describe a cluster"):
        find_cluster(tmp_path)


# -- a full disk


def no_room(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "process.json")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ProcessIdentity]]:
    """Every process that was started in the place of a node's."""
    identities: list[ProcessIdentity] = []

    def start(_: Any, **options: Any) -> ProcessIdentity:
        identities.append(start_process(["sleep", "60"], **options))
        return identities[-1]

    monkeypatch.setattr(dev_node, "start_process", start)
    yield identities
    for identity in identities:
        identity.send(signal.SIGKILL)


def test_a_node_that_was_started_is_found(tmp_path: Path, started: list[ProcessIdentity]) -> None:
    node = LocalNode(tmp_path, LAYOUT, 1)
    node.start()
    assert [node.process] == started
    assert LocalNode(tmp_path, LAYOUT, 1).is_up


def test_on_a_full_disk_no_node_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[ProcessIdentity]
) -> None:
    node = LocalNode(tmp_path, LAYOUT, 1)
    monkeypatch.setattr(Path, "write_text", no_room)
    with pytest.raises(LocalClusterError, match=r"node 1 was not started: .*No space left") as refused:
        node.start()
    assert "make room" in str(refused.value.remedy)
    assert started == []


def test_a_node_that_cannot_be_noted_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[ProcessIdentity]
) -> None:
    node = LocalNode(tmp_path, LAYOUT, 1)
    monkeypatch.setattr(LocalNode, "_note_process", no_room)
    with pytest.raises(LocalClusterError, match="No space left"):
        node.start()
    (identity,) = started

    def is_gone() -> bool:
        reap_children()
        return identity.state is ProcessState.GONE

    assert wait_until(is_gone, timeout_seconds=10)
    assert not node.is_up


def test_a_node_whose_directory_cannot_be_written_is_not_started(
    tmp_path: Path, started: list[ProcessIdentity]
) -> None:
    (tmp_path / "node-1").write_text("not a directory")
    with pytest.raises(LocalClusterError, match=r"node 1 was not started: .*File exists") as refused:
        LocalNode(tmp_path, LAYOUT, 1).start()
    assert refused.value.remedy == "see that the directory can be written"
    assert started == []
