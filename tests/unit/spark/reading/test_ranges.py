"""Ranges are cut into parts that are all of them, and nothing else."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lograft.spark.common.options import MAX_PARTS, SplitOptions
from lograft.spark.common.range_reader import OffsetRange
from lograft.spark.reading.ranges import LogSize, cut, split_ranges

counts = st.integers(0, 40) | st.integers(0, 10**12)
few = st.none() | st.integers(1, 60)


@st.composite
def ranges(draw: st.DrawFn) -> list[OffsetRange]:
    starts = draw(st.lists(st.tuples(st.integers(0, 2**40), counts), max_size=6))
    return [OffsetRange("orders", b"id", number, start, start + n) for number, (start, n) in enumerate(starts)]


@st.composite
def splits(draw: st.DrawFn, asked: list[OffsetRange]) -> SplitOptions:
    """Not into more parts than one can wait for."""
    largest = max((each.count for each in asked), default=0)
    max_records = draw(st.none() | st.integers(max(1, largest // 50), max(2, 2 * largest)))
    return SplitOptions(draw(few), max_records, draw(st.none() | st.integers(10**4, 10**8)))


@given(st.data())
def test_parts_are_the_ranges_in_order_without_gap_or_overlap(data: st.DataObject) -> None:
    asked = data.draw(ranges())
    options = data.draw(splits(asked))
    sizes = {each.name: LogSize(max(each.count, 1) * 2, data.draw(st.integers(0, 10**7))) for each in asked}
    parts = split_ranges(asked, options, sizes)
    for each in asked:
        of_it = [part for part in parts if part.partition == each.partition]
        if each.count == 0:
            assert of_it == []
            continue
        assert all(part.count > 0 for part in of_it)
        assert (of_it[0].start, of_it[-1].end) == (each.start, each.end)
        assert all(one.end == next_one.start for one, next_one in pairwise(of_it))
        largest = max(part.count for part in of_it)
        assert largest - min(part.count for part in of_it) <= 1, "as equal as can be"
        if options.max_records is not None:
            assert largest <= options.max_records
        if options.max_bytes is not None:
            assert largest == 1 or sizes[each.name].bytes_of(largest - 1) <= options.max_bytes
    assert [part.partition for part in parts] == sorted(part.partition for part in parts)
    if options.min_partitions is not None:
        assert len(parts) >= min(options.min_partitions, sum(each.count for each in asked))


@given(ranges(), st.integers(1, 60))
def test_not_many_more_parts_are_made_than_asked_for(asked: list[OffsetRange], at_least: int) -> None:
    filled = sum(each.count > 0 for each in asked)
    parts = split_ranges(asked, SplitOptions(min_partitions=at_least), {})
    assert len(parts) <= max(filled, at_least + filled - 1)


def test_without_options_a_range_is_one_part() -> None:
    asked = [OffsetRange("orders", b"id", number, 5, 5 + count) for number, count in enumerate([10, 0, 10**9])]
    assert split_ranges(asked, SplitOptions(), {}) == [asked[0], asked[2]]


def test_the_largest_are_cut_first() -> None:
    asked = [OffsetRange("orders", b"id", number, 0, count) for number, count in enumerate([100, 10, 1])]
    parts = split_ranges(asked, SplitOptions(min_partitions=5), {})
    assert [(part.partition, part.count) for part in parts] == [(0, 25)] * 4 + [(1, 10), (2, 1)]


@pytest.mark.parametrize(
    ("options", "size", "parts"),
    [
        (SplitOptions(max_records=100), None, 10),
        (SplitOptions(max_records=99), None, 11),
        (SplitOptions(max_records=10**6), None, 1),
        (SplitOptions(max_bytes=1000), None, 1),  # nothing is known of its size
        (SplitOptions(max_bytes=1000), LogSize(2000, 10_000), 5),  # half of the log is asked for
        (SplitOptions(max_bytes=999), LogSize(2000, 10_000), 6),
        (SplitOptions(max_bytes=1), LogSize(2000, 10**9), 1000),
        (SplitOptions(max_bytes=1), LogSize(0, 0), 1),
        (SplitOptions(max_records=500, max_bytes=1000), LogSize(2000, 10_000), 5),
        (SplitOptions(min_partitions=7, max_records=500), None, 7),
        (SplitOptions(min_partitions=2, max_records=100), None, 10),
    ],
)
def test_limits_are_heeded_together(options: SplitOptions, size: LogSize | None, parts: int) -> None:
    asked = OffsetRange("orders", b"id", 0, 0, 1000)
    assert len(split_ranges([asked], options, {} if size is None else {asked.name: size})) == parts


def test_there_is_an_end_to_cutting() -> None:
    asked = OffsetRange("orders", b"id", 0, 0, 10**15)
    assert len(split_ranges([asked], SplitOptions(max_records=1), {})) == MAX_PARTS


@given(st.integers(0, 2**62), st.integers(1, 2**40), st.integers(1, 300))
@example(0, 3, 2)
def test_a_cut_keeps_what_a_range_is_of(start: int, count: int, parts: int) -> None:
    asked = OffsetRange("orders", b"id", 3, start, start + count)
    assert {(part.topic, part.topic_id, part.partition) for part in cut(asked, min(parts, count))} == {
        ("orders", b"id", 3)
    }
