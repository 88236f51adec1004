"""Snapshots: compaction of the own log, and a leader's snapshot in the place of a log (Raft §7)."""

from support.raft_cluster import CrashPoint, RaftCluster, append_request, command, log_of_terms, member

from lograft.raft.core.configuration import AddLearner, PromoteLearner, RemoveMember, configuration
from lograft.raft.core.entries import SnapshotMetadata
from lograft.raft.core.messages import AppendRequest, AppendResponse, InstallSnapshot
from lograft.raft.core.peer_progress import Probe, ReceiveSnapshot, Replicate
from lograft.raft.core.raft_core import RaftLimits

VOTERS = configuration([member(1), member(2), member(3)])


def install(index: int, term: int, leader_term: int = 9) -> InstallSnapshot:
    return InstallSnapshot(member(1), leader_term, SnapshotMetadata(index, term, VOTERS), b"\nstate")


def cluster_with_a_laggard() -> RaftCluster:
    """Node 3 was away, and what it lacks is no longer in the leader's log."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.crash(3)
    for number in range(5):
        cluster.propose(1, f"{number}".encode())
    cluster.settle()
    cluster.take_snapshot(1)
    cluster.propose(1, b"after")
    cluster.settle()
    cluster.restart(3)
    return cluster


def play_until_a_snapshot_is_in_flight(cluster: RaftCluster) -> None:
    for _ in range(50):
        if cluster.in_flight(InstallSnapshot):
            return
        if not cluster.deliver():
            cluster.now_ms += 100
            cluster.tick(1)
    raise AssertionError("no snapshot was sent\n" + cluster.story())


def test_a_follower_too_far_behind_gets_the_snapshot_and_what_came_after_it() -> None:
    cluster = cluster_with_a_laggard()
    cluster.pass_time(500)
    assert cluster.committed(3) == [b"0", b"1", b"2", b"3", b"4", b"after"]
    assert cluster.core(3).log.snapshot.index == 6
    assert cluster.leading(1).progress[member(3)].state == Replicate()


def test_a_lost_snapshot_is_sent_again_at_a_later_heartbeat_and_not_in_a_loop() -> None:
    cluster = cluster_with_a_laggard()
    sent = 0
    for _ in range(5):
        cluster.now_ms += 100
        cluster.tick(1)
        while cluster.network:
            sent += cluster.drop(InstallSnapshot)
            cluster.deliver()
    assert 2 <= sent <= 5
    cluster.pass_time(500)
    assert cluster.committed(3)[-1] == b"after"


def test_a_lost_answer_to_a_snapshot_does_not_stop_replication() -> None:
    cluster = cluster_with_a_laggard()
    play_until_a_snapshot_is_in_flight(cluster)
    cluster.deliver(InstallSnapshot)
    assert cluster.drop(AppendResponse, by=3) == 1
    cluster.pass_time(500)
    assert cluster.committed(3)[-1] == b"after"


def test_a_peer_that_crashes_while_it_installs_gets_the_snapshot_again() -> None:
    cluster = cluster_with_a_laggard()
    play_until_a_snapshot_is_in_flight(cluster)
    (message,) = cluster.in_flight(InstallSnapshot)
    cluster.core(3).step(message, cluster.now_ms)
    cluster.carry_out(3, CrashPoint.BEFORE_SAVE)
    cluster.deliver(InstallSnapshot)
    cluster.restart(3)
    cluster.pass_time(500)
    assert cluster.committed(3)[-1] == b"after"


def test_a_broken_connection_does_not_order_a_second_snapshot_beside_the_first() -> None:
    cluster = cluster_with_a_laggard()
    play_until_a_snapshot_is_in_flight(cluster)
    cluster.break_connection(1, to=3)
    assert isinstance(cluster.leading(1).progress[member(3)].state, ReceiveSnapshot)
    assert len(cluster.in_flight(InstallSnapshot)) == 1
    cluster.drop(InstallSnapshot)
    assert cluster.leading(1).progress[member(3)].state == Probe(is_waiting=True)


def test_nothing_else_is_sent_to_a_peer_that_receives_a_snapshot() -> None:
    cluster = cluster_with_a_laggard()
    play_until_a_snapshot_is_in_flight(cluster)
    cluster.propose(1, b"more")
    assert not cluster.in_flight(AppendRequest, to=3)
    cluster.settle()
    cluster.pass_time(300)
    assert cluster.committed(3)[-1] == b"more"


def test_a_report_on_a_snapshot_nobody_ordered_is_ignored() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    before = cluster.leading(1).progress[member(2)].state
    cluster.core(1).snapshot_reported(member(2), is_delivered=False)
    cluster.core(1).snapshot_reported(member(9), is_delivered=False)
    cluster.core(2).snapshot_reported(member(1), is_delivered=True)
    assert cluster.leading(1).progress[member(2)].state is before


def test_a_window_of_lost_requests_below_the_snapshot_ends_in_a_snapshot() -> None:
    """The window is full of requests that were lost, and meanwhile their entries were compacted away."""
    cluster = RaftCluster(3, limits=RaftLimits(max_in_flight=2))
    cluster.elect(1)
    cluster.cut(1, 3)
    for number in range(5):
        cluster.propose(1, f"{number}".encode())
        cluster.settle()
    cluster.take_snapshot(1)
    cluster.heal()
    cluster.pass_time(500)
    assert len(cluster.committed(3)) == 5
    assert cluster.core(3).log.snapshot.index == 6


# -- a follower and a snapshot


def test_an_install_is_one_transaction_with_the_hard_state_and_the_entries_after_it() -> None:
    cluster = RaftCluster(3)
    core = cluster.core(2)
    core.step(install(5, 3), 0)
    core.step(append_request(9, (5, 3), [command(6, 9)], commit_index=6), 0)
    ready = core.ready()
    assert ready is not None
    assert ready.snapshot is not None
    assert (ready.snapshot.metadata.index, [entry.index for entry in ready.entries]) == (5, [6])
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.commit_index) == (9, 6)
    assert [entry.index for entry in ready.committed] == [6]
    assert ready.messages_now == ()


def test_a_snapshot_is_not_acknowledged_before_it_is_durable() -> None:
    cluster = RaftCluster(3)
    cluster.core(2).step(install(5, 3), 0)
    cluster.carry_out(2, CrashPoint.BEFORE_SAVE)
    assert not cluster.network
    cluster.restart(2)
    assert cluster.core(2).log.last_index == 0
    cluster.step(2, install(5, 3))
    assert cluster.in_flight() == [AppendResponse(member(2), 9, 5)]
    cluster.crash(2)
    cluster.restart(2)
    assert (cluster.core(2).log.last_index, cluster.nodes[2].state) == (5, b"\nstate")


def test_a_conflicting_log_is_dropped() -> None:
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(1, 1, 1, 1, 1, 1, 1))
    cluster.step(2, install(5, 3))
    assert (cluster.core(2).log.last_index, cluster.core(2).log.last_term) == (5, 3)
    assert cluster.nodes[2].disk.entries == []
    assert cluster.committed(2) == [b"state"]


def test_a_log_that_has_it_all_is_kept() -> None:
    """Entries after the snapshot may be acknowledged already: dropping them would take that back."""
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(1, 1, 3, 3))
    cluster.step(2, install(3, 3))
    assert cluster.core(2).log.snapshot.index == 0
    assert (cluster.core(2).log.last_index, cluster.core(2).log.commit_index) == (4, 3)
    assert cluster.committed(2) == [b"1.1", b"2.1", b"3.3"]
    assert cluster.in_flight() == [AppendResponse(member(2), 9, 3)]


def test_a_snapshot_older_than_the_commit_index_is_ignored() -> None:
    cluster = RaftCluster(3)
    cluster.store(2, log_of_terms(1, 1, 3, 3), commit_index=4)
    cluster.step(2, install(3, 3))
    assert cluster.nodes[2].state.endswith(b"4.3")
    assert cluster.in_flight() == [AppendResponse(member(2), 9, 4)]


def test_a_snapshot_older_than_the_own_one_is_ignored() -> None:
    cluster = RaftCluster(3)
    cluster.step(2, install(5, 3))
    cluster.step(2, install(4, 3))
    assert cluster.core(2).log.snapshot.index == 5
    assert cluster.in_flight() == [AppendResponse(member(2), 9, 5)] * 2


def test_a_snapshot_that_comes_twice_is_installed_once() -> None:
    cluster = RaftCluster(3)
    cluster.step(2, install(5, 3))
    cluster.step(2, append_request(9, (5, 3), [command(6, 9, b"x")], commit_index=6))
    cluster.step(2, install(5, 3))
    assert cluster.committed(2) == [b"state", b"x"]


def test_a_snapshot_of_an_older_leader_is_refused() -> None:
    cluster = RaftCluster(3)
    cluster.store(2, [], term=10)
    cluster.step(2, install(5, 3))
    assert cluster.core(2).log.last_index == 0
    assert cluster.in_flight() == [AppendResponse(member(2), 10, 0)]


def test_a_snapshot_brings_its_configuration() -> None:
    cluster = RaftCluster(3, empty=[4])
    cluster.elect(1)
    cluster.take_snapshot(1)
    cluster.change(1, AddLearner(member(4)))
    cluster.settle()
    cluster.change(1, PromoteLearner(member(4)))
    cluster.settle()
    cluster.crash(4)
    cluster.change(1, RemoveMember(member(2)))
    cluster.settle()
    cluster.take_snapshot(1)
    cluster.restart(4)
    cluster.pass_time(500)
    assert [voter.node_id for voter in cluster.core(4).configuration.voters] == [1, 3, 4]
    cluster.crash(4)
    cluster.restart(4)
    assert [voter.node_id for voter in cluster.core(4).configuration.voters] == [1, 3, 4]


def test_a_snapshot_names_the_configuration_of_its_index_and_not_the_latest() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.change(1, RemoveMember(member(3)))
    assert len(cluster.core(1).configuration.voters) == 2
    metadata = cluster.core(1).snapshot_metadata()
    assert (metadata.index, metadata.configuration) == (1, VOTERS)
    cluster.settle()
    assert len(cluster.core(1).snapshot_metadata().configuration.voters) == 2


def test_a_change_that_is_taken_back_after_compaction_gives_the_snapshots_configuration() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.take_snapshot(1)
    cluster.isolate(1)
    cluster.change(1, RemoveMember(member(3)))
    cluster.elect(2)
    cluster.heal()
    cluster.pass_time(500)
    assert cluster.core(1).configuration == VOTERS


def test_a_gap_below_the_leaders_snapshot_is_found_by_the_hint() -> None:
    cluster = cluster_with_a_laggard()
    cluster.transcript.clear()
    cluster.pass_time(500)
    assert cluster.core(3).log.snapshot.index == 6
    refusals = [line for line in cluster.transcript if "3 -> 1 AppendRefusal" in line]
    assert len(refusals) <= 1


def test_the_log_after_the_snapshot_goes_on() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    for node_id in (1, 2, 3):
        cluster.take_snapshot(node_id)
    cluster.propose(1, b"x")
    cluster.settle()
    for node_id in (1, 2, 3):
        cluster.crash(node_id)
        cluster.restart(node_id)
    leader = cluster.elect_somebody(within_ms=3_000)
    assert cluster.core(leader).log.snapshot.index == 1
    assert [cluster.committed(node_id) for node_id in (1, 2, 3)] == [[b"x"]] * 3
