"""Start and end offsets of `lograft consume` in each partition."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from lograft.cli.common.command_error import CommandError
from lograft.clients.consumer.sync_consumer import Consumer
from lograft.clients.times import BadTime, Earliest, Latest, Moment, parse_moment
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, end excluded. `end` is None without an end."""

    partition: int
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """The requested range. `tail`: the last offsets of each partition. `exits`: stop at the current end."""

    topics: Sequence[str]
    start: Earliest | Latest | Moment | None = None
    end: Earliest | Latest | Moment | None = None
    ranges: Sequence[OffsetRange] = ()
    partitions: Sequence[int] = ()
    tail: int | None = None
    exits: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Start offsets of all partitions, and end offsets of those that have one."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    @property
    def total(self) -> int | None:
        """Return the number of offsets, or None without an end."""
        if len(self.ends) < len(self.starts):
            return None
        return sum(max(0, self.ends[name] - start) for name, start in self.starts.items())


def read_moment(ctx: click.Context, param: click.Parameter, value: str | None) -> Earliest | Latest | Moment | None:
    try:
        return parse_moment(value, LoopClock().wall_ms()) if value is not None else None
    except BadTime as error:
        raise click.BadParameter(str(error)) from None


def read_ranges(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[OffsetRange]:
    return [_range(value) for value in values]


def _range(text: str) -> OffsetRange:
    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,18})(-([0-9]{1,18})?)?", text, flags=re.ASCII)
    if match is None:
        raise click.BadParameter(f"{text!r} is not PARTITION:START-END, such as 0:100-200, 0:100- or 0:100")
    partition, start = int(match[1]), int(match[2])
    if match[3] is None:
        return OffsetRange(partition, start, start + 1)
    end = int(match[4]) if match[4] is not None else None
    if end is not None and end < start:
        raise click.BadParameter(f"{text!r} ends before it starts: use PARTITION:START-END, such as 0:100-200")
    return OffsetRange(partition, start, end)


def make_plan(consumer: Consumer, asked: Asked) -> Plan:
    names = _names(consumer, asked)
    starts: Mapping[TopicPartition, int]
    ends: dict[TopicPartition, int] = {}
    if asked.ranges:
        (topic,) = asked.topics
        starts = {TopicPartition(topic, each.partition): each.start for each in asked.ranges}
        ends = {TopicPartition(topic, each.partition): each.end for each in asked.ranges if each.end is not None}
    elif asked.tail is not None:
        earliest, latest = consumer.beginning_offsets(names), consumer.end_offsets(names)
        starts = {name: max(earliest[name], latest[name] - asked.tail) for name in names}
    else:
        starts = _offsets(consumer, names, asked.start or Earliest())
    if asked.end is not None:
        ends = dict(_offsets(consumer, names, asked.end))
    if asked.exits:
        latest = consumer.end_offsets(names)
        ends = {name: min(latest[name], ends.get(name, latest[name])) for name in names}
    return Plan(starts, ends)


def _names(consumer: Consumer, asked: Asked) -> list[TopicPartition]:
    names = []
    for topic in dict.fromkeys(asked.topics):
        count = len(consumer.partitions_for(topic))
        chosen = [each.partition for each in asked.ranges] or asked.partitions or range(count)
        for number in chosen:
            if number >= count:
                raise CommandError(f"topic {topic} has no partition {number}", f"it has 0 to {count - 1}")
        names += [TopicPartition(topic, number) for number in dict.fromkeys(chosen)]
    return names


def _offsets(
    consumer: Consumer, names: Sequence[TopicPartition], moment: Earliest | Latest | Moment
) -> Mapping[TopicPartition, int]:
    match moment:
        case Earliest():
            return consumer.beginning_offsets(names)
        case Latest():
            return consumer.end_offsets(names)
        case Moment(epoch_ms):
            found = consumer.offsets_for_times(dict.fromkeys(names, epoch_ms))
            latest = consumer.end_offsets(names)
            return {name: latest[name] if offset is None else offset for name, offset in found.items()}
