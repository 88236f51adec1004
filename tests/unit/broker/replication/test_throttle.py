"""So many bytes a second, over any longer while."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.broker.replication.throttle import Throttle


def test_what_is_taken_is_made_up_for_before_more_is() -> None:
    throttle = Throttle(lambda: 1000, 0)
    assert throttle.wait_ms(0) == 0
    throttle.take(500, 0)
    assert throttle.wait_ms(0) == pytest.approx(500)
    assert throttle.wait_ms(400) == pytest.approx(100)
    assert throttle.wait_ms(500) == 0


def test_what_was_not_used_is_forgone() -> None:
    throttle = Throttle(lambda: 1000, 0)
    throttle.take(1000, 60_000)
    assert throttle.wait_ms(60_000) == pytest.approx(750)


def test_another_rate_counts_from_now_on() -> None:
    rate = 1000
    throttle = Throttle(lambda: rate, 0)
    throttle.take(10_000, 0)
    assert throttle.wait_ms(0) == pytest.approx(10_000)
    rate = 100_000
    assert throttle.wait_ms(0) == pytest.approx(100)


@given(st.integers(1, 10**9), st.lists(st.tuples(st.integers(1, 10**7), st.integers(0, 1000)), min_size=1))
def test_over_a_while_no_more_is_taken_than_the_rate_and_one_piece(rate: int, taken: list[tuple[int, int]]) -> None:
    throttle = Throttle(lambda: rate, 0)
    now_ms, total = 0.0, 0
    for size_bytes, pause_ms in taken:
        now_ms += throttle.wait_ms(round(now_ms)) + pause_ms + 1
        assert throttle.wait_ms(round(now_ms)) <= 1
        total += size_bytes
        throttle.take(size_bytes, round(now_ms))
    assert total - max(size for size, _ in taken) <= rate * (now_ms + 251) / 1000 + len(taken)
