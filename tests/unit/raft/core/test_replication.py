"""Log replication (Raft §5.3): appending, disagreement and its repair, flow control, and what a bad network does."""

from itertools import permutations

import pytest
from support.raft_cluster import CrashPoint, RaftCluster, append_request, command, log_of_terms, member

from lograft.raft.core.messages import (
    AppendRefusal,
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
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


def test_only_the_leader_takes_proposals() -> None:
    cluster = RaftCluster(3)
    assert cluster.propose(1, b"x") is None
    cluster.elect(1)
    assert cluster.propose(2, b"x") is None
    assert cluster.propose(1, b"x") == 2


def test_what_came_together_travels_together() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    for data in (b"a", b"b", b"c"):
        cluster.core(1).propose(data)
    cluster.carry_out(1)
    assert [len(request.entries) for request in cluster.in_flight(AppendRequest)] == [3, 3]


def test_entries_are_not_acknowledged_before_they_are_durable() -> None:
    cluster = RaftCluster(3)
    cluster.store(2, [], term=1)
    request = append_request(1, (0, 0), log_of_terms(1))
    cluster.core(2).step(request, 0)
    cluster.carry_out(2, CrashPoint.BEFORE_SAVE)
    assert not cluster.network
    cluster.restart(2)
    assert cluster.core(2).log.last_index == 0
    cluster.core(2).step(request, 0)
    cluster.carry_out(2, CrashPoint.AFTER_SEND)
    assert cluster.in_flight(AppendResponse) == [AppendResponse(member(2), 1, 1)]
    cluster.restart(2)
    assert cluster.core(2).log.last_index == 1


def test_the_leader_sends_entries_while_its_own_disk_is_busy() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    core = cluster.core(1)
    core.propose(b"x")
    ready = core.ready()
    assert ready is not None
    assert [type(envelope.message) for envelope in ready.messages_now] == [AppendRequest, AppendRequest]
    assert len(ready.entries) == 1


# -- a follower's answers


@pytest.mark.parametrize(
    ("previous", "answer"),
    [
        ((0, 0), AppendResponse(member(2), 5, 0)),
        ((3, 2), AppendResponse(member(2), 5, 3)),
        ((4, 2), AppendRefusal(member(2), 5, 4, 3, 2)),  # a gap: it ends at 3
        ((9, 5), AppendRefusal(member(2), 5, 9, 3, 2)),
        ((3, 3), AppendRefusal(member(2), 5, 3, 3, 2)),  # another term there, but an older one: it may be shared
        ((3, 1), AppendRefusal(member(2), 5, 3, 2, 1)),  # everything of term 2 must differ from that log
    ],
)
def test_a_follower_says_where_it_may_agree(previous: tuple[int, int], answer: Message) -> None:
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(1, 1, 2), term=5)
    cluster.step(2, append_request(5, previous))
    assert cluster.in_flight() == [answer]


@pytest.mark.parametrize(
    ("has", "sent", "gets"),
    [
        ([1, 1], ((2, 1), [3]), [1, 1, 3]),
        ([1, 1], ((1, 1), [2]), [1, 2]),  # a conflict goes
        ([1, 1, 1, 1], ((1, 1), [2]), [1, 2]),  # with all after it
        ([1, 1, 1, 1], ((1, 1), [1]), [1, 1, 1, 1]),  # but what merely comes late takes nothing away
        ([1, 1], ((0, 0), [1, 1, 1]), [1, 1, 1]),
        ([1, 1], ((2, 1), []), [1, 1]),
    ],
)
def test_a_follower_takes_over_what_the_leader_has(
    has: list[int], sent: tuple[tuple[int, int], list[int]], gets: list[int]
) -> None:
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(*has), term=5)
    previous, terms = sent
    entries = [command(previous[0] + 1 + place, term) for place, term in enumerate(terms)]
    cluster.step(2, append_request(5, previous, entries))
    assert cluster.terms(2) == gets
    assert [entry.term for entry in cluster.nodes[2].disk.entries] == gets
    assert cluster.in_flight() == [AppendResponse(member(2), 5, previous[0] + len(terms))]


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


def test_a_follower_commits_no_more_than_it_knows_to_agree() -> None:
    """Beyond what the request covers, its log may still differ from the leader's."""
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(1, 1, 1), term=2)
    cluster.step(2, append_request(2, (1, 1), [], commit_index=3))
    assert cluster.core(2).log.commit_index == 1


def test_a_heartbeat_commits_no_more_than_the_peer_is_known_to_have() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.cut(1, 2)
    cluster.propose(1, b"x")
    cluster.settle()
    cluster.heal()
    cluster.now_ms += 100
    cluster.tick(1)
    assert cluster.core(1).log.commit_index == 2
    assert [heartbeat.commit_index for heartbeat in cluster.in_flight(Heartbeat)] == [1, 2]


# -- a bad network


def test_a_refusal_that_comes_twice_is_answered_once() -> None:
    cluster = RaftCluster(3)
    cluster.store(1, log_of_terms(1, 1, 1))
    cluster.store(3, log_of_terms(1, 1, 1))
    cluster.crash(2)
    cluster.elect(1)
    cluster.restart(2)
    cluster.now_ms += 100
    cluster.tick(1)
    cluster.deliver(Heartbeat)
    cluster.deliver(HeartbeatResponse)
    cluster.deliver(AppendRequest, to=2)
    cluster.duplicate(AppendRefusal)
    cluster.duplicate(AppendRefusal)
    assert cluster.deliver(AppendRefusal, by=2) == 4
    assert len(cluster.in_flight(AppendRequest, to=2)) == 1


def test_duplicated_requests_change_nothing() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    for number in range(5):
        cluster.propose(1, f"{number}".encode())
        for _ in range(3):
            cluster.duplicate()
            cluster.deliver()
    cluster.settle()
    assert cluster.committed(2) == cluster.committed(3) == [b"0", b"1", b"2", b"3", b"4"]


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


def test_a_late_request_does_not_take_back_what_came_after_it() -> None:
    cluster = RaftCluster(3)
    entries = log_of_terms(1, 1, 1)
    cluster.step(2, append_request(1, (0, 0), entries, commit_index=2))
    cluster.step(2, append_request(1, (0, 0), entries[:1], commit_index=1))
    assert (cluster.terms(2), cluster.core(2).log.commit_index) == ([1, 1, 1], 2)


def test_a_request_from_before_the_commit_index_is_answered_with_it() -> None:
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(1, 1, 1), commit_index=3)
    cluster.step(2, append_request(1, (1, 1), log_of_terms(1, 1)[1:]))
    assert cluster.in_flight() == [AppendResponse(member(2), 1, 3)]


def test_requests_of_an_older_term_are_not_obeyed() -> None:
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(1), term=5)
    due_ms = cluster.core(2).deadline_ms
    cluster.now_ms += 100
    cluster.step(2, append_request(4, (1, 1), [command(2, 4)], commit_index=2))
    assert (cluster.terms(2), cluster.core(2).deadline_ms) == ([1], due_ms)
    assert cluster.in_flight() == [AppendResponse(member(2), 5, 0)]


@pytest.mark.parametrize("lost", ["requests", "answers"])
def test_a_loss_that_nothing_follows_is_noticed_at_a_heartbeat(lost: str) -> None:
    """Nobody proposes any more, no connection broke: without this the peer would lag for ever."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    if lost == "requests":
        cluster.drop(AppendRequest)
    else:
        cluster.deliver(AppendRequest)
        cluster.drop(AppendResponse)
    cluster.pass_time(300)
    assert [cluster.committed(node_id) for node_id in (1, 2, 3)] == [[b"x"]] * 3


def test_a_window_full_of_lost_requests_opens_again() -> None:
    cluster = RaftCluster(2, limits=RaftLimits(max_in_flight=3))
    cluster.elect(1)
    for number in range(10):
        cluster.propose(1, f"{number}".encode())
    assert cluster.drop(AppendRequest) == 3
    cluster.pass_time(500)
    assert len(cluster.committed(2)) == 10


def test_a_lost_probe_is_repeated_when_the_peer_is_heard() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.break_connection(1, to=2)
    assert cluster.drop(AppendRequest, to=2) == 1
    assert cluster.leading(1).progress[member(2)].state == Probe(is_waiting=True)
    cluster.pass_time(100)
    assert cluster.leading(1).progress[member(2)].state == Replicate()


def test_a_peer_that_is_silent_is_not_probed_again_and_again() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.crash(2)
    cluster.propose(1, b"x")
    cluster.break_connection(1, to=2)
    cluster.drop(to=2)
    for _ in range(5):
        cluster.now_ms += 100
        cluster.tick(1)
    assert not cluster.in_flight(AppendRequest, to=2)


def test_after_a_broken_connection_what_was_under_way_is_sent_again() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.propose(1, b"x")
    cluster.drop(to=2)
    cluster.break_connection(1, to=2)
    (request,) = cluster.in_flight(AppendRequest, to=2)
    assert [entry.index for entry in request.entries] == [2]


# -- limits


def test_in_flight_requests_are_limited_by_count() -> None:
    cluster = RaftCluster(3, limits=RaftLimits(max_in_flight=4))
    cluster.elect(1)
    for number in range(10):
        cluster.propose(1, f"{number}".encode())
    assert len(cluster.in_flight(AppendRequest, to=2)) == 4
    cluster.deliver(AppendRequest, to=2)
    cluster.deliver(AppendResponse, by=2)
    (request,) = [request for request in cluster.in_flight(AppendRequest, to=2) if request.entries][:1]
    assert len(request.entries) >= 1
    cluster.settle()
    assert len(cluster.committed(3)) == 10


def test_in_flight_requests_are_limited_by_bytes() -> None:
    cluster = RaftCluster(3, limits=RaftLimits(max_in_flight_bytes=1_000))
    cluster.elect(1)
    for _ in range(10):
        cluster.propose(1, bytes(400))
    assert len(cluster.in_flight(AppendRequest, to=2)) == 3
    cluster.settle()
    assert len(cluster.committed(2)) == 10


def test_a_request_is_limited_by_bytes_but_carries_at_least_one_entry() -> None:
    cluster = RaftCluster(3, limits=RaftLimits(max_append_bytes=1_000))
    cluster.elect(1)
    for size in (400, 400, 400, 5_000, 100):
        cluster.core(1).propose(bytes(size))
    cluster.carry_out(1)
    assert [len(request.entries) for request in cluster.in_flight(AppendRequest, to=2)] == [2, 1, 1, 1]
    cluster.settle()
    assert len(cluster.committed(2)) == 5


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


def test_probing_sends_one_request_at_a_time() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.break_connection(1, to=2)
    for number in range(5):
        cluster.propose(1, f"{number}".encode())
    assert len(cluster.in_flight(AppendRequest, to=2)) == 1
    cluster.settle()
    assert len(cluster.committed(2)) == 5


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


def test_heartbeats_are_answered_with_their_round() -> None:
    cluster = RaftCluster(3)
    cluster.step(2, Heartbeat(member(1), 3, 0, 17))
    assert cluster.in_flight() == [HeartbeatResponse(member(2), 3, 17)]
