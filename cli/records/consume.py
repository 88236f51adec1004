"""`lograft consume TOPIC`: print records."""

import signal
import sys
from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, command_flags
from lograft.cli.common.command_error import EXIT_INTERRUPTED, EXIT_TERMINATED
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.nouns import Noun
from lograft.cli.output.progress import ProgressLine
from lograft.cli.records.consume_plan import Asked, OffsetRange, make_plan, read_moment, read_ranges
from lograft.cli.records.consume_run import read, read_as_member
from lograft.cli.records.record_output import make_writer
from lograft.clients.consumer.reading.options import ON_BAD_BATCH, BadBatchOption
from lograft.clients.consumer.sync_consumer import Consumer
from lograft.clients.times import Earliest, Latest, Moment


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_names(Noun.TOPIC))
@click.option(
    "--from",
    "start",
    callback=read_moment,
    metavar="TIME",
    help="Start position: earliest, latest, a time, or -10m.  [default: earliest]",
)
@click.option("--to", "end", callback=read_moment, metavar="TIME", help="End position: latest, now, or a time.")
@click.option(
    "--tail", type=click.IntRange(min=0), metavar="N", help="Start N offsets before the end of each partition."
)
@click.option(
    "--offsets",
    "ranges",
    callback=read_ranges,
    metavar="RANGE",
    multiple=True,
    help="Offsets of a partition as P:START-END, END excluded. Repeatable.",
)
@click.option(
    "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this partition. Repeatable."
)
@click.option(
    "--group",
    shell_complete=complete_names(Noun.GROUP),
    help="Join this consumer group and commit the printed records.",
)
@click.option("-f", "--format", "form", help=r"Record format, such as '%p %o %k %v\n'.")
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Exit after this many records.")
@click.option(
    "--on-bad-batch",
    type=click.Choice(ON_BAD_BATCH),
    default="raise",
    show_default=True,
    help="How to handle records that cannot be decoded: stop, or skip them with a warning.",
)
@click.option("--exit", "exits", is_flag=True, help="Exit at the current end of the topics.")
@command_flags("table", "json")
@click.pass_context
def consume(
    ctx: click.Context,
    settings: Settings,
    topics: Sequence[str],
    start: Earliest | Latest | Moment | None,
    end: Earliest | Latest | Moment | None,
    tail: int | None,
    ranges: Sequence[OffsetRange],
    partitions: Sequence[int],
    group: str | None,
    form: str | None,
    max_records: int | None,
    on_bad_batch: BadBatchOption,
    exits: bool,
) -> None:
    """Print the records of TOPIC, one value per line, until interrupted.

    Records of one partition are in order. Times without a UTC offset are in UTC.

    \b
    Examples:
      # Print all records and exit
      lograft consume orders --exit
      # Print the last 10 records of each partition, and new ones
      lograft consume orders --tail 10
      # Print topic, partition, offset, key, and value of the last ten minutes
      lograft consume orders payments --from -10m --to now -f '%t-%p %o %k %v\\n'
      # Print a range of offsets of partition 0 as JSON
      lograft consume orders --offsets 0:100-200 -o json
      # Read as a member of a consumer group
      lograft consume orders --group billing

    \b
    Format (-f):
      %t topic       %k key                     %{k:hex} %{k:base64} %{k:json}
      %p partition   %v value                   %{v:hex} %{v:base64} %{v:json}
      %o offset      %h headers, as a=1,b=2     %{h:json}
      %T time, UTC   %{T:ms} since 1970         %% a percent sign
      \\n \\t \\r \\0 \\\\ \\xHH are escapes. The format adds no newline unless it contains \\n.

    Bytes are written unchanged to pipes and files; on a terminal, bytes that are not text are printed as \\xHH.
    `-o json` prints an object per line, with {"base64": ...} for bytes that are not text, which
    `lograft produce --input json` accepts.

    With --group, all printed records are committed, even those that a reader such as `head` leaves unread. To take
    exactly ten records, use `-n 10`.

    \b
    Exit code    0  all requested records were printed
                 1  failed, or the output was closed
                 2  invalid usage
               130  interrupted by Ctrl+C
    """
    asked = Asked(topics, start, end, ranges, partitions, tail, exits)
    check_usage(asked, group)
    if settings.output == "json" and form is not None:
        raise click.UsageError("-o and -f cannot be combined")
    writer = make_writer(sys.stdout, form, is_json=settings.output == "json")
    # Leave the group on termination; otherwise the other members would wait for the session timeout.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    with (
        ProgressLine(sys.stderr, is_shown=sys.stderr.isatty() and not sys.stdout.isatty()) as progress,
        Consumer(
            settings.bootstrap,
            auto_offset_reset="none" if group is None else "latest" if isinstance(start, Latest) else "earliest",
            group=group,
            auto_commit=False,
            request_timeout_ms=settings.timeout_ms,
            first_contact_ms=settings.first_contact_ms,
            on_bad_batch=on_bad_batch,
        ) as consumer,
    ):
        try:
            if group is not None:
                read_as_member(consumer, topics, writer, progress, max_records, exits=exits)
            else:
                read(consumer, make_plan(consumer, asked), writer, progress, max_records)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)


def check_usage(asked: Asked, group: str | None) -> None:
    if asked.ranges and (asked.start or asked.end or asked.partitions or asked.tail is not None):
        raise click.UsageError("--offsets cannot be combined with --from, --to, --tail or --partition")
    if asked.ranges and len(asked.topics) > 1:
        raise click.UsageError("--offsets requires exactly one topic")
    if len({each.partition for each in asked.ranges}) < len(asked.ranges):
        raise click.UsageError("--offsets allows one range per partition")
    if asked.tail is not None and asked.start is not None:
        raise click.UsageError("--from and --tail cannot be combined")
    if isinstance(asked.start, Moment) and isinstance(asked.end, Moment) and asked.end.epoch_ms < asked.start.epoch_ms:
        raise click.UsageError("--to is before --from")
    is_elsewhere = asked.ranges or asked.end or asked.partitions or asked.tail is not None
    if group is not None and (is_elsewhere or isinstance(asked.start, Moment)):
        raise click.UsageError(
            "--group starts at the group's committed offsets: remove --offsets, --to, --tail and --partition; --from "
            "can be earliest or latest, for partitions without a committed offset"
        )
