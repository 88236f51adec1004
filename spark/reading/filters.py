"""Narrows ranges by a query's filters, to read less, but never excludes a row that would pass."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from lograft.clients.admin.sync_admin import Admin
from lograft.clients.types import TopicPartition
from lograft.spark.common.range_reader import OffsetRange

Test = Callable[[int], bool]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Predicates:
    """Conditions that every row that passes fulfills: all `topics` and `partitions` tests; an offset in
    [offset_from, offset_to); a timestamp of at least `time_from` in milliseconds.

    An upper bound of the timestamp would be useless: records after one that is too late may have earlier times."""

    topics: list[frozenset[str]] = field(default_factory=list)
    partitions: list[Test] = field(default_factory=list)
    offset_from: int | None = None
    offset_to: int | None = None
    time_from: int | None = None

    def heed(self, predicate: Filter) -> bool:
        """Apply a predicate. Return False if it is of a kind that cannot narrow ranges."""
        attribute: tuple[str, ...] = getattr(predicate, "attribute", ())
        values = _values(predicate)
        if len(attribute) != 1 or not values:
            return False
        match attribute[0]:
            case "topic" if isinstance(predicate, EqualTo | EqualNullSafe | In):
                self.topics.append(frozenset(each for each in values if isinstance(each, str)))
            case "partition" if all(isinstance(each, int) for each in values):
                self.partitions.append(_test(predicate, values))
            case "offset" if all(isinstance(each, int) for each in values):
                self._bound_offset(_bounds(predicate, values))
            case "timestamp" if all(isinstance(each, datetime) for each in values):
                self._bound_time(_bounds(predicate, [_epoch_us(each) for each in values]))
            case _:
                return False
        return True

    def _bound_offset(self, bounds: tuple[int | None, int | None]) -> None:
        self.offset_from = _larger(self.offset_from, bounds[0])
        self.offset_to = _smaller(self.offset_to, bounds[1])

    def _bound_time(self, bounds_us: tuple[int | None, int | None]) -> None:
        """Apply a lower bound, rounded up, since timestamps are in whole milliseconds."""
        lowest_us = bounds_us[0]
        self.time_from = _larger(self.time_from, None if lowest_us is None else -(-lowest_us // 1000))

    def may_have(self, partition: TopicPartition) -> bool:
        return all(partition.topic in topics for topics in self.topics) and all(
            test(partition.partition) for test in self.partitions
        )


_SIGNS = {
    EqualTo: "=", EqualNullSafe: "=", In: "in", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<",
    LessThanOrEqual: "<=",
}  # fmt: skip


def told(predicate: Filter) -> str:
    """Return an applied predicate as text, for messages."""
    values = _values(predicate)
    sign = _SIGNS[type(predicate)]
    shown = ", ".join(sorted(map(str, values)))
    return f"{predicate.attribute[0]} {sign} {f'({shown})' if sign == 'in' else shown}"  # type: ignore[attr-defined]


def _values(predicate: Filter) -> list[Any]:
    match predicate:
        case In(value=values):
            return [value for value in values if value is not None]
        case EqualTo() | EqualNullSafe() | GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            return [] if predicate.value is None else [predicate.value]
    return []


def _test(predicate: Filter, values: list[Any]) -> Test:
    """Return a function that tests a value."""
    match predicate:
        case EqualTo() | EqualNullSafe() | In():
            return lambda value: value in values
        case GreaterThan():
            return lambda value: value > values[0]
        case GreaterThanOrEqual():
            return lambda value: value >= values[0]
        case LessThan():
            return lambda value: value < values[0]
        case LessThanOrEqual():
            return lambda value: value <= values[0]
    return lambda _: True


def _bounds(predicate: Filter, values: list[int]) -> tuple[int | None, int | None]:
    """Return the integers that pass as [lowest, end); None means unbounded."""
    match predicate:
        case EqualTo() | EqualNullSafe() | In():
            return min(values), max(values) + 1
        case GreaterThan():
            return values[0] + 1, None
        case GreaterThanOrEqual():
            return values[0], None
        case LessThan():
            return None, values[0]
        case LessThanOrEqual():
            return None, values[0] + 1
    return None, None


def _epoch_us(moment: datetime) -> int:
    """Convert to microseconds since 1970. Spark passes times without a time zone, in that of the machine."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _larger(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _smaller(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


# -- ranges


def narrow(admin: Admin, predicates: Predicates, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the ranges that may have rows that pass, narrowed."""
    left = [_within(each, predicates.offset_from, predicates.offset_to) for each in ranges]
    left = [each for each in left if each.count and predicates.may_have(each.name)]
    if predicates.time_from is not None and predicates.time_from > 0 and left:
        # All records before the first one at or after a time are earlier, even if timestamps are out of order.
        starts = admin.list_offsets([each.name for each in left], predicates.time_from)
        left = [_from_time(each, starts[each.name]) for each in left]
    return [each for each in left if each.count]


def _within(wanted: OffsetRange, start: int | None, end: int | None) -> OffsetRange:
    start = wanted.start if start is None else max(wanted.start, start)
    end = wanted.end if end is None else min(wanted.end, end)
    return replace(wanted, start=min(start, wanted.end), end=max(end, min(start, wanted.end)))


def _from_time(wanted: OffsetRange, start: int | None) -> OffsetRange:
    """Return the range from offset `start` on; an empty one if `start` is None, as no record is that late."""
    return _within(wanted, wanted.end if start is None else start, None)
