"""Which partitions of which topics a user means."""

import pytest

from lograft.clients.errors import UnknownPartition, UnknownTopic
from lograft.clients.types import TopicPartition
from lograft.spark.common.topic_options import (
    Assign,
    Subscribe,
    SubscribePattern,
    TopicChoice,
    chosen_partitions,
    names_to_describe,
    parse_assign,
)

KNOWN = ["bills", "orders", "orders-eu", "re-orders"]


def partitions(**numbers: list[int]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, each in numbers.items() for number in each)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Subscribe(("orders", "gone")), ["orders", "gone"]),
        (SubscribePattern("orders"), ["orders"]),
        (SubscribePattern("orders.*"), ["orders", "orders-eu"]),
        (SubscribePattern(".*orders.*|bills"), ["bills", "orders", "orders-eu", "re-orders"]),
        (SubscribePattern("order"), []),
        (Assign(partitions(orders=[0, 2], bills=[1])), ["orders", "bills"]),
    ],
)
def test_topics_are_named_or_match_as_a_whole(choice: TopicChoice, names: list[str]) -> None:
    assert names_to_describe(choice, KNOWN) == names


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (Subscribe(("orders", "bills")), partitions(bills=[0], orders=[0, 1, 2])),
        (SubscribePattern(".*"), partitions(bills=[0], orders=[0, 1, 2])),
        (Assign(partitions(bills=[0], orders=[2])), partitions(bills=[0], orders=[2])),
    ],
)
def test_partitions_come_in_order(choice: TopicChoice, chosen: tuple[TopicPartition, ...]) -> None:
    assert tuple(chosen_partitions(choice, {"orders": 3, "bills": 1})) == chosen


def test_a_pattern_that_nothing_matches_means_nothing() -> None:
    assert chosen_partitions(SubscribePattern("x"), {}) == []


def test_what_is_named_must_be_there() -> None:
    with pytest.raises(UnknownTopic, match="'gone': create it first"):
        chosen_partitions(Subscribe(("orders", "gone")), {"orders": 3})
    with pytest.raises(UnknownTopic, match="'gone': create it first"):
        chosen_partitions(Assign(partitions(gone=[0])), {"orders": 3})
    with pytest.raises(UnknownPartition, match="'orders' has no partition 3: it has 0 to 2"):
        chosen_partitions(Assign(partitions(orders=[0, 3])), {"orders": 3})


def test_assigned_partitions_are_sorted_and_each_is_there_once() -> None:
    assert parse_assign("assign", '{"orders": [2, 0, 2], "bills": [1]}') == Assign(partitions(bills=[1], orders=[0, 2]))
