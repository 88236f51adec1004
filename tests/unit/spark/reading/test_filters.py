"""Filters narrow what is read, and never lose a row."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from lograft.clients.admin.sync_admin import Admin
from lograft.clients.types import TopicPartition
from lograft.spark.common.range_reader import OffsetRange
from lograft.spark.reading.filters import Predicates, narrow

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Times = dict[TopicPartition, list[int]]
Row = dict[str, Any]


class FakeAdmin:
    """Knows the times of all records."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self.asked: list[tuple[list[TopicPartition], int]] = []

    def list_offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int | None]:
        partitions = list(partitions)
        self.asked.append((partitions, at))
        return {each: self._first(self.times[each], at) for each in partitions}

    def _first(self, times: list[int], at: int) -> int | None:
        return next((offset for offset, epoch_ms in enumerate(times) if epoch_ms >= at), None)


def narrowed(times: Times, filters: Iterable[Filter], ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    predicates = Predicates()
    for each in filters:
        predicates.heed(each)
    return narrow(cast(Admin, FakeAdmin(times)), predicates, ranges)


def whole(times: Times) -> list[OffsetRange]:
    return [OffsetRange(topic, b"id", number, 0, len(times[topic, number])) for topic, number in times]  # type: ignore[index]


def rows(times: Times, ranges: Iterable[OffsetRange]) -> list[Row]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": offset,
            "timestamp": moment(times[each.name][offset]),
            "key": None,
        }
        for each in ranges
        for offset in range(each.start, each.end)
    ]


def moment(epoch_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=epoch_ms)


def passes(row: Row, predicate: Filter) -> bool:
    """As SQL has it: what compares with null does not pass."""
    match predicate:
        case Not(child=child):
            return knows(row, child) and not passes(row, child)
        case IsNull(attribute=(name,)):
            return row.get(name) is None
        case IsNotNull(attribute=(name,)):
            return row.get(name) is not None
        case EqualNullSafe(attribute=(name,), value=value):
            return bool(row.get(name) == value)
    return knows(row, predicate) and compares(row, predicate)


def knows(row: Row, predicate: Filter) -> bool:
    """Whether no null is compared."""
    value = getattr(predicate, "value", 0)
    return value is not None and (len(predicate.attribute) > 1 or row.get(predicate.attribute[0]) is not None)  # type: ignore[attr-defined]


def compares(row: Row, predicate: Filter) -> bool:
    match predicate:
        case EqualTo(attribute=(name,), value=value):
            return bool(row[name] == value)
        case In(attribute=(name,), value=values):
            return row[name] in [value for value in values if value is not None]
        case GreaterThan(attribute=(name,), value=value):
            return bool(row[name] > value)
        case GreaterThanOrEqual(attribute=(name,), value=value):
            return bool(row[name] >= value)
        case LessThan(attribute=(name,), value=value):
            return bool(row[name] < value)
        case LessThanOrEqual(attribute=(name,), value=value):
            return bool(row[name] <= value)
        case StringStartsWith(attribute=(name,), value=value):
            return str(row[name]).startswith(value)
        case StringContains(attribute=(name,), value=value):
            return value in str(row[name])
    return True  # of a field within a column: nothing is known


# -- random filters

epochs_ms = st.integers(-3, 30)
moments = st.builds(
    lambda epoch_ms, more_us, zone: (moment(epoch_ms) + timedelta(microseconds=more_us)).astimezone(zone),
    epochs_ms, st.sampled_from([0, 1, 500, 999]), st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["a", "b", "c"]),
    "partition": st.integers(-1, 3),
    "offset": st.integers(-2, 14) | st.sampled_from([-(2**63), 2**63 - 1]),
    "timestamp": moments,
}
COMPARING = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(list(VALUES)))
    values = st.none() | VALUES[name]
    kind = draw(st.sampled_from(["compare", "in", "not", "null", "text", "inner"]))
    compared = cast(Filter, draw(st.sampled_from(COMPARING))((name,), draw(values)))  # type: ignore[redundant-cast]
    match kind:
        case "in":
            return In((name,), tuple(draw(st.lists(values, min_size=1, max_size=4))))
        case "not":
            return Not(compared)
        case "null":
            return draw(st.sampled_from([IsNull, IsNotNull]))((draw(st.sampled_from([name, "key"])),))
        case "text":
            return draw(st.sampled_from([StringStartsWith, StringContains]))(("topic",), draw(VALUES["topic"]))
        case "inner":
            return GreaterThan((name, "inner"), draw(VALUES[name]))
    return compared


logs: st.SearchStrategy[Times] = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 2)),
    st.lists(epochs_ms, max_size=12),
    max_size=4,
)


@given(logs, st.lists(filters(), max_size=4), st.data())
@example({TopicPartition("a", 0): [-1, 5]}, [GreaterThanOrEqual(("timestamp",), moment(-2))], None)
@example({TopicPartition("a", 0): [9, 1, 8, 2]}, [GreaterThan(("timestamp",), moment(7))], None)
def test_no_row_that_passes_is_lost(times: Times, wanted: list[Filter], data: st.DataObject | None) -> None:
    ranges = whole(times)
    if data is not None:  # parts of the logs
        edges = [sorted((data.draw(st.integers(0, each.end)), data.draw(st.integers(0, each.end)))) for each in ranges]
        ranges = [
            OffsetRange(each.topic, b"id", each.partition, *edge) for each, edge in zip(ranges, edges, strict=True)
        ]
    found = narrowed(times, wanted, ranges)

    def passing(read: Iterable[OffsetRange]) -> list[Row]:
        return [row for row in rows(times, read) if all(passes(row, each) for each in wanted)]

    assert passing(found) == passing(ranges)
    given_ranges = {each.name: each for each in ranges}
    for each in found:
        assert given_ranges[each.name].start <= each.start < each.end <= given_ranges[each.name].end


# -- that anything is narrowed at all

ORDERS = {TopicPartition("orders", 0): [1000 * n for n in range(10)], TopicPartition("orders", 1): [500] * 10}
BILLS = {TopicPartition("bills", 0): [9000] * 10}


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ([], "bills-0 [0, 10), orders-0 [0, 10), orders-1 [0, 10)"),
        ([EqualTo(("topic",), "bills")], "bills-0 [0, 10)"),
        ([EqualNullSafe(("topic",), "bills")], "bills-0 [0, 10)"),
        ([In(("topic",), ("bills", "more"))], "bills-0 [0, 10)"),
        ([EqualTo(("partition",), 1)], "orders-1 [0, 10)"),
        ([In(("partition",), (1, None))], "orders-1 [0, 10)"),
        ([GreaterThan(("partition",), 0)], "orders-1 [0, 10)"),
        ([LessThan(("partition",), 1), EqualTo(("topic",), "orders")], "orders-0 [0, 10)"),
        ([EqualTo(("partition",), 1), EqualTo(("offset",), 4)], "orders-1 [4, 5)"),
        ([EqualTo(("partition",), 1), In(("offset",), (4, 7))], "orders-1 [4, 8)"),
        (
            [EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 3), LessThan(("offset",), 6)],
            "orders-1 [3, 6)",
        ),
        ([EqualTo(("partition",), 1), GreaterThan(("offset",), 3), LessThanOrEqual(("offset",), 6)], "orders-1 [4, 7)"),
        ([GreaterThan(("offset",), 9)], ""),
        ([LessThan(("offset",), 0)], ""),
        ([GreaterThan(("offset",), 5), LessThan(("offset",), 4)], ""),
        ([GreaterThanOrEqual(("timestamp",), moment(7000))], "bills-0 [0, 10), orders-0 [7, 10)"),
        ([GreaterThan(("timestamp",), moment(7000))], "bills-0 [0, 10), orders-0 [8, 10)"),
        ([EqualTo(("timestamp",), moment(7000)), EqualTo(("topic",), "orders")], "orders-0 [7, 10)"),
        ([LessThan(("timestamp",), moment(600))], "bills-0 [0, 10), orders-0 [0, 10), orders-1 [0, 10)"),
        ([GreaterThan(("timestamp",), moment(9000))], ""),
    ],
)
def test_less_is_read(wanted: list[Filter], left: str) -> None:
    found = narrowed(BILLS | ORDERS, wanted, whole(BILLS | ORDERS))
    assert ", ".join(map(str, found)) == left


def test_nobody_is_asked_for_times_unless_it_is_about_them() -> None:
    admin = FakeAdmin(ORDERS)
    predicates = Predicates()
    predicates.heed(GreaterThan(("offset",), 3))
    narrow(cast(Admin, admin), predicates, whole(ORDERS))
    assert admin.asked == []
    predicates.heed(EqualTo(("partition",), 0))
    predicates.heed(GreaterThan(("timestamp",), moment(5000)))
    narrow(cast(Admin, admin), predicates, whole(ORDERS))
    assert admin.asked == [([TopicPartition("orders", 0)], 5001)]


def test_a_time_without_a_zone_is_meant_in_that_of_the_machine() -> None:
    local = datetime(2026, 3, 1, 12, 0)
    predicates, aware = Predicates(), Predicates()
    predicates.heed(GreaterThanOrEqual(("timestamp",), local))
    aware.heed(GreaterThanOrEqual(("timestamp",), local.astimezone(ZoneInfo("Asia/Kolkata"))))
    assert predicates.time_from == aware.time_from
