"""The options for where reading starts and ends: an edge of the log, offsets, or times. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from lograft.clients.errors import InvalidArgument
from lograft.clients.times import BadTime, parse_iso_time
from lograft.clients.types import MAX_INTEGER, TopicPartition
from lograft.spark.common.topic_options import is_partition, parse_json, whole_number


class Edge(Enum):
    """An edge of a log. The values represent it in offset options."""

    EARLIEST = -2
    LATEST = -1


EARLIEST, LATEST = Edge.EARLIEST, Edge.LATEST
_EDGES = {"earliest": EARLIEST, "latest": LATEST}
_TIMES = "milliseconds since 1970, or a time such as 2026-01-01T00:00Z"


@dataclass(frozen=True, slots=True)
class EdgeOfAll:
    """The same edge of every partition."""

    edge: Edge


@dataclass(frozen=True, slots=True)
class OffsetsByPartition:
    """An offset or an edge for each partition."""

    offsets: Mapping[TopicPartition, int | Edge]


@dataclass(frozen=True, slots=True)
class TimeOfAll:
    """The first record at or after one time, in every partition."""

    epoch_ms: int


@dataclass(frozen=True, slots=True)
class TimesByPartition:
    """The first record at or after a time given for each partition."""

    epoch_ms: Mapping[TopicPartition, int]


Wanted: TypeAlias = EdgeOfAll | OffsetsByPartition | TimeOfAll | TimesByPartition


def parse_offsets(name: str, text: str, forbidden: Edge | None) -> EdgeOfAll | OffsetsByPartition:
    """Parse an offset option. `forbidden`: the edge that makes no sense here, since a batch cannot start at the latest
    offset or end at the earliest."""
    if text.lower() in _EDGES:
        edge = _EDGES[text.lower()]
        if edge is forbidden:
            raise InvalidArgument(f"option {name} is {text!r}, with which a batch is always empty")
        return EdgeOfAll(edge)
    accepted = " or ".join(f'"{word}"' for word, edge in _EDGES.items() if edge is not forbidden)
    example = '{"orders": {"0": 23, "1": -2}}'
    by_partition = _by_partition(name, text, f"{accepted}, or {example} (-2: earliest, -1: latest)")
    offsets: dict[TopicPartition, int | Edge] = {}
    for partition, number in by_partition.items():
        if number < Edge.EARLIEST.value:
            raise InvalidArgument(f"option {name} has {number} for {partition}: give an offset, -2 or -1")
        offset = number if number >= 0 else Edge(number)
        if offset is forbidden:
            raise InvalidArgument(
                f"option {name} has {number} for {partition}, with which a batch has nothing of it: give an offset"
            )
        offsets[partition] = offset
    return OffsetsByPartition(offsets)


def parse_timestamp(name: str, text: str) -> TimeOfAll:
    epoch_ms = whole_number(text)
    if epoch_ms is None:
        epoch_ms = _iso_ms(text)
    if epoch_ms is None or epoch_ms > MAX_INTEGER:
        raise InvalidArgument(f"option {name} is {text!r}: give {_TIMES}")
    return TimeOfAll(epoch_ms)


def _iso_ms(text: str) -> int | None:
    """Convert an ISO 8601 time to milliseconds since 1970. Return None for anything else."""
    try:
        return parse_iso_time(text).epoch_ms
    except BadTime:
        return None


def parse_timestamps(name: str, text: str) -> TimesByPartition:
    example = '{"orders": {"0": 1767225600000}} or {"orders": {"0": "2026-01-01T00:00Z"}}'
    times = _by_partition(name, text, example, _iso_ms)
    for partition, epoch_ms in times.items():
        if epoch_ms < 0:
            raise InvalidArgument(f"option {name} has {epoch_ms} for {partition}: give {_TIMES}")
    return TimesByPartition(times)


def _by_partition(
    name: str, text: str, example: str, parse_text: Callable[[str], int | None] = lambda _: None
) -> dict[TopicPartition, int]:
    """Parse JSON of values by topic and partition. `parse_text` parses values that are strings."""
    found: dict[TopicPartition, int] = {}
    for topic, numbers in parse_json(name, text, example).items():
        if not isinstance(numbers, dict):
            raise InvalidArgument(f"option {name} has {numbers!r} for topic {topic!r}: give {example}")
        for partition, value in numbers.items():
            if not is_partition(whole_number(partition)):
                raise InvalidArgument(f"option {name} has {partition!r} for a partition of {topic!r}: give {example}")
            number = parse_text(value) if isinstance(value, str) else value
            if not isinstance(number, int) or isinstance(number, bool) or abs(number) > MAX_INTEGER:
                raise InvalidArgument(f"option {name} has {value!r} for {topic}-{partition}: give {example}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def check_names_all(name: str, given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    """Raise `InvalidArgument` unless `given` are exactly the partitions to read: a missing one would have to be
    guessed."""
    given, partitions = dict.fromkeys(given), dict.fromkeys(partitions)
    missing = [str(each) for each in partitions if each not in given]
    if missing:
        raise InvalidArgument(f"option {name} says nothing of {_listed(missing)}: give all partitions that are read")
    others = [str(each) for each in given if each not in partitions]
    if others:
        raise InvalidArgument(f"option {name} has {_listed(others)}, which is not read: leave it out")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
