"""Membership changes, one at a time (dissertation §4)."""

import pytest
from support.raft_cluster import RaftCluster, append_request, command, log_of_terms, member, new_configuration

from lograft.raft.core.configuration import (
    AddLearner,
    Configuration,
    ConfigurationChange,
    InvalidChange,
    PromoteLearner,
    RemoveMember,
    changed,
    configuration,
)
from lograft.raft.core.messages import AppendRequest, AppendResponse, PreVoteRequest, TimeoutNow
from lograft.raft.core.roles import Follower

ONE, TWO, THREE, FOUR = map(member, (1, 2, 3, 4))


def voters_of(cluster: RaftCluster, node_id: int) -> list[int]:
    return [voter.node_id for voter in cluster.core(node_id).configuration.voters]


def grow(cluster: RaftCluster, leader: int, node_id: int) -> None:
    """Make a voter of an empty node."""
    assert cluster.change(leader, AddLearner(cluster.member(node_id)))
    cluster.settle()
    assert cluster.change(leader, PromoteLearner(cluster.member(node_id)))
    cluster.settle()


# -- the changes themselves


@pytest.mark.parametrize(
    ("change", "voters", "learners"),
    [
        (AddLearner(FOUR), [1, 2], [3, 4]),
        (PromoteLearner(THREE), [1, 2, 3], []),
        (RemoveMember(TWO), [1], [3]),
        (RemoveMember(THREE), [1, 2], []),
    ],
)
def test_a_change_adds_or_removes_one(change: ConfigurationChange, voters: list[int], learners: list[int]) -> None:
    after = changed(configuration([ONE, TWO], [THREE]), change)
    assert [voter.node_id for voter in after.voters] == voters
    assert [learner.node_id for learner in after.learners] == learners


@pytest.mark.parametrize(
    ("before", "change", "reason"),
    [
        (configuration([ONE]), AddLearner(ONE), "member already"),
        (configuration([ONE], [TWO]), AddLearner(TWO), "member already"),
        (configuration([ONE]), PromoteLearner(TWO), "add it first"),
        (configuration([ONE]), RemoveMember(TWO), "not a member"),
        (configuration([ONE], [TWO]), RemoveMember(ONE), "last voter"),
        (configuration([ONE, TWO], [member(2, 1)]), PromoteLearner(member(2, 1)), "remove that one first"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(
    before: Configuration, change: ConfigurationChange, reason: str
) -> None:
    with pytest.raises(InvalidChange, match=reason):
        changed(before, change)


@pytest.mark.parametrize(("voters", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_majority_is_more_than_half(voters: int, majority: int) -> None:
    members = [member(node_id) for node_id in range(1, voters + 1)]
    some = configuration(members, [member(9)])
    assert not some.is_majority(lambda voter: voter in members[: majority - 1] or voter == member(9))
    assert some.is_majority(lambda voter: voter in members[:majority])
    assert some.reached_by_majority(lambda voter: voter.node_id) == voters - majority + 1


def test_nobody_is_not_a_majority() -> None:
    assert not Configuration().is_majority(lambda voter: True)
    assert Configuration().reached_by_majority(lambda voter: 9) == 0


# -- changing a running cluster


def test_a_cluster_grows_from_one_to_three_and_survives_a_loss() -> None:
    cluster = RaftCluster(1, empty=[2, 3])
    cluster.elect(1)
    cluster.propose(1, b"x")
    for node_id in (2, 3):
        grow(cluster, 1, node_id)
    assert [voters_of(cluster, node_id) for node_id in (1, 2, 3)] == [[1, 2, 3]] * 3
    cluster.crash(1)
    cluster.elect_somebody(within_ms=3_000)
    assert cluster.committed(2) == cluster.committed(3) == [b"x"]


def test_two_changes_at_once_are_refused() -> None:
    """Their majorities, taken together, might not meet."""
    cluster = RaftCluster(3, empty=[4, 5])
    cluster.elect(1)
    assert cluster.change(1, AddLearner(member(4)))
    assert cluster.change(1, AddLearner(member(5))) is None
    cluster.settle()
    assert cluster.change(1, AddLearner(member(5)))


def test_no_change_before_the_term_has_committed() -> None:
    """The bug of 2015 in single-server changes: an older change, uncommitted and unseen, may still come to life."""
    cluster = RaftCluster(3, empty=[4])
    cluster.elect(1)
    cluster.time_out(2)
    while 2 not in cluster.leaders:
        cluster.deliver()
    assert cluster.core(2).configuration_index <= cluster.core(2).log.commit_index
    assert cluster.change(2, AddLearner(member(4))) is None
    cluster.settle()
    assert cluster.change(2, AddLearner(member(4)))


def test_only_the_leader_changes_the_configuration() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    assert cluster.change(2, RemoveMember(member(3))) is None


def test_a_change_is_in_force_as_soon_as_it_is_in_the_log() -> None:
    cluster = RaftCluster(4)
    cluster.elect(1)
    index = cluster.change(1, RemoveMember(member(4)))
    assert voters_of(cluster, 1) == [1, 2, 3]
    cluster.deliver(AppendRequest, to=2)
    assert voters_of(cluster, 2) == [1, 2, 3]
    cluster.deliver(by=2)
    assert cluster.core(1).log.commit_index == index  # two of three; it would have taken three of four


def test_a_change_that_is_overwritten_is_taken_back() -> None:
    """Even if the log keeps its length: or the follower would go by voters that nobody else goes by."""
    cluster = RaftCluster(3)
    entries = log_of_terms(1)
    smaller = configuration([ONE, TWO])
    cluster.step(2, append_request(2, (0, 0), [*entries, new_configuration(2, 2, smaller)]))
    assert voters_of(cluster, 2) == [1, 2]
    cluster.step(2, append_request(3, (1, 1), [command(2, 3)], by=3))
    assert voters_of(cluster, 2) == [1, 2, 3]


def test_a_change_that_is_overwritten_by_another_gives_way_to_it() -> None:
    cluster = RaftCluster(3)
    cluster.step(2, append_request(2, (0, 0), [new_configuration(1, 2, configuration([ONE, TWO]))]))
    cluster.step(2, append_request(3, (0, 0), [new_configuration(1, 3, configuration([TWO, THREE]))], by=3))
    assert voters_of(cluster, 2) == [2, 3]
    assert cluster.core(2).configuration_index == 1


def test_a_learner_is_promoted_only_once_it_has_caught_up() -> None:
    cluster = RaftCluster(3, empty=[4])
    cluster.elect(1)
    cluster.cut(1, 4)
    cluster.change(1, AddLearner(member(4)))
    cluster.settle()
    assert cluster.change(1, PromoteLearner(member(4))) is None
    cluster.heal()
    cluster.pass_time(300)
    assert cluster.change(1, PromoteLearner(member(4)))


def test_a_learner_that_is_away_is_not_promoted() -> None:
    """The new configuration could not be committed, and the cluster would have no leader until it is back."""
    cluster = RaftCluster(1, empty=[2])
    cluster.elect(1)
    cluster.change(1, AddLearner(member(2)))
    cluster.pass_time(500)
    cluster.crash(2)
    cluster.pass_time(5000)
    assert cluster.change(1, PromoteLearner(member(2))) is None
    assert cluster.leaders == [1]


def test_no_voter_is_removed_if_those_left_have_no_majority_alive() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.pass_time(300)
    cluster.crash(3)
    cluster.pass_time(2000)
    assert cluster.change(1, RemoveMember(member(2))) is None
    assert cluster.change(1, RemoveMember(member(3))) is not None


def test_a_removed_leader_steps_down_once_committed() -> None:
    """Not before: it alone can see to it that its removal is committed."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    index = cluster.change(1, RemoveMember(member(1)))
    cluster.deliver(to=2)
    cluster.deliver(by=2)
    assert cluster.leaders == [1]
    assert cluster.core(1).log.commit_index < index  # type: ignore[operator]  # its own disk does not count any more: 2 of 2 are needed
    cluster.deliver(to=3)
    cluster.deliver(by=3)
    assert isinstance(cluster.core(1).role, Follower)
    assert cluster.core(1).log.commit_index == index


def test_a_removed_leader_asks_another_to_stand() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    began_ms = cluster.now_ms
    cluster.change(1, RemoveMember(member(1)))
    cluster.settle()
    (leader,) = cluster.leaders
    assert leader in (2, 3)
    assert cluster.now_ms == began_ms
    assert not cluster.in_flight(TimeoutNow)


def test_a_removed_leader_does_not_stand_again() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.change(1, RemoveMember(member(1)))
    cluster.settle()
    cluster.isolate(1)
    for _ in range(5):
        cluster.time_out(1)
    assert isinstance(cluster.core(1).role, Follower)


def test_a_leader_whose_removal_is_not_committed_may_stand_again() -> None:
    """It alone has the entry, its log beats the others', and so only it can be elected."""
    cluster = RaftCluster(2)
    cluster.elect(1)
    cluster.change(1, RemoveMember(member(1)))
    cluster.drop()
    for node_id in (1, 2):
        cluster.crash(node_id)
        cluster.restart(node_id)
    cluster.pass_time(5_000)
    assert cluster.leaders == [2]
    assert voters_of(cluster, 2) == [2]


def test_a_removed_node_that_does_not_know_it_disturbs_no_one() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.cut(1, 3)
    cluster.change(1, RemoveMember(member(3)))
    cluster.settle()
    cluster.heal()
    term = cluster.core(1).term
    cluster.pass_time(5_000)
    assert (cluster.leaders, cluster.core(1).term) == ([1], term)
    assert any("3 -> 1 PreVoteRequest" in line for line in cluster.transcript)


def test_a_removed_node_is_sent_nothing_more_and_its_answers_do_not_count() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.change(1, RemoveMember(member(3)))
    cluster.settle()
    index = cluster.propose(1, b"x")
    assert not cluster.in_flight(to=3)
    cluster.drop()
    assert index is not None
    cluster.step(1, AppendResponse(member(3), 1, index))
    assert cluster.core(1).log.commit_index < index


def test_a_lost_disk_is_replaced_by_another_member_of_the_same_node() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.settle()
    cluster.wipe(3)
    new = cluster.member(3)
    cluster.change(1, AddLearner(new))
    cluster.settle()
    with pytest.raises(InvalidChange):
        cluster.change(1, PromoteLearner(new))
    cluster.change(1, RemoveMember(member(3)))
    cluster.settle()
    cluster.change(1, PromoteLearner(new))
    cluster.settle()
    assert cluster.core(3).is_voter
    cluster.crash(2)
    cluster.propose(1, b"y")
    cluster.settle()
    assert cluster.committed(3) == [b"x", b"y"]


def test_a_promoted_learner_that_does_not_know_it_still_votes() -> None:
    """Its vote is needed: 1 is dead, and 2 goes by three voters."""
    cluster = RaftCluster(2, empty=[3])
    cluster.elect(1)
    cluster.change(1, AddLearner(member(3)))
    cluster.settle()
    cluster.change(1, PromoteLearner(member(3)))
    cluster.drop(to=3)
    cluster.deliver(to=2)
    cluster.deliver(by=2)
    cluster.drop()
    assert not cluster.core(3).is_voter
    cluster.crash(1)
    cluster.elect(2)
    cluster.pass_time(300)
    assert cluster.core(3).is_voter


def test_a_node_told_of_nothing_asks_for_nothing() -> None:
    cluster = RaftCluster(1, empty=[2])
    cluster.elect(1)
    cluster.pass_time(5_000)
    assert not [line for line in cluster.transcript if "2 ->" in line]
    assert not cluster.in_flight(PreVoteRequest)
