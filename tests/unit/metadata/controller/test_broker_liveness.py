"""Who is alive, by heartbeats and by streams that break."""

from hypothesis import given
from hypothesis import strategies as st

from lograft.metadata.controller.broker_liveness import BrokerLiveness, Process, SessionTiming
from lograft.metadata.image.partition import BrokerEpoch, BrokerId

ONE, TWO = BrokerId(1), BrokerId(2)
OLD, NEW = BrokerEpoch(10), BrokerEpoch(11)
LIVE: list[Process] = [(ONE, OLD), (TWO, OLD)]


def sessions(*heard: BrokerId, at_ms: int = 0) -> BrokerLiveness:
    """Active since 0; each of these has a stream, and was heard."""
    made = BrokerLiveness(SessionTiming(heartbeat_ms=500, session_ms=3000, broken_grace_ms=200))
    made.became_active(0)
    for broker_id in heard:
        made.stream_opened(broker_id, OLD, at_ms)
    return made


def test_silence_ends_a_session() -> None:
    made = sessions(ONE, TWO)
    made.heard(TWO, OLD, 500)
    assert made.expired(2999, LIVE) == []
    assert made.expired(3000, LIVE) == [(ONE, OLD)]
    assert not made.is_alive(ONE, OLD, 3000)
    assert made.is_alive(TWO, OLD, 3000)
    assert made.expired(3500, LIVE) == [(ONE, OLD), (TWO, OLD)]


def test_an_open_stream_without_heartbeats_keeps_nobody_alive() -> None:
    made = sessions(ONE)
    assert made.expired(3000, [(ONE, OLD)]) == [(ONE, OLD)]


def test_a_broken_stream_leaves_only_the_grace() -> None:
    made = sessions(ONE, at_ms=1000)
    made.stream_broken(ONE, OLD, 1100)
    assert made.expired(1299, LIVE[:1]) == []
    assert made.expired(1300, LIVE[:1]) == [(ONE, OLD)]


def test_the_grace_does_not_lengthen_a_session() -> None:
    made = sessions(ONE)
    made.stream_broken(ONE, OLD, 2950)
    assert made.expired(3000, LIVE[:1]) == [(ONE, OLD)]


def test_a_new_stream_within_the_grace_makes_good() -> None:
    made = sessions(ONE)
    made.stream_broken(ONE, OLD, 1000)
    made.stream_opened(ONE, OLD, 1150)
    assert made.expired(1200, LIVE[:1]) == []
    assert made.next_deadline_ms(LIVE[:1]) == 4150


def test_the_end_of_an_old_stream_means_nothing_while_a_new_one_is_open() -> None:
    made = sessions(ONE)
    made.stream_opened(ONE, OLD, 1000)
    made.stream_broken(ONE, OLD, 1100)
    assert made.next_deadline_ms(LIVE[:1]) == 4000
    made.stream_broken(ONE, OLD, 1200)
    assert made.next_deadline_ms(LIVE[:1]) == 1400


def test_what_an_older_process_does_means_nothing_to_the_newer() -> None:
    made = sessions(ONE)
    made.stream_opened(ONE, NEW, 1000)
    made.stream_broken(ONE, OLD, 1100)
    assert made.next_deadline_ms([(ONE, NEW)]) == 4000
    made.stream_opened(ONE, OLD, 2500)
    assert made.next_deadline_ms([(ONE, NEW)]) == 4000


def test_a_process_that_claims_a_later_epoch_ends_nobodys_session() -> None:
    made = sessions(ONE)
    made.stream_opened(ONE, BrokerEpoch(999), 100)
    made.heard(ONE, OLD, 500)
    assert made.is_alive(ONE, OLD, 3499)


def test_processes_that_have_gone_are_forgotten_after_a_while_and_those_with_a_stream_are_not() -> None:
    made = sessions(ONE, TWO)
    made.stream_broken(ONE, OLD, 100)
    for number in range(1000):
        made.heard(BrokerId(1000 + number), OLD, number * 1000)
    assert len(made._sessions) < 100
    made.stream_broken(TWO, OLD, 1_000_000)  # it was known: else this breaks


def test_what_an_older_process_says_does_not_keep_the_newer_alive() -> None:
    made = sessions()
    made.heard(ONE, NEW, 0)
    made.heard(ONE, OLD, 2000)
    assert made.expired(3000, [(ONE, NEW)]) == [(ONE, NEW)]


def test_what_a_newer_process_says_does_not_keep_the_older_alive() -> None:
    made = sessions(ONE)
    made.heard(ONE, NEW, 2500)
    assert made.expired(3000, [(ONE, OLD)]) == [(ONE, OLD)]
    assert not made.is_alive(ONE, OLD, 3000)


def test_only_those_that_count_as_live_expire() -> None:
    made = sessions(ONE, TWO)
    assert made.expired(9000, [(TWO, OLD)]) == [(TWO, OLD)]
    assert made.next_deadline_ms([]) is None


# -- a new active controller


def test_a_new_controller_gives_everyone_the_full_time() -> None:
    made = sessions(ONE)
    made.heard(ONE, OLD, 4000)
    made.became_active(10_000)
    assert made.expired(12_999, LIVE) == []
    assert made.is_alive(TWO, OLD, 12_999)
    assert made.expired(13_000, LIVE) == LIVE


def test_a_new_controller_gives_those_whose_stream_broke_only_the_grace() -> None:
    made = sessions(ONE, TWO, at_ms=9000)
    made.stream_broken(ONE, OLD, 9100)
    made.became_active(10_000)
    assert made.expired(10_199, LIVE) == []
    assert made.expired(10_200, LIVE) == [(ONE, OLD)]


def test_what_a_standby_heard_counts_when_it_becomes_active() -> None:
    made = sessions(ONE, at_ms=9900)
    made.became_active(10_000)
    made.heard(ONE, OLD, 10_500)
    assert made.expired(13_499, [(ONE, OLD)]) == []
    assert made.expired(13_500, [(ONE, OLD)]) == [(ONE, OLD)]


# -- a process that stood still


def test_after_a_stall_there_is_as_much_time_to_be_heard_of() -> None:
    made = sessions(ONE, TWO)
    made.stood_still(2500, 4000)
    made.stream_broken(TWO, OLD, 4001)  # it gave up on a controller that did not answer
    assert made.expired(6499, LIVE) == []
    made.heard(ONE, OLD, 4100)
    assert made.expired(6500, LIVE) == [(TWO, OLD)]
    assert made.next_deadline_ms([(ONE, OLD)]) == 7100


def test_a_long_stall_gives_no_more_than_a_full_session() -> None:
    made = sessions(ONE)
    made.stood_still(60_000, 61_000)
    assert made.expired(64_000, LIVE[:1]) == [(ONE, OLD)]


# -- in general


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 199)), max_size=30))
def test_who_says_something_in_time_is_never_fenced(beats: list[tuple[int, int]]) -> None:
    """A heartbeat at least every 500 ms, and streams that break, but are made anew within the grace."""
    made = sessions(ONE)
    now_ms = 0
    for wait_ms, gap_ms in beats:
        now_ms += wait_ms
        assert made.expired(now_ms, LIVE[:1]) == []
        made.heard(ONE, OLD, now_ms)
        if gap_ms > 100:
            made.stream_broken(ONE, OLD, now_ms)
            now_ms += gap_ms
            assert made.expired(now_ms, LIVE[:1]) == []
            made.stream_opened(ONE, OLD, now_ms)


EVENTS = st.sampled_from(["heard", "opened", "broken", "active"])


@given(st.lists(st.tuples(EVENTS, st.sampled_from([OLD, NEW]), st.integers(0, 900)), max_size=40))
def test_who_falls_silent_is_fenced_in_time_and_not_without_reason(
    events: list[tuple[str, BrokerEpoch, int]],
) -> None:
    made = sessions()
    now_ms, counts_from_ms, newest = 0, 0, OLD
    open_streams = {OLD: 0, NEW: 0}
    for kind, epoch, wait_ms in events:
        now_ms += wait_ms
        if kind == "broken":
            if open_streams[epoch]:
                made.stream_broken(ONE, epoch, now_ms)
                open_streams[epoch] -= 1
        elif kind == "active":
            made.became_active(now_ms)
            counts_from_ms = now_ms
        elif epoch >= newest:
            newest, counts_from_ms = epoch, now_ms
        if kind == "heard":
            made.heard(ONE, epoch, now_ms)
        elif kind == "opened":
            made.stream_opened(ONE, epoch, now_ms)
            open_streams[epoch] += 1
    deadline_ms = made.next_deadline_ms([(ONE, newest)])
    assert deadline_ms is not None
    assert deadline_ms <= counts_from_ms + 3000
    if not any(kind == "broken" for kind, _, _ in events):
        assert deadline_ms == counts_from_ms + 3000
    assert made.is_alive(ONE, newest, deadline_ms - 1)
    assert not made.is_alive(ONE, newest, deadline_ms)
