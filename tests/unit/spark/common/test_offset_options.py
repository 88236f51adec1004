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
    TimesByPartition,
    check_names_all,
    parse_offsets,
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
