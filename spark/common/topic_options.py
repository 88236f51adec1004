"""The options for what to read: named topics, topics that match a pattern, or certain partitions. Pure."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lograft.clients.errors import InvalidArgument, UnknownPartition, UnknownTopic
from lograft.clients.types import TopicPartition

_MOST_DIGITS = 30


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of all topics whose full names match, if any."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions."""

    partitions: tuple[TopicPartition, ...]


TopicChoice: TypeAlias = Subscribe | SubscribePattern | Assign


def parse_topics(name: str, text: str) -> Subscribe:
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    if not topics:
        raise InvalidArgument(f"option {name} names no topic: give one, or several with commas between")
    return Subscribe(topics)


def parse_pattern(name: str, text: str) -> SubscribePattern:
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"option {name} is {text!r}, which is no regular expression: {error}") from None
    return SubscribePattern(text)


def parse_assign(name: str, text: str) -> Assign:
    example = '{"orders": [0, 1]}'
    content = parse_json(name, text, example)
    partitions = []
    for topic, numbers in content.items():
        if not isinstance(numbers, list) or not all(is_partition(number) for number in numbers):
            raise InvalidArgument(f"option {name} has {numbers!r} for topic {topic!r}: give {example}")
        partitions += [TopicPartition(topic, number) for number in dict.fromkeys(numbers)]
    if not partitions:
        raise InvalidArgument(f"option {name} names no partition: give {example}")
    return Assign(tuple(sorted(partitions)))


def parse_json(name: str, text: str, example: str) -> dict[str, Any]:
    """Parse a JSON object. Raise `InvalidArgument` for anything else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"option {name} is not JSON ({error}): give {example}") from None
    if not isinstance(content, dict):
        raise InvalidArgument(f"option {name} is {text!r}: give {example}")
    return content


def whole_number(text: str) -> int | None:
    """Return the number, or None if the text is not just digits, or has more of them than any valid number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**31


def names_to_describe(choice: TopicChoice, known: Iterable[str]) -> list[str]:
    """Return the names of the chosen topics. `known`: all existing topics, needed for patterns only."""
    match choice:
        case Subscribe(topics):
            return list(topics)
        case SubscribePattern(pattern):
            return sorted(name for name in known if re.fullmatch(pattern, name))
        case Assign(partitions):
            return list(dict.fromkeys(partition.topic for partition in partitions))


def without_missing(choice: TopicChoice, known: Collection[str]) -> TopicChoice:
    """Return the choice without topics that are missing from `known`."""
    match choice:
        case Subscribe(topics):
            return Subscribe(tuple(topic for topic in topics if topic in known))
        case SubscribePattern():
            return choice
        case Assign(partitions):
            return Assign(tuple(partition for partition in partitions if partition.topic in known))


def chosen_partitions(choice: TopicChoice, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return the chosen partitions, in order. Raise `UnknownTopic` or `UnknownPartition` if a named one does not
    exist."""
    for topic in names_to_describe(choice, ()):
        if topic not in partition_counts:
            raise UnknownTopic(f"there is no topic {topic!r}: create it first")
    if isinstance(choice, Assign):
        for topic, number in choice.partitions:
            if number >= partition_counts[topic]:
                raise UnknownPartition(
                    f"topic {topic!r} has no partition {number}: it has 0 to {partition_counts[topic] - 1}"
                )
        return list(choice.partitions)
    return [
        TopicPartition(topic, number)
        for topic in sorted(partition_counts)
        for number in _numbers(topic, partition_counts)
    ]


def _numbers(topic: str, partition_counts: Mapping[str, int]) -> Sequence[int]:
    return range(partition_counts[topic])
