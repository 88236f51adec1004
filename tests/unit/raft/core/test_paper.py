"""The figures of the Raft paper, played through."""

import pytest
from support.raft_cluster import RaftCluster, log_of_terms

from lograft.raft.core.entries import Command, Entry
from lograft.raft.core.messages import AppendRequest, PreVoteRequest
from lograft.raft.core.raft_core import RaftLimits

# Figure 7: the leader of term 8, and six followers whose logs differ in every way there is.
FIGURE_7_LEADER = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
FIGURE_7_FOLLOWERS = {
    "a, lacks an entry": [1, 1, 1, 4, 4, 5, 5, 6, 6],
    "b, lacks many": [1, 1, 1, 4],
    "c, has one too many": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
    "d, has two of a later term": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
    "e, lacks some and has others": [1, 1, 1, 4, 4, 4, 4],
    "f, went its own way": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
}


def entries_of(terms: list[int]) -> list[Entry]:
    """Those of one term and index are the same in every log."""
    return log_of_terms(*terms)


@pytest.mark.parametrize("name", FIGURE_7_FOLLOWERS)
def test_figure_7_every_follower_comes_to_agree_after_few_requests(name: str) -> None:
    cluster = RaftCluster(3)
    cluster.store(1, entries_of(FIGURE_7_LEADER), term=8)
    cluster.store(2, entries_of(FIGURE_7_FOLLOWERS[name]), term=8)
    cluster.store(3, entries_of(FIGURE_7_LEADER), term=8)  # there is a majority for the leader without 2
    cluster.time_out(1)
    while 1 not in cluster.leaders:
        cluster.drop(to=2)
        cluster.deliver(to=3)
        cluster.deliver(to=1)
    requests = 0
    while cluster.terms(2) != cluster.terms(1):
        requests += cluster.deliver(AppendRequest, to=2)
        cluster.deliver(by=2)
    assert requests <= 3, cluster.story()
    cluster.settle()
    assert cluster.terms(2) == [*FIGURE_7_LEADER, 9, 9][: len(cluster.terms(1))]
    assert cluster.nodes[2].disk.entries == cluster.nodes[1].disk.entries


def test_a_long_disagreement_takes_a_request_a_term_and_not_one_an_entry() -> None:
    cluster = RaftCluster(3)
    cluster.store(1, entries_of([1] * 10 + [5] * 100), term=6)
    cluster.store(3, entries_of([1] * 10 + [5] * 100), term=6)
    cluster.store(2, entries_of([1] * 10 + [2] * 50 + [3] * 50), term=6)
    cluster.crash(2)
    cluster.elect(1)
    cluster.restart(2)
    before = len([line for line in cluster.transcript if "1 -> 2 AppendRequest" in line])
    cluster.pass_time(300)
    assert cluster.terms(2) == cluster.terms(1)
    after = len([line for line in cluster.transcript if "1 -> 2 AppendRequest" in line])
    assert after - before <= 5


def figure_8_up_to_c() -> RaftCluster:
    """S1 led term 2 and got entry 2 to S2; S5 led term 3 and got its own entry 2 to nobody; S1 leads again, in term 4.

    One entry a request, so that what is old and what is new travel apart.
    """
    cluster = RaftCluster(5, limits=RaftLimits(max_append_bytes=1))
    for node_id in (1, 2):
        cluster.store(node_id, log_of_terms(1, 2), term=3)
    for node_id in (3, 4):
        cluster.store(node_id, log_of_terms(1), term=3)
    cluster.store(5, log_of_terms(1, 3), term=3)
    cluster.time_out(1)
    while 1 not in cluster.leaders:
        cluster.drop(to=5)
        cluster.deliver()
    return cluster


def test_an_entry_of_an_older_term_is_not_committed_by_counting() -> None:
    """Figure 8 (c) and (d): entry 2 of term 2 is on a majority, and can still be overwritten."""
    cluster = figure_8_up_to_c()
    # (c) S3 and S4 get the entry of term 2, but nobody gets the one of term 4.
    while cluster.network:
        for node_id in (2, 3, 4):
            if cluster.core(node_id).log.matches(2, 2):
                cluster.drop(AppendRequest, to=node_id)  # it would take the next one, too
        cluster.drop(to=5)
        cluster.deliver()
    on_disk = {node_id: [entry.term for entry in node.disk.entries] for node_id, node in cluster.nodes.items()}
    assert on_disk == {1: [1, 2, 4], 2: [1, 2], 3: [1, 2], 4: [1, 2], 5: [1, 3]}
    assert cluster.core(1).log.commit_index == 0
    # (d) S1 crashes, S5 wins with the votes of the others, and overwrites it.
    cluster.crash(1)
    cluster.time_out(5)
    cluster.settle()
    cluster.elect(5)
    cluster.pass_time(500)
    assert cluster.terms(2) == cluster.terms(3) == cluster.terms(4) == [1, 3, 5]
    assert cluster.core(2).log.commit_index == 3


def test_figure_8_e_an_entry_of_the_own_term_commits_the_older_ones_with_it() -> None:
    cluster = figure_8_up_to_c()
    cluster.crash(5)
    cluster.settle()
    cluster.pass_time(300)
    assert cluster.terms(3) == [1, 2, 4]
    assert cluster.core(3).log.commit_index == 3
    cluster.crash(1)
    cluster.restart(5)
    cluster.time_out(5)
    cluster.settle()
    assert 5 not in cluster.leaders


def test_the_story_of_an_election_and_a_command() -> None:
    cluster = RaftCluster(3)
    cluster.crash(3)
    cluster.transcript.clear()
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.settle()
    cluster.pass_time(10)
    assert cluster.story() == "\n".join(
        [
            "  1000 1 is pre-candidate of term 0",
            "  1000 1 -> 2 PreVoteRequest term 1, log ends at 0.0",
            "  1000 1 -> 3 PreVoteRequest term 1, log ends at 0.0 (nobody there)",
            "  1000 2 -> 1 PreVoteResponse term 1: yes",
            "  1000 1 is candidate of term 1",
            "  1000 1 -> 2 VoteRequest term 1, log ends at 0.0",
            "  1000 2 is follower of nobody of term 1",
            "  1000 1 -> 3 VoteRequest term 1, log ends at 0.0 (nobody there)",
            "  1000 2 -> 1 VoteResponse term 1: yes",
            "  1000 1 is leader of term 1",
            "  1000 1 -> 2 AppendRequest term 1, after 0.0: 1.1=voters 1,2,3, commit 0",
            "  1000 2 is follower of 1 of term 1",
            "  1000 1 -> 3 AppendRequest term 1, after 0.0: 1.1=voters 1,2,3, commit 0 (nobody there)",
            "  1000 2 -> 1 AppendResponse term 1, agrees up to 1",
            "  1000 1 -> 2 AppendRequest term 1, after 1.1: nothing, commit 1",
            "  1000 2 -> 1 AppendResponse term 1, agrees up to 1",
            "  1000 1 -> 2 AppendRequest term 1, after 1.1: 2.1=x, commit 1",
            "  1000 2 -> 1 AppendResponse term 1, agrees up to 2",
            "  1000 1 -> 2 AppendRequest term 1, after 2.1: nothing, commit 2",
            "  1000 2 -> 1 AppendResponse term 1, agrees up to 2",
            "  1000 1 -> 2 Heartbeat term 1, round 1, commit 2",
            "  1000 1 -> 3 Heartbeat term 1, round 1, commit 0 (nobody there)",
            "  1000 2 -> 1 HeartbeatResponse term 1, round 1",
        ]
    )
    assert cluster.in_flight(PreVoteRequest) == []
    assert [entry.payload for entry in cluster.core(2).log.between(1, 2)] == [Command(b"x")]
