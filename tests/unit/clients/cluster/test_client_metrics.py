import pytest

from lograft.clients.cluster.rates import Latencies, LatencySamples, Rate


def test_a_rate_is_that_of_the_window() -> None:
    rate = Rate(0, window_ms=10_000)
    for second in range(60):
        rate.add(100, second * 1000)
    assert rate.total == 6000
    assert rate.per_second(59_999) == pytest.approx(100)
    assert rate.per_second(69_000) == 0


def test_a_young_rate_counts_from_its_beginning() -> None:
    rate = Rate(5_000)
    rate.add(300, 6_000)
    assert rate.per_second(8_000) == pytest.approx(100)
    assert Rate(0).per_second(0) == 0


def test_a_rate_keeps_no_more_than_its_window_has_slots() -> None:
    rate = Rate(0)
    for moment in range(0, 1_000_000, 10):
        rate.add(1, moment)
    assert len(rate._slots) <= 21


def test_latencies_are_those_of_the_latest() -> None:
    samples = LatencySamples(samples=100)
    assert samples.summary() == Latencies()
    for milliseconds in range(1000):
        samples.add(milliseconds)
    assert samples.summary() == Latencies(count=1000, p50_ms=950, p90_ms=990, p99_ms=999, max_ms=999)
