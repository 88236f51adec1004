"""Leader election (Raft §5.2, §5.4.1), and what keeps a leader in office or out of it (dissertation §6.2)."""

import pytest
from support.raft_cluster import CrashPoint, RaftCluster, append_request, log_of_terms, member

from lograft.raft.core.configuration import AddLearner
from lograft.raft.core.entries import NewConfiguration
from lograft.raft.core.messages import AppendRequest, Heartbeat, PreVoteRequest, VoteRequest, VoteResponse
from lograft.raft.core.roles import Candidate, Follower, Leader, PreCandidate


def test_a_follower_that_hears_nothing_becomes_the_leader() -> None:
    cluster = RaftCluster(3)
    leader = cluster.elect_somebody(within_ms=2_000)
    assert cluster.leaders == [leader]
    assert [cluster.core(node_id).leader for node_id in (1, 2, 3)] == [member(leader)] * 3


def test_a_leader_that_is_heard_stays() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    term = cluster.core(1).term
    cluster.pass_time(20_000)
    assert (cluster.leaders, cluster.core(1).term) == ([1], term)


@pytest.mark.parametrize(
    ("voter", "candidate", "is_granted"),
    [
        ([], [], True),
        ([1], [1], True),
        ([1], [1, 1], True),
        ([1, 1], [1], False),  # a shorter log of the same term
        ([1, 1, 1], [2], True),  # a later term beats length
        ([2], [1, 1, 1], False),
        ([1, 2], [1, 3], True),
    ],
)
def test_only_a_log_at_least_as_complete_gets_a_vote(voter: list[int], candidate: list[int], is_granted: bool) -> None:
    cluster = RaftCluster(3)
    cluster.store(1, log_of_terms(*voter), term=5)
    cluster.step(1, VoteRequest(member(2), 6, len(candidate), candidate[-1] if candidate else 0))
    assert cluster.in_flight(VoteResponse) == [VoteResponse(member(1), 6, is_granted)]


def test_one_vote_a_term_and_the_same_answer_if_asked_again() -> None:
    cluster = RaftCluster(3)
    for candidate in (2, 3, 2):
        cluster.step(1, VoteRequest(member(candidate), 1, 0, 0))
    assert [answer.is_granted for answer in cluster.in_flight(VoteResponse)] == [True, False, True]


@pytest.mark.parametrize("term", [0, 1])
def test_a_vote_is_not_answered_before_it_is_durable(term: int) -> None:
    cluster = RaftCluster(3)
    cluster.store(1, [], term=term)
    cluster.core(1).step(VoteRequest(member(2), 1, 0, 0), 0)
    cluster.carry_out(1, CrashPoint.BEFORE_SAVE)
    assert not cluster.network
    cluster.restart(1)
    cluster.step(1, VoteRequest(member(3), 1, 0, 0))
    assert cluster.in_flight(VoteResponse) == [VoteResponse(member(1), 1, True)]


@pytest.mark.parametrize("term", [0, 1])
def test_a_vote_is_remembered_after_a_crash(term: int) -> None:
    """Whether it came with a new term or in one that was known."""
    cluster = RaftCluster(3)
    cluster.store(1, [], term=term)
    cluster.core(1).step(VoteRequest(member(2), 1, 0, 0), 0)
    cluster.carry_out(1, CrashPoint.AFTER_SAVE)
    cluster.restart(1)
    cluster.step(1, VoteRequest(member(3), 1, 0, 0))
    assert cluster.in_flight(VoteResponse) == [VoteResponse(member(1), 1, False)]


def test_a_refusal_waits_for_the_disk_too() -> None:
    """It tells of a term that a crash must not make undone."""
    cluster = RaftCluster(3)
    cluster.store(1, log_of_terms(1))
    core = cluster.core(1)
    core.step(VoteRequest(member(2), 7, 0, 0), 0)
    ready = core.ready()
    assert ready is not None
    assert (ready.messages_now, [envelope.message for envelope in ready.messages]) == (
        (),
        [VoteResponse(member(1), 7, False)],
    )
    assert ready.hard_state is not None
    assert ready.hard_state.term == 7


def test_a_candidate_asks_for_votes_only_after_its_own_is_durable() -> None:
    cluster = RaftCluster(3)
    cluster.time_out(1)
    cluster.deliver(PreVoteRequest, to=2)
    (grant,) = cluster.network[-1:]
    cluster.core(1).step(grant.message, cluster.now_ms)
    cluster.carry_out(1, CrashPoint.BEFORE_SAVE)
    assert not cluster.in_flight(VoteRequest)


def test_a_voter_alone_is_not_heard_before_its_own_vote_is_durable() -> None:
    """With learners: it wins by its own vote at once, and what it says then rests on that vote."""
    cluster = RaftCluster(1, empty=[2])
    cluster.elect(1)
    cluster.change(1, AddLearner(member(2)))
    cluster.settle()
    cluster.crash(1)
    cluster.restart(1)
    cluster.now_ms += 1_000
    core = cluster.core(1)
    core.tick(cluster.now_ms)
    ready = core.ready()
    assert ready is not None
    assert isinstance(core.role, Leader)
    assert ready.messages_now == ()
    assert [type(envelope.message) for envelope in ready.messages] == [AppendRequest]
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.vote) == (2, member(1))


def test_a_candidate_follows_a_leader_of_its_term() -> None:
    cluster = RaftCluster(3)
    cluster.time_out(1)
    cluster.deliver(PreVoteRequest, to=2)
    cluster.deliver(by=2)
    assert isinstance(cluster.core(1).role, Candidate)
    cluster.step(1, append_request(1, (0, 0), by=3))
    assert cluster.core(1).leader == member(3)


def test_a_leader_of_an_older_term_is_told_so_and_steps_down() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.isolate(1)
    cluster.elect(2)
    cluster.heal()
    assert cluster.leaders == [1, 2]
    cluster.tick(1)
    cluster.settle()
    assert cluster.leaders == [2]
    assert cluster.core(1).term == cluster.core(2).term


def test_a_node_stuck_in_a_later_term_does_not_stay_so() -> None:
    """It won a pre-vote, stood, and was cut off: with the terms apart, neither could follow the other."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.store(3, [], term=9)
    leader = cluster.elect_somebody(within_ms=3_000)
    cluster.pass_time(1_000)
    assert {cluster.core(node_id).leader for node_id in (1, 2, 3)} == {member(leader)}


def test_a_split_vote_is_decided_in_a_later_term() -> None:
    cluster = RaftCluster(4)
    for node_id in (1, 2):
        cluster.time_out(node_id)
    cluster.deliver()
    cluster.deliver()
    assert [node_id for node_id in (1, 2) if isinstance(cluster.core(node_id).role, Candidate)] == [1, 2]
    for candidate, voter in ((1, 3), (2, 4)):
        cluster.deliver(VoteRequest, by=candidate, to=voter)
    cluster.settle()
    assert cluster.leaders == []
    cluster.elect_somebody(within_ms=4_000)


# -- check-quorum


def test_check_quorum_deposes_a_leader_that_hears_no_majority() -> None:
    cluster = RaftCluster(5)
    cluster.elect(1)
    for node_id in (3, 4, 5):
        cluster.crash(node_id)
    cluster.pass_time(cluster.timing.election_max_ms + 2 * cluster.timing.heartbeat_ms)
    assert cluster.leaders == []


def test_check_quorum_keeps_a_leader_that_hears_just_a_majority() -> None:
    cluster = RaftCluster(5)
    cluster.elect(1)
    for node_id in (4, 5):
        cluster.crash(node_id)
    cluster.pass_time(10_000)
    assert cluster.leaders == [1]


def test_check_quorum_does_not_count_learners() -> None:
    cluster = RaftCluster(2, empty=[3])
    cluster.elect(1)
    cluster.change(1, AddLearner(member(3)))
    cluster.settle()
    cluster.crash(2)
    cluster.pass_time(2_000)
    assert cluster.leaders == []


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


def test_a_leader_cut_off_one_way_does_not_block_the_others_for_ever() -> None:
    """Its heartbeats arrive, their answers do not: nobody else may stand until it gives up."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.cut(2, 1)
    cluster.cut(3, 1)
    cluster.pass_time(4_000)
    (leader,) = cluster.leaders
    assert leader != 1


# -- after a broken connection


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


def test_voters_forget_a_leader_whose_connection_broke() -> None:
    """Otherwise they would protect a dead leader for half a second."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.crash(1)
    killed_ms = cluster.now_ms
    for survivor in (2, 3):
        cluster.break_connection(survivor, to=1)
    cluster.elect_somebody(within_ms=500)
    assert cluster.now_ms - killed_ms <= 160


def test_a_broken_connection_to_anyone_but_the_leader_changes_nothing() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    due_ms = cluster.core(2).deadline_ms
    cluster.break_connection(2, to=3)
    assert (cluster.core(2).leader, cluster.core(2).deadline_ms) == (member(1), due_ms)


def test_a_lost_connection_to_a_leader_that_lives_disturbs_no_one() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    term = cluster.core(1).term
    cluster.break_connection(2, to=1)
    cluster.pass_time(3_000)
    assert (cluster.leaders, cluster.core(1).term, cluster.core(2).leader) == ([1], term, member(1))


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


# -- who may stand, and who may not


def test_a_non_voter_never_stands_and_forgets_a_leader_it_no_longer_hears() -> None:
    cluster = RaftCluster(1, empty=[2])
    cluster.elect(1)
    cluster.change(1, AddLearner(member(2)))
    cluster.settle()
    assert cluster.core(2).leader == member(1)
    cluster.crash(1)
    cluster.pass_time(5_000)
    assert (cluster.core(2).role, cluster.network) == (Follower(None, cluster.core(2).now_ms), [])


def test_an_empty_store_never_votes() -> None:
    cluster = RaftCluster(2, empty=[3])
    cluster.step(3, VoteRequest(member(1), 1, 5, 1))
    assert cluster.in_flight(VoteResponse) == [VoteResponse(member(3), 1, False)]
    cluster.drop()
    cluster.step(3, PreVoteRequest(member(1), 9, 5, 1))
    (answer,) = cluster.in_flight()
    assert not answer.is_granted


def test_an_empty_store_never_stands() -> None:
    cluster = RaftCluster(0, empty=[1])
    cluster.pass_time(5_000)
    assert (cluster.core(1).term, cluster.network) == (0, [])


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


def test_a_wiped_node_is_another_member() -> None:
    """1 and 3 have committed something that 2 never saw. If 3, wiped, could vote for 2, that would be lost."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.isolate(2)
    cluster.propose(1, b"committed")
    cluster.settle()
    assert cluster.committed(1) == [b"committed"]
    cluster.crash(1)
    cluster.wipe(3)
    cluster.heal()
    cluster.pass_time(5_000)
    assert cluster.leaders == []
    cluster.restart(1)
    assert cluster.elect_somebody(within_ms=3_000) == 1
    assert cluster.committed(2) == [b"committed"]


def test_a_vote_of_someone_who_is_no_voter_does_not_count() -> None:
    cluster = RaftCluster(3)
    cluster.time_out(1)
    cluster.deliver(PreVoteRequest, to=2)
    cluster.deliver(by=2)
    cluster.step(1, VoteResponse(member(3, generation=1), 1, True))
    assert isinstance(cluster.core(1).role, Candidate)
    cluster.step(1, VoteResponse(member(3), 1, True))
    assert isinstance(cluster.core(1).role, Leader)
