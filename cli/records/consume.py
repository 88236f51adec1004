"""`lograft consume TOPIC`: records on standard output."""

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
    help="earliest, latest, a time, or -10m.  [default: earliest]",
)
@click.option("--to", "end", callback=read_moment, metavar="TIME", help="Stop there: latest, now, or a time.")
@click.option(
    "--tail", type=click.IntRange(min=0), metavar="N", help="Begin with the last N offsets of each partition."
)
@click.option(
    "--offsets",
    "ranges",
    callback=read_ranges,
    metavar="RANGE",
    multiple=True,
    help="P:START-END, END excluded; repeatable.",
)
@click.option("--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this one; repeatable.")
@click.option(
    "--group",
    shell_complete=complete_names(Noun.GROUP),
    help="Share the topics with the members of this group, and commit what was written.",
)
@click.option("-f", "--format", "form", help=r"Such as '%p %o %k %v\n'; see above.")
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Stop after so many.")
@click.option(
    "--on-bad-batch",
    type=click.Choice(ON_BAD_BATCH),
    default="raise",
    show_default=True,
    help="What to do about records that cannot be decoded: stop, or leave them out with a warning.",
)
@click.option("--exit", "exits", is_flag=True, help="Stop at the end of what is there now.")
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
    """Write the records of TOPIC to standard output, one value a line, until interrupted.

    \b
    lograft consume orders --exit
    lograft consume orders --tail 10
    lograft consume orders payments --from -10m --to now -f '%t-%p %o %k %v\\n'
    lograft consume orders --offsets 0:100-200 -o json
    lograft consume orders --group billing

    Times without an offset are UTC. Records of a partition come in order, those of several partitions as they come.

    \b
    In a format (-f):
      %t topic       %k key                     %{k:hex} %{k:base64} %{k:json}
      %p partition   %v value                   %{v:hex} %{v:base64} %{v:json}
      %o offset      %h headers, as a=1,b=2     %{h:json}
      %T time, UTC   %{T:ms} since 1970         %% a percent sign
      \\n \\t \\r \\0 \\\\ \\xHH are what they are elsewhere; nothing is written that the format does not say.

    Into a pipe or a file bytes go as they are; on a terminal those that are no text are shown as \\xHH. `-o json`
    writes an object a line, with {"base64": ...} for what is no text; `lograft produce --input json` reads that.

    With --group, what was written is committed, and what a reader such as `head` left unread cannot be told from
    that: to take ten records and no more, say `-n 10`.

    Exit codes: 0 all that was asked for is written; 1 it cannot be, or nobody reads it; 2 wrong usage; 130 Ctrl+C.
    """
    asked = Asked(topics, start, end, ranges, partitions, tail, exits)
    check_usage(asked, group)
    if settings.output == "json" and form is not None:
        raise click.UsageError("-o and -f exclude one another")
    writer = make_writer(sys.stdout, form, is_json=settings.output == "json")
    # A member that is told to end leaves its group; else the others would wait for it.
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
        raise click.UsageError("--offsets says all: leave --from, --to, --tail and --partition out")
    if asked.ranges and len(asked.topics) > 1:
        raise click.UsageError("--offsets are of one topic: read the others by themselves")
    if len({each.partition for each in asked.ranges}) < len(asked.ranges):
        raise click.UsageError("one range of offsets for each partition")
    if asked.tail is not None and asked.start is not None:
        raise click.UsageError("--from and --tail exclude one another: both say where to begin")
    if isinstance(asked.start, Moment) and isinstance(asked.end, Moment) and asked.end.epoch_ms < asked.start.epoch_ms:
        raise click.UsageError("--to is before --from")
    is_elsewhere = asked.ranges or asked.end or asked.partitions or asked.tail is not None
    if group is not None and (is_elsewhere or isinstance(asked.start, Moment)):
        raise click.UsageError(
            "--group goes on where the group is: leave --offsets, --to, --tail and --partition out; --from can be "
            "earliest or latest, and says where to begin if nothing is committed"
        )
