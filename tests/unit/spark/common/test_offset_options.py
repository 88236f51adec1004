"""Edges, offsets and times as a user writes them. What is refused stands in `test_options`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.clients.errors import InvalidArgument
from lograft.clients.types import MAX_INTEGER, TopicPartition
from lograft.spark.common.offset_options import (
    EARLIEST,
    LATEST,
    Edge,
    EdgeOfAll,
    OffsetsByPartition,
    TimeOfAll,
    TimesByPartition,
    check_names_all,
    parse_offsets,
    parse_timestamp,
    parse_timestamps,
)

TOPICS = st.text("abc", min_size=1, max_size=3)


def by_partition(smallest: int) -> st.SearchStrategy[dict[str, dict[int, int]]]:
    numbers = st.integers(smallest, MAX_INTEGER)
    return st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 2**31 - 1), numbers, max_size=4), max_size=3)


@given(by_partition(-2))
def test_offsets_by_partition_are_read_as_they_are_written(wanted: dict[str, dict[int, int]]) -> None:
    edges = {edge.value: edge for edge in Edge}
    assert parse_offsets("startingOffsets", json.dumps(wanted), None) == OffsetsByPartition(
        {
            TopicPartition(topic, partition): edges.get(offset, offset)
            for topic, offsets in wanted.items()
            for partition, offset in offsets.items()
        }
    )


@given(by_partition(0))
def test_times_by_partition_are_read_as_they_are_written(wanted: dict[str, dict[int, int]]) -> None:
    assert parse_timestamps("startingOffsetsByTimestamp", json.dumps(wanted)) == TimesByPartition(
        {TopicPartition(topic, number): at for topic, times in wanted.items() for number, at in times.items()}
    )


@pytest.mark.parametrize(
    ("text", "epoch_ms"),
    [
        ("1767225600000", 1767225600000),
        ("0", 0),
        ("2026-01-01", 1767225600000),
        ("2026-01-01T00:00Z", 1767225600000),
        ("2026-01-01T01:00:00.005+01:00", 1767225600005),
    ],
)
def test_a_time_is_milliseconds_or_iso_8601(text: str, epoch_ms: int) -> None:
    assert parse_timestamp("startingTimestamp", text) == TimeOfAll(epoch_ms)
    by_partition = json.dumps({"orders": {"0": int(text) if text.isdigit() else text}})
    assert parse_timestamps("startingOffsetsByTimestamp", by_partition) == TimesByPartition(
        {TopicPartition("orders", 0): epoch_ms}
    )


@pytest.mark.parametrize("text", ["-1", "yesterday", "2026-13-01", "9" * 20, "latest"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"give milliseconds since 1970, or a time such as 2026-01-01T00:00Z"):
        parse_timestamp("startingTimestamp", text)
    with pytest.raises(InvalidArgument, match=r"2026-01-01T00:00Z"):
        parse_timestamps("startingOffsetsByTimestamp", json.dumps({"orders": {"0": text}}))


@pytest.mark.parametrize(("text", "edge"), [("earliest", EARLIEST), ("latest", LATEST), ("Latest", LATEST)])
def test_a_streaming_query_may_start_at_either_edge(text: str, edge: Edge) -> None:
    assert parse_offsets("startingOffsets", text, None) == EdgeOfAll(edge)


def names(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("orders", number) for number in numbers]


def test_offsets_are_given_for_all_partitions_that_are_read_and_no_others() -> None:
    check_names_all("startingOffsets", names(1, 0), names(0, 1))
    check_names_all("startingOffsets", [], [])
    with pytest.raises(InvalidArgument, match="option startingOffsets says nothing of orders-1, orders-2: give all"):
        check_names_all("startingOffsets", names(0), names(0, 1, 2))
    with pytest.raises(InvalidArgument, match="option endingOffsets has orders-9, which is not read: leave it out"):
        check_names_all("endingOffsets", names(0, 9), names(0))


def test_of_many_that_are_missing_some_are_named() -> None:
    with pytest.raises(InvalidArgument, match="orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"):
        check_names_all("startingOffsets", [], names(*range(7)))
