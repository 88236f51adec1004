"""Leadership transfer (dissertation §3.10)."""

from support.raft_cluster import RaftCluster, member

from lograft.raft.core.configuration import AddLearner, RemoveMember
from lograft.raft.core.messages import AppendRequest, TimeoutNow, VoteRequest


def test_leadership_is_handed_over_at_once() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    began_ms = cluster.now_ms
    assert cluster.transfer(1, 2)
    cluster.settle()
    assert (cluster.leaders, cluster.now_ms) == ([2], began_ms)


def test_the_target_gets_what_it_lacks_first() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.drop(to=2)
    cluster.transfer(1, 2)
    assert not cluster.in_flight(TimeoutNow)
    cluster.pass_time(300)
    assert cluster.leaders == [2]
    assert cluster.committed(2) == [b"x"]


def test_the_target_needs_no_pre_vote_and_is_not_taken_for_a_troublemaker() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.transfer(1, 2)
    cluster.deliver(TimeoutNow)
    assert [request.is_transfer for request in cluster.in_flight(VoteRequest)] == [True, True]


def test_proposals_and_changes_are_refused_meanwhile() -> None:
    """They would be lost, or keep the target from ever having everything."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.transfer(1, 2)
    assert cluster.propose(1, b"x") is None
    assert cluster.change(1, RemoveMember(member(3))) is None


def test_a_transfer_that_comes_to_nothing_is_given_up() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.crash(2)
    cluster.transfer(1, 2)
    cluster.pass_time(cluster.timing.election_max_ms - 100)
    assert cluster.propose(1, b"x") is None
    cluster.pass_time(200)
    assert cluster.leaders == [1]
    assert cluster.propose(1, b"x") == 2


def test_a_transfer_to_another_takes_the_place_of_the_first() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.crash(2)
    cluster.transfer(1, 2)
    cluster.transfer(1, 3)
    cluster.settle()
    assert cluster.leaders == [3]


def test_only_a_leader_hands_over_and_only_to_another_voter() -> None:
    cluster = RaftCluster(3, empty=[4])
    cluster.elect(1)
    cluster.change(1, AddLearner(member(4)))
    cluster.settle()
    assert not cluster.transfer(2, 3)
    assert not cluster.transfer(1, 1)
    assert not cluster.transfer(1, 4)


def test_a_late_request_to_stand_is_no_harm() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.step(2, TimeoutNow(member(3), 0))
    assert cluster.core(2).term == 1
    cluster.drop()
    cluster.transfer(1, 2)
    cluster.duplicate(TimeoutNow)
    cluster.settle()
    assert (cluster.leaders, cluster.core(2).term) == ([2], 2)


def test_a_learner_does_not_stand_whoever_asks() -> None:
    cluster = RaftCluster(1, empty=[2])
    cluster.elect(1)
    cluster.change(1, AddLearner(member(2)))
    cluster.settle()
    cluster.step(2, TimeoutNow(member(1), 1))
    assert (cluster.core(2).term, cluster.core(2).leader) == (1, member(1))


def test_the_old_leader_follows_the_new_one() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.transfer(1, 3)
    cluster.settle()
    assert cluster.core(1).leader == member(3)
    cluster.propose(3, b"x")
    assert len(cluster.in_flight(AppendRequest, to=1)) == 1
    cluster.settle()
    assert cluster.committed(1) == [b"x"]
