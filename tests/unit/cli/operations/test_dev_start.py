"""What `lograft dev up` starts of a cluster that exists, and what it stops if that fails."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lograft.cli.common.command_error import CommandError
from lograft.cli.operations import dev_start
from lograft.cli.operations.dev_start import StartPlan, plan_start, start
from lograft.clients.local.errors import LocalClusterError
from lograft.clients.local.layout import new_layout
from lograft.clients.local.local_cluster import LocalCluster, find_cluster
from lograft.clients.local.local_node import LocalNode

Up = Callable[[set[int]], set[int]]


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Up:
    """A cluster of three, of which these nodes are up. Returns the set, which changes as nodes start and stop."""
    LocalCluster(tmp_path, new_layout("dev-1", 3, 9092)).save()
    running: set[int] = set()
    monkeypatch.setattr(LocalNode, "is_up", property(lambda node: node.number in running))
    monkeypatch.setattr(LocalNode, "start", lambda node: running.add(node.number))
    monkeypatch.setattr(dev_start, "check_ports", lambda nodes: None)
    monkeypatch.setattr(dev_start, "wait_ready", lambda *_: None)

    def stop_nodes(nodes: list[LocalNode], _: object) -> list[LocalNode]:
        running.difference_update(node.number for node in nodes)
        return []

    monkeypatch.setattr(dev_start, "stop_nodes", stop_nodes)

    def set_up(numbers: set[int]) -> set[int]:
        running.update(numbers)
        return running

    return set_up


def starting(plan: StartPlan) -> list[int]:
    return [node.number for node in plan.starting]


def test_a_new_cluster_has_three_nodes(tmp_path: Path) -> None:
    plan = plan_start(tmp_path, None, None)
    assert (starting(plan), plan.running, plan.added) == ([1, 2, 3], [], ())
    assert plan.announcement == f"Starting 3 nodes in {tmp_path} ..."
    assert plan.advice == []
    assert starting(plan_start(tmp_path, 5, None)) == [1, 2, 3, 4, 5]


def test_only_what_is_missing_is_started(tmp_path: Path, up: Up) -> None:
    up({1, 3})
    plan = plan_start(tmp_path, None, None)
    assert starting(plan) == [2]
    assert plan.announcement == f"Starting node 2 of 3 in {tmp_path} ..."
    start(plan, lambda: False)
    again = plan_start(tmp_path, 3, 9092)
    assert starting(again) == []
    assert again.announcement == f"Nothing to start: 3 nodes up in {tmp_path}."


@pytest.mark.parametrize(
    ("running", "told"),
    [
        ({1, 2, 3}, "Starting nodes 4, 5 of 5 in {} (nodes 4, 5 are new) ..."),
        (set(), "Starting 5 nodes in {} (nodes 4, 5 are new) ..."),
    ],
)
def test_a_cluster_grows_by_brokers(tmp_path: Path, up: Up, running: set[int], told: str) -> None:
    up(running)
    plan = plan_start(tmp_path, 5, None)
    assert starting(plan) == sorted({1, 2, 3, 4, 5} - running)
    assert plan.announcement == told.format(tmp_path)
    assert plan.advice == [
        "Nodes 4, 5 are brokers only; the quorum stays on nodes 1 to 3. `lograft reassign run` moves existing "
        "partitions to new brokers."
    ]
    start(plan, lambda: False)
    found = find_cluster(tmp_path)
    assert found is not None
    assert (found.layout.nodes, found.layout.controllers) == (5, 3)


def test_a_cluster_of_one_keeps_its_quorum(tmp_path: Path) -> None:
    LocalCluster(tmp_path, new_layout("dev-1", 1, 9092)).save()
    (advice,) = plan_start(tmp_path, 2, None).advice
    assert advice.startswith("Node 2 is a broker only; the quorum stays on node 1.")


def test_a_cluster_does_not_shrink(tmp_path: Path, up: Up) -> None:
    with pytest.raises(CommandError, match="has 3 nodes, not 2") as refused:
        plan_start(tmp_path, 2, None)
    assert "leave --nodes out" in refused.value.remedy
    assert "lograft drain broker N" in refused.value.remedy


def test_a_cluster_that_runs_does_not_move(tmp_path: Path, up: Up) -> None:
    running = up({2})
    with pytest.raises(CommandError, match="is running on port 9092, not 9192") as refused:
        plan_start(tmp_path, None, 9192)
    assert f"`lograft dev down --data-dir {tmp_path}`" in refused.value.remedy
    running.clear()
    assert plan_start(tmp_path, None, 9192).cluster.layout.bootstrap.startswith("127.0.0.1:9192,")


def test_what_was_up_before_stays_up_if_the_rest_does_not_start(
    tmp_path: Path, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = up({1, 2, 3})

    def fail(*_: object) -> None:
        assert running == {1, 2, 3, 4, 5}
        raise LocalClusterError("node 5 has ended", "look at its log")

    monkeypatch.setattr(dev_start, "wait_ready", fail)
    with pytest.raises(LocalClusterError):
        start(plan_start(tmp_path, 5, None), lambda: False)
    assert running == {1, 2, 3}


def test_a_node_that_is_being_restarted_is_not_started_twice(tmp_path: Path, up: Up) -> None:
    running = up({1, 3})
    with (
        LocalNode(tmp_path, new_layout("dev-1", 3, 9092), 2).being_started(),
        pytest.raises(LocalClusterError, match="node 2 is being started by another"),
    ):
        start(plan_start(tmp_path, None, None), lambda: False)
    assert running == {1, 3}
