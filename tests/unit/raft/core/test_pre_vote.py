"""Pre-vote, and votes not given while a leader is heard (dissertation §4.2.3, §9.6)."""

import pytest
from support.raft_cluster import RaftCluster, log_of_terms, member

from lograft.raft.core.messages import PreVoteRequest, PreVoteResponse, VoteRequest, VoteResponse
from lograft.raft.core.roles import Candidate, Follower, PreCandidate


def test_pre_vote_of_a_partitioned_node_disturbs_no_one() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    term = cluster.core(1).term
    cluster.isolate(3)
    cluster.pass_time(10_000)
    assert isinstance(cluster.core(3).role, PreCandidate)
    assert cluster.core(3).term == term
    cluster.heal()
    cluster.pass_time(2_000)
    assert (cluster.leaders, cluster.core(1).term, cluster.core(3).leader) == ([1], term, member(1))


def test_asking_for_pre_votes_changes_nothing_durable() -> None:
    cluster = RaftCluster(3)
    cluster.now_ms = 1_000
    core = cluster.core(1)
    core.tick(cluster.now_ms)
    ready = core.ready()
    assert ready is not None
    assert not ready.must_persist
    assert [envelope.message for envelope in ready.messages] == [PreVoteRequest(member(1), 1, 0, 0)] * 2


def test_a_pre_vote_may_be_given_to_many() -> None:
    cluster = RaftCluster(3)
    for candidate in (2, 3):
        cluster.step(1, PreVoteRequest(member(candidate), 1, 0, 0))
    assert cluster.in_flight() == [PreVoteResponse(member(1), 1, True)] * 2
    assert (cluster.core(1).term, cluster.core(1).vote) == (0, None)


@pytest.mark.parametrize(
    ("term", "last", "is_granted"),
    [
        (6, (2, 3), True),
        (6, (1, 3), False),  # a shorter log
        (6, (9, 2), False),  # a log of an older term
        (5, (2, 3), False),  # a term that the voter is in already
    ],
)
def test_a_pre_vote_goes_by_term_and_log(term: int, last: tuple[int, int], is_granted: bool) -> None:
    cluster = RaftCluster(3)
    cluster.store(1, log_of_terms(1, 3), term=5)
    cluster.step(1, PreVoteRequest(member(2), term, *last))
    assert cluster.in_flight() == [PreVoteResponse(member(1), 6 if is_granted else 5, is_granted)]


def test_who_hears_a_leader_gives_no_pre_vote_until_the_shortest_timeout_has_passed() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    request = PreVoteRequest(member(3), 2, 9, 1)
    for passed_ms, is_granted in ((0, False), (499, False), (1, True)):
        cluster.now_ms += passed_ms
        cluster.step(2, request)
        (answer,) = cluster.in_flight()
        assert answer.is_granted == is_granted
        cluster.drop()


def test_a_leader_gives_no_pre_vote() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.now_ms += 10_000
    cluster.step(1, PreVoteRequest(member(3), 2, 9, 1))
    assert cluster.in_flight() == [PreVoteResponse(member(1), 1, False)]


def test_a_vote_request_does_not_depose_a_leader_that_is_heard() -> None:
    """A removed node that does not know it, or one that came back: its higher term is not even taken note of."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    for node_id in (1, 2):
        cluster.step(node_id, VoteRequest(member(3), 9, 9, 9))
    assert cluster.network == []
    assert [cluster.core(node_id).term for node_id in (1, 2)] == [1, 1]


def test_a_transfer_is_let_through() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.step(2, VoteRequest(member(3), 9, 9, 9, is_transfer=True))
    assert cluster.in_flight() == [VoteResponse(member(2), 9, True)]


def test_a_refusal_of_a_later_term_brings_the_asker_up_to_it() -> None:
    """The one with the better log is in an older term: if it did not learn of the later, nobody could ever win."""
    cluster = RaftCluster(3)
    cluster.store(1, log_of_terms(1, 1, 1), term=1)
    cluster.store(2, log_of_terms(1), term=4)
    cluster.crash(3)
    assert cluster.elect_somebody(within_ms=5_000) == 1


def test_an_answer_to_an_older_round_does_not_count() -> None:
    cluster = RaftCluster(5)
    cluster.time_out(1)
    cluster.step(1, PreVoteResponse(member(2), 1, True))
    cluster.step(1, PreVoteResponse(member(3), 7, True))
    assert isinstance(cluster.core(1).role, PreCandidate)
    cluster.step(1, PreVoteResponse(member(3), 1, True))
    assert isinstance(cluster.core(1).role, Candidate)


def test_who_gives_its_vote_away_stops_asking_for_itself() -> None:
    cluster = RaftCluster(3)
    cluster.store(1, [], term=1)
    cluster.time_out(1)
    assert isinstance(cluster.core(1).role, PreCandidate)
    cluster.step(1, VoteRequest(member(2), 1, 0, 0))
    assert isinstance(cluster.core(1).role, Follower)
    cluster.step(1, PreVoteResponse(member(3), 2, True))
    assert cluster.core(1).term == 1


def test_pre_votes_pass_a_leader_that_lost_its_quorum() -> None:
    """A leader that still reaches one follower must not make that follower block the majority's election for ever."""
    cluster = RaftCluster(5)
    cluster.elect(1)
    for far in (3, 4, 5):
        cluster.cut(far, 1)
        cluster.cut(1, far)
    cluster.pass_time(5_000)
    (leader,) = cluster.leaders
    assert leader in (2, 3, 4, 5)
