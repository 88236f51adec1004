"""What a node knows after a crash, and what it must not have forgotten."""

import pytest
from support.raft_cluster import CrashPoint, RaftCluster, log_of_terms, member

from lograft.raft.core.entries import HardState
from lograft.raft.core.messages import AppendRequest
from lograft.raft.core.roles import Follower


def test_a_node_comes_back_as_a_follower_with_all_it_saved() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.settle()
    cluster.crash(1)
    cluster.restart(1)
    core = cluster.core(1)
    assert isinstance(core.role, Follower)
    assert (core.term, core.vote, core.log.last_index, core.log.stable_index) == (1, member(1), 2, 2)


def test_a_leader_that_crashed_does_not_lead_its_old_term_again() -> None:
    """It may have lost entries of that term which others have: writing others there would fork the log."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.core(1).propose(b"lost")
    cluster.carry_out(1, CrashPoint.BEFORE_SAVE)
    assert len(cluster.in_flight(AppendRequest)) == 2
    cluster.deliver(AppendRequest, to=2)
    cluster.restart(1)
    cluster.settle()
    leader = cluster.elect_somebody(within_ms=3_000)
    assert cluster.core(leader).term == 2
    cluster.pass_time(500)
    assert cluster.committed(1) == cluster.committed(2) == cluster.committed(3)


def test_a_saved_commit_index_is_applied_again_after_a_restart() -> None:
    cluster = RaftCluster(3)
    cluster.store(1, log_of_terms(1, 1, 1), commit_index=2)
    assert cluster.committed(1) == [b"1.1", b"2.1"]


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


def test_nothing_is_saved_twice() -> None:
    cluster = RaftCluster(1)
    cluster.elect(1)
    core = cluster.core(1)
    core.propose(b"x")
    ready = core.ready()
    assert ready is not None
    assert ready.must_persist
    cluster.nodes[1].disk.save(ready)
    core.advance(ready)
    while (later := core.ready()) is not None:
        assert not later.must_persist
        core.advance(later)


def test_an_idle_node_wants_nothing_done() -> None:
    cluster = RaftCluster(3)
    assert cluster.core(1).ready() is None
    cluster.elect(1)
    assert [cluster.core(node_id).ready() for node_id in (1, 2, 3)] == [None] * 3


def test_a_new_node_knows_nothing() -> None:
    cluster = RaftCluster(0, empty=[1])
    core = cluster.core(1)
    assert (core.term, core.vote, core.leader, core.is_initialised) == (0, None, None, False)
    assert cluster.nodes[1].disk.hard_state == HardState()
