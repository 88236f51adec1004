"""Crashes at every point. scripts/restart.txt has the stories."""

import pytest
from support.raft_cluster import CrashPoint, RaftCluster


def test_the_terms_of_a_cluster_that_was_all_stopped_go_on() -> None:
    cluster = RaftCluster(3)
    for _ in range(3):
        leader = cluster.elect_somebody(within_ms=3_000)
        cluster.propose(leader, b"x")
        cluster.settle()
        for node_id in (1, 2, 3):
            cluster.crash(node_id)
            cluster.restart(node_id)
    leader = cluster.elect_somebody(within_ms=3_000)
    assert cluster.core(leader).term >= 4
    assert cluster.committed(leader) == [b"x"] * 3


@pytest.mark.parametrize("point", list(CrashPoint))
@pytest.mark.parametrize("node_id", [1, 2])
def test_a_crash_anywhere_loses_nothing_that_was_committed(node_id: int, point: CrashPoint) -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"first")
    cluster.settle()
    cluster.propose(1, b"second")
    core = cluster.core(node_id)
    for message in cluster.in_flight(to=node_id):
        core.step(message, cluster.now_ms)
    core.propose(b"third")
    cluster.carry_out(node_id, point)
    cluster.restart(node_id)
    cluster.elect_somebody(within_ms=5_000)
    cluster.pass_time(500)
    states = [cluster.committed(node_id) for node_id in (1, 2, 3)]
    assert states[0] == states[1] == states[2]
    assert states[0][:2] == [b"first", b"second"]
