"""What a leader knows of a peer: probing, replicating, receiving a snapshot."""

import pytest

from lograft.raft.core.peer_progress import PeerProgress, Probe, ReceiveSnapshot, Replicate

MANY, MANY_BYTES = 100, 10_000


def replicating(match_index: int, next_index: int | None = None) -> PeerProgress:
    return PeerProgress(next_index or match_index + 1, match_index, Replicate())


def is_paused(progress: PeerProgress) -> bool:
    return progress.is_paused(MANY, MANY_BYTES)


def test_a_probe_goes_out_once_and_is_repeated_only_when_the_peer_is_heard() -> None:
    progress = PeerProgress(next_index=5)
    assert not is_paused(progress)
    progress.sent(9, 100, 0)
    assert (is_paused(progress), progress.next_index) == (True, 5)
    progress.heartbeat_answered(1)
    assert not is_paused(progress)


def test_an_answered_probe_lets_entries_flow() -> None:
    progress = PeerProgress(next_index=5)
    progress.sent(9, 100, 0)
    assert progress.acknowledge(9)
    assert (progress.state, progress.match_index, progress.next_index) == (Replicate(), 9, 10)


def test_an_old_answer_does_not_end_a_probe() -> None:
    progress = PeerProgress(next_index=5, match_index=2)
    assert progress.acknowledge(3)
    assert (progress.state, progress.match_index, progress.next_index) == (Probe(), 3, 5)


def test_entries_in_flight_are_counted_until_they_are_acknowledged() -> None:
    progress = replicating(4)
    progress.sent(6, 20, 0)
    progress.sent(9, 30, 0)
    assert isinstance(progress.state, Replicate)
    assert (list(progress.state.in_flight), progress.state.in_flight_bytes, progress.next_index) == (
        [(6, 20), (9, 30)],
        50,
        10,
    )
    progress.acknowledge(6)
    assert (list(progress.state.in_flight), progress.state.in_flight_bytes) == ([(9, 30)], 30)
    progress.acknowledge(9)
    assert (list(progress.state.in_flight), progress.state.in_flight_bytes) == ([], 0)


@pytest.mark.parametrize(
    ("max_in_flight", "max_bytes", "paused"), [(3, 100, False), (2, 100, True), (3, 50, True), (3, 51, False)]
)
def test_what_is_in_flight_is_limited_by_count_and_bytes(max_in_flight: int, max_bytes: int, paused: bool) -> None:
    progress = replicating(4)
    progress.sent(6, 20, 0)
    progress.sent(9, 30, 0)
    assert progress.is_paused(max_in_flight, max_bytes) == paused


def test_a_request_without_entries_is_not_in_flight() -> None:
    progress = replicating(4)
    progress.sent(4, 0, 4)
    assert (progress.state, progress.next_index, progress.sent_commit_index) == (Replicate(), 5, 4)


def test_an_acknowledgement_is_news_once_and_never_takes_back() -> None:
    progress = replicating(4, next_index=9)
    assert progress.acknowledge(6)
    assert not progress.acknowledge(6)
    assert not progress.acknowledge(5)
    assert (progress.match_index, progress.next_index) == (6, 9)


def test_a_peer_receiving_a_snapshot_is_left_alone_until_it_has_it() -> None:
    progress = PeerProgress(3, 0, ReceiveSnapshot(10))
    progress.acknowledge(7)
    progress.heartbeat_answered(1)
    progress.connection_broken()
    assert progress.state == ReceiveSnapshot(10)
    assert is_paused(progress)
    progress.acknowledge(10)
    assert (progress.state, progress.next_index) == (Replicate(), 11)


def test_a_broken_connection_begins_anew_after_what_is_known() -> None:
    progress = replicating(4)
    progress.sent(9, 100, 0)
    progress.connection_broken()
    assert (progress.state, progress.next_index) == (Probe(), 5)


def test_a_probe_never_goes_below_what_is_known_to_match() -> None:
    progress = replicating(4)
    progress.probe_from(2)
    assert progress.next_index == 5


def test_what_was_not_answered_before_a_later_heartbeat_was_lost() -> None:
    progress = replicating(4)
    progress.sent(6, 20, 0)
    progress.heartbeat_sent(7)
    progress.sent(9, 20, 0)
    progress.heartbeat_answered(6)
    assert isinstance(progress.state, Replicate)
    progress.heartbeat_answered(7)
    assert (progress.state, progress.next_index) == (Probe(), 5)


def test_what_was_answered_before_a_later_heartbeat_was_not_lost() -> None:
    progress = replicating(4)
    progress.sent(6, 20, 0)
    progress.heartbeat_sent(7)
    progress.sent(9, 20, 0)
    progress.acknowledge(6)
    progress.heartbeat_answered(7)
    assert isinstance(progress.state, Replicate)
    assert progress.next_index == 10


def test_rounds_never_fall() -> None:
    progress = replicating(4)
    progress.heartbeat_answered(7)
    progress.heartbeat_answered(5)
    assert progress.acknowledged_round == 7
