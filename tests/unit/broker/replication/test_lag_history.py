"""How long ago a log ended where a follower is now."""

from lograft.broker.replication.lag_history import LagHistory


def test_who_has_nothing_that_is_remembered_was_never_there() -> None:
    history = LagHistory(10_000)
    assert history.when_at(5) is None
    history.moves_on(7, 1_000)
    assert history.when_at(6) is None


def test_the_log_was_at_an_offset_until_it_moved_on() -> None:
    history = LagHistory(10_000)
    history.moves_on(10, 1_000)
    history.moves_on(20, 5_000)
    assert [history.when_at(offset) for offset in (9, 10, 19, 20, 50)] == [None, 1_000, 1_000, 5_000, 5_000]


def test_between_two_marks_the_earlier_counts() -> None:
    history = LagHistory(10_000)
    history.moves_on(10, 1_000)
    history.moves_on(11, 1_001)
    assert history.when_at(11) == 1_000
    history.moves_on(12, 1_313)
    assert history.when_at(12) == 1_313


def test_it_remembers_the_span_however_much_is_appended_and_no_more_than_it_must() -> None:
    history = LagHistory(10_000)
    for millisecond in range(100_000):
        history.moves_on(millisecond, millisecond)
    assert len(history._ends) <= 64
    for ago_ms in (0, 500, 5_000, 9_900):
        found = history.when_at(99_999 - ago_ms)
        assert found is not None
        assert 0 <= 99_999 - ago_ms - found <= 10_000 // 30
    assert history.when_at(1_000) is None


def test_a_pause_leaves_what_is_remembered() -> None:
    history = LagHistory(10_000)
    history.moves_on(10, 1_000)
    history.moves_on(20, 10**9)
    assert history.when_at(20) == 10**9
