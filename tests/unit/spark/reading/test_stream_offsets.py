"""How far a streaming query has come, and how much it takes at a time."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.clients.errors import InvalidArgument, UnknownTopicId
from lograft.clients.types import TopicPartition
from lograft.spark.reading.stream_offsets import StreamOffset, limited, read_offset

ORDERS, BILLS = UUID(int=1), UUID(int=2)
partitions = st.builds(TopicPartition, st.sampled_from(["orders", "bills"]), st.integers(0, 5))
offsets = st.dictionaries(partitions, st.integers(0, 2**62))


def offset_of(numbers: dict[TopicPartition, int]) -> StreamOffset:
    ids = {"orders": ORDERS, "bills": BILLS}
    return StreamOffset("abc", {topic: ids[topic] for topic, _ in numbers}, numbers)


def test_it_is_readable_as_json() -> None:
    offset = offset_of({TopicPartition("orders", 1): 5, TopicPartition("orders", 0): 23})
    assert offset.to_json() == {
        "source": "abc",
        "topics": {"orders": {"id": ORDERS.hex, "offsets": {"0": 23, "1": 5}}},
    }


@given(offsets)
def test_it_comes_back_from_a_checkpoint_as_it_was(numbers: dict[TopicPartition, int]) -> None:
    assert read_offset(json.loads(json.dumps(offset_of(numbers).to_json()))) == offset_of(numbers)


@pytest.mark.parametrize(
    "content",
    [
        None, 5, "earliest", [], {}, {"orders": {"0": 23}}, {"source": "a", "topics": {"orders": {"0": 23}}},
        {"source": "a", "topics": {"orders": {"id": "no", "offsets": {}}}},
        {"source": "a", "topics": {"orders": {"id": ORDERS.hex, "offsets": {"0": "x"}}}},
        {"source": "a", "topics": {"orders": {"id": ORDERS.hex, "offsets": {"x": 1}}}},
        {"source": "a", "topics": {"orders": {"id": ORDERS.hex, "offsets": {"0": -1}}}},
    ],
)  # fmt: skip
def test_what_is_no_such_offset_is_refused(content: object) -> None:
    with pytest.raises(InvalidArgument, match="is it another query's checkpoint"):
        read_offset(content)


def test_a_partition_that_is_new_is_read_from_its_beginning() -> None:
    offset = offset_of({TopicPartition("orders", 0): 23})
    assert offset.first_of(TopicPartition("orders", 0)) == 23
    assert offset.first_of(TopicPartition("orders", 1)) == 0


def test_a_topic_that_was_recreated_is_another() -> None:
    offset = offset_of({TopicPartition("orders", 0): 23})
    offset.check_same_topics({"orders": ORDERS, "bills": BILLS})
    offset.check_same_topics({})
    with pytest.raises(UnknownTopicId, match="start the query with a new checkpoint"):
        offset.check_same_topics({"orders": BILLS})


@given(offsets, st.dictionaries(partitions, st.integers(0, 1000)), st.integers(1, 3000))
def test_a_trigger_takes_as_much_as_it_may_and_no_more(
    start: dict[TopicPartition, int], more: dict[TopicPartition, int], most: int
) -> None:
    latest = {partition: start.get(partition, 0) + count for partition, count in more.items()}
    end = limited(start, latest, most)
    taken = {partition: end[partition] - start.get(partition, 0) for partition in latest}
    assert list(end) == list(latest)
    assert all(0 <= taken[partition] <= more[partition] for partition in latest)
    assert sum(taken.values()) == min(most, sum(more.values()))
    # Each partition has its share, but for what cannot be divided.
    total = max(sum(more.values()), most)
    assert all(abs(taken[partition] - more[partition] * most / total) < 1 for partition in latest)


@given(offsets, offsets)
def test_without_a_limit_a_trigger_takes_all(
    start: dict[TopicPartition, int], latest: dict[TopicPartition, int]
) -> None:
    assert limited(start, latest, None) == latest


def test_a_partition_that_lost_records_goes_back_to_its_end_under_a_limit_too() -> None:
    cut, full = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert limited({cut: 100, full: 0}, {cut: 70, full: 500}, 10) == {cut: 70, full: 10}
