"""`lograft consume TOPIC`: records on standard output."""

import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from lograft.clients.cli import EXIT_INTERRUPTED, EXIT_TERMINATED, CommandError
from lograft.clients.cli_options import Settings, showing_command
from lograft.clients.cli_records import RecordWriter, make_writer
from lograft.clients.cli_times import BadTime, Earliest, Latest, Moment, parse_moment
from lograft.clients.consumer import Consumer
from lograft.clients.topic_partition import TopicPartition
from lograft.runtime.clock import LoopClock

_POLL_SECONDS = 1.0


def read_moment(ctx: click.Context, param: click.Parameter, value: str | None) -> Earliest | Latest | Moment | None:
    try:
        return parse_moment(value, LoopClock().wall_ms()) if value is not None else None
    except BadTime as error:
        raise click.BadParameter(str(error)) from None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Of one partition; the end is not included. None: there is none."""

    partition: int
    start: int
    end: int | None


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
        raise click.BadParameter(f"{text!r} ends before it starts: give PARTITION:START-END, such as 0:100-200")
    return OffsetRange(partition, start, end)


@click.command("consume")
@click.argument("topic")
@click.option(
    "--from",
    "start",
    callback=read_moment,
    metavar="TIME",
    help="earliest, latest, a time, or -10m.  [default: earliest]",
)
@click.option("--to", "end", callback=read_moment, metavar="TIME", help="Stop there: latest, now, or a time.")
@click.option(
    "--offsets",
    "ranges",
    callback=read_ranges,
    metavar="RANGE",
    multiple=True,
    help="P:START-END, END excluded; repeatable.",
)
@click.option("--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this one; repeatable.")
@click.option("--group", help="Share the topic with the members of this group, and commit what was written.")
@click.option("-f", "--format", "form", help=r"Such as '%p %o %k %v\n': also %t topic, %T time, %h headers, %%.")
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--exit", "exits", is_flag=True, help="Stop at the end of what is there now.")
@showing_command
@click.pass_context
def consume(
    ctx: click.Context,
    settings: Settings,
    topic: str,
    start: Earliest | Latest | Moment | None,
    end: Earliest | Latest | Moment | None,
    ranges: Sequence[OffsetRange],
    partitions: Sequence[int],
    group: str | None,
    form: str | None,
    max_records: int | None,
    exits: bool,
) -> None:
    """Write the records of TOPIC to standard output, one value a line, until interrupted.

    \b
    lograft consume orders --exit
    lograft consume orders --from -10m --to now -f '%p %o %k %v\\n'
    lograft consume orders --offsets 0:100-200 -o json
    lograft consume orders --group billing

    Times without an offset are UTC.
    """
    if ranges and (start or end or partitions):
        raise click.UsageError("--offsets says all: leave --from, --to and --partition out")
    if group is not None and (ranges or end or partitions or isinstance(start, Moment)):
        raise click.UsageError(
            "--group goes on where the group is: leave --offsets, --to and --partition out; --from can be earliest or "
            "latest, and says where to begin if nothing is committed"
        )
    if settings.output not in ("table", "json"):
        raise click.UsageError(f"-o {settings.output} makes no sense of records: give json, or -f FORMAT")
    if settings.output == "json" and form is not None:
        raise click.UsageError("-o and -f exclude one another")
    writer = make_writer(sys.stdout, form, is_json=settings.output == "json")
    # A member that is told to end leaves its group; else the others would wait for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    with Consumer(
        settings.bootstrap,
        auto_offset_reset="none" if group is None else "latest" if isinstance(start, Latest) else "earliest",
        group=group,
        auto_commit=False,
        request_timeout_ms=settings.timeout_ms,
        first_contact_ms=settings.first_contact_ms,
    ) as consumer:
        try:
            if group is not None:
                read_as_member(consumer, topic, writer, max_records, exits=exits)
                return
            plan = make_plan(consumer, topic, start, end, ranges, partitions, exits=exits)
            read(consumer, plan, writer, max_records)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)


# -- where to begin and to end


@dataclass(frozen=True, slots=True)
class Plan:
    """Where to begin in each partition, and where to end, if anywhere."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int | None]


def make_plan(
    consumer: Consumer,
    topic: str,
    start: Earliest | Latest | Moment | None,
    end: Earliest | Latest | Moment | None,
    ranges: Sequence[OffsetRange],
    partitions: Sequence[int],
    *,
    exits: bool,
) -> Plan:
    existing = consumer.partitions_for(topic)
    chosen = [each.partition for each in ranges] or list(partitions) or [each.partition for each in existing]
    for number in chosen:
        if number >= len(existing):
            raise CommandError(f"topic {topic} has no partition {number}", f"it has 0 to {len(existing) - 1}")
    names = [TopicPartition(topic, number) for number in dict.fromkeys(chosen)]
    if ranges:
        starts: Mapping[TopicPartition, int] = {TopicPartition(topic, each.partition): each.start for each in ranges}
        ends = {TopicPartition(topic, each.partition): each.end for each in ranges}
        if len(starts) < len(ranges):
            raise click.UsageError("one range of offsets for each partition")
    else:
        starts = _offsets(consumer, names, start or Earliest())
        ends = dict(_offsets(consumer, names, end)) if end is not None else dict.fromkeys(names)
    if exits:
        latest = consumer.end_offsets(names)
        ends = {name: min(latest[name], known) if known is not None else latest[name] for name, known in ends.items()}
    return Plan(starts, ends)


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


# -- reading


def read(consumer: Consumer, plan: Plan, writer: RecordWriter, max_records: int | None) -> None:
    """Write all that is in the plan, in the order it comes."""
    unfinished = {name for name, start in plan.starts.items() if not _is_past(start, plan.ends[name])}
    if not unfinished:
        return
    consumer.assign(sorted(unfinished))
    for name in unfinished:
        consumer.seek(name, plan.starts[name])
    written = 0
    while unfinished:
        for record in consumer.poll(_POLL_SECONDS):
            if _is_past(record.offset, plan.ends[TopicPartition(record.topic, record.partition)]):
                continue
            writer.write(record)
            written += 1
            if written == max_records:
                writer.flush()
                return
        writer.flush()
        bounded = [name for name in unfinished if plan.ends[name] is not None]
        done = {name for name in bounded if _is_past(consumer.position(name), plan.ends[name])}
        if done:
            unfinished -= done
            consumer.assign(sorted(unfinished))


def _is_past(offset: int, end: int | None) -> bool:
    return end is not None and offset >= end


# -- in a group


def read_as_member(
    consumer: Consumer, topic: str, writer: RecordWriter, max_records: int | None, *, exits: bool
) -> None:
    """Write what the group gives, and commit that once it is written."""
    ends = consumer.end_offsets(consumer.partitions_for(topic)) if exits else {}
    consumer.subscribe([topic])
    left = max_records
    while left != 0:
        records = consumer.poll(_POLL_SECONDS, left)
        for record in records:
            writer.write(record)
        writer.flush()
        if records:
            consumer.commit()
        if left is not None:
            left -= len(records)
        assigned = consumer.assignment()
        if exits and assigned and all(_is_past(consumer.position(name), ends.get(name)) for name in assigned):
            return
