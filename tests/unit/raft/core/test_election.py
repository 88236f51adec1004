"""Elections over many seeds, and how long nodes wait. scripts/election.txt has the stories."""

import pytest
from support.raft_cluster import RaftCluster, member

from lograft.raft.core.entries import NewConfiguration
from lograft.raft.core.messages import Heartbeat, PreVoteRequest
from lograft.raft.core.roles import Candidate, Follower, PreCandidate


def test_check_quorum_is_not_put_off_by_reads() -> None:
    """Each read begins a round of heartbeats; the next regular one, and with it the check, must come all the same."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.isolate(1)
    for read_id in range(60):
        cluster.read(1, read_id)
        cluster.now_ms += 50
        cluster.tick(1)
    assert isinstance(cluster.core(1).role, Follower | PreCandidate)
    assert cluster.nodes[1].reads == dict.fromkeys(range(60))


def quick_delays(cluster: RaftCluster, node_id: int, rounds: int) -> list[int]:
    """How long node waits before each of its next rounds, with nobody answering."""
    delays = []
    for _ in range(rounds):
        delays.append(cluster.core(node_id).deadline_ms - cluster.now_ms)
        cluster.now_ms = cluster.core(node_id).deadline_ms
        cluster.tick(node_id)
        assert isinstance(cluster.core(node_id).role, PreCandidate)
        cluster.drop()
    return delays


@pytest.mark.parametrize("seed", range(10))
def test_after_a_broken_connection_three_quick_rounds_then_the_normal_timeout(seed: int) -> None:
    cluster = RaftCluster(3, seed=seed)
    cluster.elect(1)
    cluster.break_connection(2, to=1)
    *quick, normal = quick_delays(cluster, 2, rounds=4)
    assert all(10 <= delay <= 150 for delay in quick)
    assert 500 <= normal <= 1_000


def test_a_round_that_got_as_far_as_the_vote_counts_once() -> None:
    cluster = RaftCluster(5)
    cluster.elect(1)
    cluster.break_connection(2, to=1)
    for _ in range(3):
        assert 10 <= cluster.core(2).deadline_ms - cluster.now_ms <= 150
        cluster.now_ms = cluster.core(2).deadline_ms
        cluster.tick(2)
        for voter in (3, 4):
            cluster.break_connection(voter, to=1)
            cluster.deliver(PreVoteRequest, to=voter)
            cluster.deliver(by=voter)
        assert isinstance(cluster.core(2).role, Candidate)
        cluster.drop()
    assert 500 <= cluster.core(2).deadline_ms - cluster.now_ms <= 1_000


def test_a_broken_connection_to_anyone_but_the_leader_changes_nothing() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    due_ms = cluster.core(2).deadline_ms
    cluster.break_connection(2, to=3)
    assert (cluster.core(2).leader, cluster.core(2).deadline_ms) == (member(1), due_ms)


def test_a_leader_that_is_heard_again_ends_the_quick_rounds() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.break_connection(2, to=1)
    cluster.step(2, Heartbeat(member(1), cluster.core(1).term, 0, 1))
    assert isinstance(cluster.core(2).role, Follower)
    assert cluster.core(2).quick_elections_left == 0
    assert cluster.core(2).deadline_ms - cluster.now_ms >= cluster.timing.election_min_ms


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_a_new_leader_within_a_second_of_the_old_ones_death(nodes: int, seed: int) -> None:
    cluster = RaftCluster(nodes, seed=seed)
    leader = cluster.elect_somebody(within_ms=2_000)
    cluster.pass_time(150)
    cluster.crash(leader)
    for survivor in cluster.up:
        cluster.break_connection(survivor, to=leader)
    cluster.elect_somebody(within_ms=1_000)


@pytest.mark.parametrize("seed", range(20))
def test_without_news_of_broken_connections_a_new_leader_within_two_timeouts(seed: int) -> None:
    cluster = RaftCluster(5, seed=seed)
    leader = cluster.elect_somebody(within_ms=3_000)
    cluster.crash(leader)
    cluster.elect_somebody(within_ms=3_000)


def test_a_founder_that_missed_the_founding_learns_of_it_from_the_log_and_votes() -> None:
    """The first voters stand in the founders' stores. If 3's offer is lost, it could never vote: one crash is fatal."""
    cluster = RaftCluster(3)
    cluster.nodes[3].disk.snapshot = RaftCluster(0, empty=[9]).nodes[9].disk.snapshot
    cluster.restart(3)
    cluster.elect(1)
    assert cluster.core(3).is_initialised
    assert isinstance(cluster.core(1).log.between(0, 1)[0].payload, NewConfiguration)
    cluster.crash(1)
    cluster.elect(2)
