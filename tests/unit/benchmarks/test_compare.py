"""What the comparison with peers makes of its figures."""

from dataclasses import replace

import pytest
from compare.obtaining import Artifact, short_version
from compare.pacing import is_over, longest_pause
from compare.results import Results, Sample, UnknownResults, from_json, to_json
from compare.spread import Spread, advantage, lines_of, our_match, spread_of
from compare.system import Limit
from compare.table import BEGIN, END, markdown, number, put_into, ratio_text

OURS = Sample(0, "produce, 1 KiB", "lograft", "send", "os", "flush.mode=os", "records/s", 200.0)
THEIRS = Sample(0, "produce, 1 KiB", "Kafka", "produce", "os", "default", "records/s", 100.0)


def results(*samples: Sample) -> Results:
    return Results("a machine", "quick", "2026-01-01 00:00 UTC", samples=list(samples))


def test_spread_is_median_least_and_most() -> None:
    assert spread_of([5.0, 1.0, 3.0]) == Spread(3.0, 1.0, 5.0)
    assert spread_of([1.0, 2.0]).middle == 1.5


def test_ratios_are_made_round_by_round() -> None:
    """Of rounds in which both were twice as slow, the ratio is the same: the machine's mood cancels out."""
    samples = [OURS, THEIRS, replace(OURS, round=1, value=100.0), replace(THEIRS, round=1, value=50.0)]
    ours, theirs = lines_of(samples)
    assert advantage(ours, theirs) == Spread(2.0, 2.0, 2.0)


@pytest.mark.parametrize("unit", ["ms", "s", "MB", "s/GB"])
def test_where_less_is_better_a_smaller_figure_is_an_advantage(unit: str) -> None:
    ours, theirs = lines_of([replace(OURS, unit=unit, value=1.0), replace(THEIRS, unit=unit, value=4.0)])
    assert advantage(ours, theirs) == Spread(4.0, 4.0, 4.0)


def test_rounds_that_only_one_has_do_not_count() -> None:
    ours, theirs = lines_of([OURS, replace(THEIRS, round=1)])
    assert advantage(ours, theirs) is None
    assert ratio_text(None) == "-"


def test_only_equal_durability_is_compared() -> None:
    synced = replace(OURS, durability="fsync", setting="flush.mode=fsync", value=20.0)
    lines = lines_of([synced, OURS, THEIRS])
    match = our_match(lines[2], lines, "send")
    assert match is lines[1]
    assert our_match(lines[2], lines[:1], "send") is None
    assert our_match(lines[2], lines, "send_many") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567, "1,230,000"), (1234, "1,230"), (999.6, "1000"), (123.4, "123"), (12.34, "12.3"), (0.123, "0.12")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_table_has_a_row_for_each_contender_with_its_ratio() -> None:
    made = markdown(results(OURS, THEIRS, replace(OURS, round=1, value=300.0), replace(THEIRS, round=1)))
    assert "| **lograft send** | page cache: flush.mode=os | 250 | 200 to 300 | 0.26 |  |" in made
    assert "| Kafka produce | page cache: default | 100 | 100 to 100 | 0.10 | 2.50x (2.00 to 3.00) |" in made


def test_table_publishes_where_we_lose_and_what_is_missing() -> None:
    slow = results(replace(OURS, value=50.0), THEIRS)
    slow.skipped["nats"] = "no nats-server found"
    slow.failures.append("Kafka, failover: it broke")
    made = markdown(slow)
    assert "0.50x (0.50 to 0.50)" in made
    assert "- Skipped: nats: no nats-server found" in made
    assert "- Failed: Kafka, failover: it broke" in made


def test_results_come_back_from_their_file_as_they_were() -> None:
    written = results(OURS, THEIRS)
    written.others_cores.append(0.5)
    assert from_json(to_json(written)) == written


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "lograft-compare-1"}', '{"format": "other"}'])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(UnknownResults):
        from_json(text)


def test_page_keeps_all_but_what_was_measured() -> None:
    assert put_into(f"a\n{BEGIN}\nold\n{END}\nz\n", "new\n") == f"a\n{BEGIN}\nnew\n{END}\nz\n"
    with pytest.raises(ValueError, match="has no"):
        put_into("a page without marks", "new")


def test_pause_is_the_longest_gap_that_ends_after_the_kill() -> None:
    acknowledged = [0.0, 3.0, 3.1, 4.6, 4.7]
    assert longest_pause(acknowledged, killed_at=3.05) == pytest.approx(1.5)


def test_failover_is_not_over_before_there_was_a_calm_second() -> None:
    before = [time / 100 for time in range(100)]
    after = [3 + time / 100 for time in range(101)]
    assert not is_over(before, killed_at=1.0, now=1.5), "acknowledged before the kill says nothing"
    assert not is_over(before, killed_at=1.0, now=2.5), "nothing since"
    assert not is_over(before + after[:50], killed_at=1.0, now=3.5)
    assert is_over(before + after, killed_at=1.0, now=4.0)


def test_limit_ends_with_as_many_records_as_it_allows() -> None:
    pieces = list(Limit(seconds=60, records=7).begun().pieces([b"a", b"b", b"c", b"d"], 3))
    assert pieces == [[b"a", b"b", b"c"], [b"d"], [b"a", b"b", b"c"]]
    assert list(Limit(seconds=0, records=7).begun().pieces([b"a"], 1)) == []


def test_versions_are_found_in_what_programs_say() -> None:
    assert short_version("nats-server: v2.9.10\n") == "2.9.10"
    assert short_version("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0") == "7.0.15"
    assert short_version("nothing ") == "nothing"


def test_artifacts_say_if_they_come_alone() -> None:
    assert "<exclusion>" in Artifact("g", "a", "1", is_alone=True).as_dependency()
    assert "<exclusion>" not in Artifact("g", "a", "1").as_dependency()
