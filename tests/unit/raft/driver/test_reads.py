"""Linearizable reads (dissertation §6.4): by ReadIndex, never by lease."""

from support.raft_cluster import RaftCluster, member

from lograft.raft.core.configuration import AddLearner, RemoveMember
from lograft.raft.core.messages import AppendResponse, Heartbeat, HeartbeatResponse, ReadIndexRequest, ReadIndexResponse


def test_a_read_waits_until_a_majority_confirms_the_leader() -> None:
    cluster = RaftCluster(5)
    cluster.elect(1)
    cluster.read(1, 7)
    assert cluster.nodes[1].reads == {}
    cluster.deliver(Heartbeat)
    cluster.deliver(HeartbeatResponse, by=2)
    assert cluster.nodes[1].reads == {}
    cluster.deliver(HeartbeatResponse, by=3)
    assert cluster.nodes[1].reads == {7: 1}


def test_answers_to_heartbeats_from_before_the_read_prove_nothing() -> None:
    """Since then, another may have been elected, and have committed more."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.tick(1)
    cluster.deliver(Heartbeat)
    stale = [envelope for envelope in cluster.network if isinstance(envelope.message, HeartbeatResponse)]
    assert len(stale) == 2
    cluster.isolate(1)
    cluster.read(1, 7)
    for envelope in stale * 3:
        cluster.step(1, envelope.message)
    assert cluster.nodes[1].reads == {}


def test_one_answer_many_times_is_not_a_majority() -> None:
    cluster = RaftCluster(5)
    cluster.elect(1)
    cluster.read(1, 7)
    cluster.deliver(Heartbeat, to=2)
    (answer,) = cluster.in_flight(HeartbeatResponse)
    for _ in range(5):
        cluster.step(1, answer)
    assert cluster.nodes[1].reads == {}


def test_learners_prove_nothing() -> None:
    cluster = RaftCluster(3, empty=[4, 5])
    cluster.elect(1)
    for learner in (4, 5):
        cluster.change(1, AddLearner(member(learner)))
        cluster.settle()
    cluster.read(1, 7)
    cluster.deliver(Heartbeat)
    for learner in (4, 5):
        cluster.deliver(HeartbeatResponse, by=learner)
    assert cluster.nodes[1].reads == {}


def test_a_deposed_leader_never_answers() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.isolate(1)
    cluster.elect(2)
    cluster.propose(2, b"newer")
    cluster.settle()
    cluster.read(1, 7)
    cluster.heal()
    cluster.tick(1)
    cluster.settle()
    assert cluster.nodes[1].reads == {7: None}


def test_an_acknowledgement_of_entries_is_no_proof_for_a_read() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.read(1, 7)
    cluster.drop()
    for peer in (2, 3):
        cluster.step(1, AppendResponse(member(peer), 1, 1))
    assert cluster.nodes[1].reads == {}


def test_a_read_before_the_first_commit_of_the_term_waits_for_it() -> None:
    """Until then the leader does not know what is committed: its index may be too low."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.settle()
    cluster.time_out(2)
    while 2 not in cluster.leaders:
        cluster.deliver()
    cluster.drop()
    cluster.read(2, 7)
    cluster.tick(2)
    cluster.deliver(Heartbeat)
    cluster.deliver(HeartbeatResponse)
    assert cluster.nodes[2].reads == {}
    cluster.settle()
    cluster.pass_time(300)
    assert cluster.nodes[2].reads == {7: 3}


def test_a_read_that_waits_for_the_first_commit_is_refused_when_leadership_is_lost() -> None:
    cluster = RaftCluster(3)
    cluster.time_out(1)
    while 1 not in cluster.leaders:
        cluster.deliver()
    cluster.isolate(1)
    cluster.read(1, 7)
    cluster.pass_time(2_000)
    assert cluster.nodes[1].reads == {7: None}


def test_many_reads_share_a_round() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    for read_id in range(10):
        cluster.core(1).read_index(read_id)
    cluster.carry_out(1)
    assert len(cluster.in_flight(Heartbeat)) == 2
    cluster.settle()
    assert cluster.nodes[1].reads == dict.fromkeys(range(10), 1)


def test_reads_at_different_times_are_answered_as_of_their_own() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.read(1, 1)
    cluster.propose(1, b"x")
    cluster.settle()
    cluster.read(1, 2)
    cluster.settle()
    assert cluster.nodes[1].reads == {1: 1, 2: 2}


def test_a_leader_alone_answers_at_once() -> None:
    cluster = RaftCluster(1)
    cluster.elect(1)
    cluster.read(1, 7)
    assert cluster.nodes[1].reads == {7: 1}


def test_a_follower_asks_its_leader() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.settle()
    cluster.read(2, 7)
    assert cluster.in_flight() == [ReadIndexRequest(member(2), 1, 7)]
    cluster.settle()
    assert (cluster.nodes[1].reads, cluster.nodes[2].reads) == ({}, {7: 2})


def test_whoever_is_asked_and_does_not_lead_says_so() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.step(2, ReadIndexRequest(member(3), 1, 7))
    assert cluster.in_flight() == [ReadIndexResponse(member(2), 1, 7, None)]


def test_without_a_leader_a_read_is_refused_at_once() -> None:
    cluster = RaftCluster(3)
    cluster.read(2, 7)
    assert cluster.nodes[2].reads == {7: None}


def test_a_forwarded_read_is_refused_when_the_leader_falls() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.cut(2, 1)
    cluster.cut(3, 1)
    cluster.step(1, ReadIndexRequest(member(2), 1, 7))
    cluster.pass_time(2_000)
    assert cluster.nodes[2].reads == {7: None}


def test_a_read_does_not_hang_on_a_voter_that_is_removed() -> None:
    """The one whose answer it waits for is no voter any more, and there is no other to answer."""
    cluster = RaftCluster(2)
    cluster.elect(1)
    cluster.crash(2)
    cluster.read(1, 7)
    assert cluster.nodes[1].reads == {}
    assert cluster.change(1, RemoveMember(member(2)))
    assert cluster.nodes[1].reads == {7: 1}


def test_reads_go_on_while_leadership_is_handed_over() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.transfer(1, 2)
    cluster.read(1, 7)
    cluster.settle()
    assert cluster.leaders == [2]
    assert 7 in cluster.nodes[1].reads
