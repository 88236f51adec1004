"""When an entry is committed (Raft §5.3, §5.4.2), and who is told. Figure 8 is in test_paper."""

import pytest
from support.raft_cluster import CrashPoint, RaftCluster, log_of_terms, member

from lograft.raft.core.configuration import AddLearner
from lograft.raft.core.entries import Command, NewConfiguration, NoOperation
from lograft.raft.core.messages import AppendRequest, AppendResponse


@pytest.mark.parametrize(
    ("voters", "acknowledging", "is_committed"),
    [
        (1, [], True),
        (2, [], False),
        (2, [2], True),
        (3, [], False),
        (3, [2], True),
        (4, [2], False),
        (4, [2, 3], True),
        (5, [2], False),
        (5, [4, 5], True),
    ],
)
def test_an_entry_is_committed_once_a_majority_has_it(
    voters: int, acknowledging: list[int], is_committed: bool
) -> None:
    cluster = RaftCluster(voters)
    cluster.elect(1)
    index = cluster.propose(1, b"x")
    for node_id in acknowledging:
        cluster.deliver(AppendRequest, to=node_id)
        cluster.deliver(AppendResponse, by=node_id)
    assert (cluster.core(1).log.commit_index == index) == is_committed


def test_an_answer_that_comes_twice_counts_once() -> None:
    cluster = RaftCluster(5)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.deliver(AppendRequest, to=2)
    for _ in range(3):
        cluster.duplicate()
    cluster.deliver(AppendResponse, by=2)
    assert cluster.core(1).log.commit_index == 1


def test_learners_do_not_count() -> None:
    cluster = RaftCluster(3, empty=[4, 5])
    cluster.elect(1)
    for learner in (4, 5):
        cluster.change(1, AddLearner(member(learner)))
        cluster.settle()
    index = cluster.propose(1, b"x")
    for learner in (4, 5):
        cluster.deliver(AppendRequest, to=learner)
        cluster.deliver(AppendResponse, by=learner)
    assert cluster.core(1).log.commit_index < index  # type: ignore[operator]
    cluster.settle()
    assert cluster.committed(4) == cluster.committed(5) == [b"x"]


def test_the_leaders_own_acknowledgement_waits_for_its_disk() -> None:
    """Two of three: one follower and the leader, but the leader's disk is still busy."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    core = cluster.core(1)
    index = core.propose(b"x")
    ready = core.ready()
    assert ready is not None
    assert core.log.commit_index < index  # type: ignore[operator]
    assert ready.committed == ()
    cluster.nodes[1].disk.save(ready)
    core.advance(ready)
    core.step(AppendResponse(member(2), 1, index), cluster.now_ms)  # type: ignore[arg-type]
    assert core.log.commit_index == index


def test_a_leader_alone_commits_when_its_disk_has_it_and_not_before() -> None:
    cluster = RaftCluster(1)
    cluster.elect(1)
    core = cluster.core(1)
    index = core.propose(b"x")
    ready = core.ready()
    assert ready is not None
    assert core.log.commit_index == index - 1  # type: ignore[operator]
    cluster.nodes[1].disk.save(ready)
    core.advance(ready)
    assert core.log.commit_index == index


def test_what_a_leader_lost_with_its_disk_is_not_acknowledged() -> None:
    cluster = RaftCluster(1)
    cluster.elect(1)
    cluster.core(1).propose(b"x")
    cluster.carry_out(1, CrashPoint.BEFORE_SAVE)
    cluster.restart(1)
    cluster.elect(1)
    assert cluster.committed(1) == []


def test_a_new_leader_appends_an_entry_of_its_own_term() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.elect(2)
    first, second = cluster.core(2).log.between(0, 2)
    assert isinstance(first.payload, NewConfiguration)  # the very first also writes down who the voters are
    assert (second.term, second.payload) == (2, NoOperation())


def test_a_new_leader_commits_what_older_terms_left() -> None:
    cluster = RaftCluster(3)
    for node_id in (1, 2, 3):
        cluster.store(node_id, log_of_terms(1, 2, 3))
    cluster.elect(1)
    assert cluster.committed(3) == [b"1.1", b"2.2", b"3.3"]


def test_followers_learn_of_a_commit_at_once_and_by_heartbeat_if_that_is_lost() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.deliver(AppendRequest)
    cluster.deliver(AppendResponse)
    assert [(request.entries, request.commit_index) for request in cluster.in_flight(AppendRequest)] == [((), 2)] * 2
    cluster.drop()
    cluster.pass_time(100)
    assert cluster.committed(2) == [b"x"]


def test_the_commit_index_is_saved_along_with_other_things_and_never_for_itself() -> None:
    """A disk write more for each commit would double the cost of everything."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.deliver(AppendRequest, to=2)
    core = cluster.core(1)
    core.step(AppendResponse(member(2), 1, 2), cluster.now_ms)
    ready = core.ready()
    assert ready is not None
    assert ready.committed[-1].payload == Command(b"x")
    assert not ready.must_persist
    core.advance(ready)
    assert cluster.nodes[1].disk.hard_state.commit_index == 1
    cluster.nodes[1].applied_index = 2
    cluster.propose(1, b"y")
    assert cluster.nodes[1].disk.hard_state.commit_index == 2


def test_a_commit_index_that_was_not_saved_is_found_again() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.settle()
    for node_id in (1, 2, 3):
        cluster.crash(node_id)
        cluster.restart(node_id)
    cluster.elect(2)
    assert [cluster.committed(node_id) for node_id in (1, 2, 3)] == [[b"x"]] * 3
