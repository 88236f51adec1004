"""Replication in every order and of many entries. scripts/replication.txt has the stories."""

from itertools import permutations

import pytest
from support.raft_cluster import RaftCluster, append_request, log_of_terms, member

from lograft.raft.core.messages import (
    AppendRefusal,
    AppendRequest,
    AppendResponse,
    Heartbeat,
    Message,
)
from lograft.raft.core.peer_progress import Probe, Replicate
from lograft.raft.core.raft_core import RaftLimits


def test_a_command_reaches_everyone_once_and_in_order() -> None:
    cluster = RaftCluster(5)
    cluster.elect(1)
    commands = [f"{number}".encode() for number in range(50)]
    for data in commands:
        cluster.propose(1, data)
    cluster.settle()
    assert [cluster.committed(node_id) for node_id in cluster.nodes] == [commands] * 5


def test_a_log_gap_refusal_still_resets_the_election_timer() -> None:
    """Or a follower far behind would depose its leader again and again."""
    cluster = RaftCluster(3)
    for _ in range(10):
        cluster.now_ms += 400
        cluster.step(2, append_request(1, (9, 1)))
        assert cluster.core(2).deadline_ms - cluster.now_ms >= cluster.timing.election_min_ms
    assert len(cluster.in_flight(AppendRefusal)) == 10


@pytest.mark.parametrize("message", [append_request(1, (0, 0)), Heartbeat(member(1), 1, 0, 1)])
def test_every_word_of_the_leader_resets_the_election_timer(message: Message) -> None:
    cluster = RaftCluster(3)
    cluster.step(2, message)
    for _ in range(10):
        cluster.now_ms += 400
        cluster.step(2, message)
        assert cluster.core(2).deadline_ms - cluster.now_ms >= cluster.timing.election_min_ms


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_requests_in_any_order_lose_nothing(order: tuple[int, ...]) -> None:
    cluster = RaftCluster(2)
    cluster.elect(1)
    for number in range(4):
        cluster.propose(1, f"{number}".encode())
    requests = cluster.in_flight(AppendRequest, to=2)
    assert len(requests) == 4
    cluster.network.clear()
    for place in order:
        cluster.step(2, requests[place])
    cluster.pass_time(300)
    assert cluster.committed(2) == [b"0", b"1", b"2", b"3"]


def test_what_is_applied_at_a_time_is_limited_by_bytes() -> None:
    cluster = RaftCluster(1, limits=RaftLimits(max_applied_bytes=100))
    cluster.elect(1)
    core = cluster.core(1)
    for _ in range(3):
        core.propose(bytes(60))
    applied = []
    while (ready := core.ready()) is not None:
        applied.append(len(ready.committed))
        cluster.nodes[1].disk.save(ready)
        core.advance(ready)
    assert applied == [0, 1, 1, 1]


def test_a_late_answer_does_not_end_a_probe() -> None:
    """It says nothing of where the logs agree now: taking it so would send a window full of refused requests."""
    cluster = RaftCluster(2)
    cluster.elect(1)
    progress = cluster.leading(1).progress[member(2)]
    progress.match_index = 0
    progress.probe_from(2)
    cluster.core(1).step(AppendResponse(member(2), 1, 0), cluster.now_ms)
    assert isinstance(progress.state, Probe)
    cluster.core(1).step(AppendResponse(member(2), 1, 1), cluster.now_ms)
    assert isinstance(progress.state, Replicate)


def test_a_long_disagreement_takes_a_request_a_term_and_not_one_an_entry() -> None:
    long = [1] * 10 + [5] * 100
    cluster = RaftCluster(3)
    cluster.store(1, log_of_terms(*long), term=6)
    cluster.store(3, log_of_terms(*long), term=6)
    cluster.store(2, log_of_terms(*[1] * 10, *[2] * 50, *[3] * 50), term=6)
    cluster.crash(2)
    cluster.elect(1)
    cluster.restart(2)
    before = len([line for line in cluster.transcript if "1 -> 2 AppendRequest" in line])
    cluster.pass_time(300)
    assert cluster.terms(2) == cluster.terms(1)
    after = len([line for line in cluster.transcript if "1 -> 2 AppendRequest" in line])
    assert after - before <= 5
