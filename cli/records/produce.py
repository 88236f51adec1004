"""`lograft produce TOPIC`: lines of standard input, or of files, are records."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from lograft.cli.common.cluster_options import Settings, cluster_command
from lograft.cli.common.command_error import EXIT_INTERRUPTED, CommandError
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.nouns import Noun
from lograft.cli.output.escapes import unescape
from lograft.cli.output.progress import ProgressLine
from lograft.cli.records.input_lines import STANDARD_INPUT, Sources
from lograft.cli.records.json_input import JsonLineForm, JsonRecordForm
from lograft.cli.records.produce_run import Interrupts, Sending
from lograft.cli.records.rate_limit import paced, read_rate
from lograft.cli.records.text_input import LineForm, Pairs, RecordForm
from lograft.clients.errors import LograftError, UnknownPartition
from lograft.clients.producer.pipeline.options import MAX_DELIVERY_TIMEOUT_MS, AcksOption, CompressionOption
from lograft.clients.producer.sync_producer import Producer
from lograft.runtime.clock import LoopClock
from lograft.runtime.process.stopwatch import now_seconds, sleep_seconds


@click.command("produce")
@click.argument("topic", shell_complete=complete_names(Noun.TOPIC))
@click.option(
    "-F",
    "--file",
    "paths",
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True),
    multiple=True,
    help="Read this instead of standard input (-); repeatable.",
)
@click.option("--whole", is_flag=True, help="Each file is one record, whatever is in it.")
@click.option(
    "--input",
    "input_form",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="A line is a value; or a record, as `consume -o json` writes it.",
)
@click.option("--key", metavar="TEXT", help="The key of every record.")
@click.option(
    "--key-separator", metavar="TEXT", help=r"A line is a key and a value with this between, such as : or \t."
)
@click.option("--key-field", metavar="FIELD", help="A line is a JSON object: its key is this field of it.")
@click.option("--timestamp-field", metavar="FIELD", help="And its time is this one: milliseconds, or ISO 8601.")
@click.option("--null-value", metavar="TEXT", help="A value that is this is null: it deletes its key, if compacted.")
@click.option("--tombstone", is_flag=True, help="A line is a key, and its value is null.")
@click.option("--partition", type=click.IntRange(min=0), help="Where to; by default the key decides.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Goes with every record; repeatable.")
@click.option("--rate", "per_second", callback=read_rate, metavar="N/s", help="At most so many: 100/s, 30/m.")
@click.option(
    "--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True, help="When it is stored."
)
@click.option(
    "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", show_default=True
)
@click.option("--linger", "linger_ms", type=click.IntRange(min=0), default=5, show_default=True, metavar="MS")
@cluster_command
def produce(
    settings: Settings,
    topic: str,
    paths: Sequence[str],
    whole: bool,
    per_second: float | None,
    acks: AcksOption,
    compression: CompressionOption,
    linger_ms: int,
    **form: Any,
) -> None:
    """Store each line of standard input, or of files, as a record of TOPIC. Returns when all are acknowledged.

    \b
    echo hello | lograft produce greetings
    jq -c . orders.json | lograft produce orders --key-field id
    lograft produce orders -F monday.txt -F tuesday.txt --key-separator :
    lograft produce pictures -F cat.png --whole --key cat
    echo customer-7 | lograft produce customers --tombstone
    lograft consume orders --exit -o json | lograft produce copy --input json
    seq 1 1000 | lograft produce numbers --rate 10/s

    With `--input json` a record is an object with a "value", and maybe "key", "headers", "timestamp" and "partition".
    Key and value are strings, null, {"base64": "..."}, or anything else, which is stored as JSON. "topic" and
    "offset" are passed over.

    Records with the same key keep their order. A line that means nothing is named, and none after it is stored. So is
    the first that the cluster refuses; others that were on their way by then may be stored. In either case it is
    told how many are. On a terminal it is shown how far it is, unless lines are typed.

    Exit codes: 0 all are stored; 1 some are not; 2 wrong usage; 130 ended by Ctrl+C, what was sent being stored.
    """
    check_usage(settings, whole=whole, **form)
    paths = paths or [STANDARD_INPUT]
    is_typed = STANDARD_INPUT in paths and sys.stdin.isatty()
    if is_typed:
        click.echo("Each line that you type is a record; Ctrl+D ends.", err=True)
    sources = Sources(paths, sys.stdin.buffer)
    pieces = sources.lines(are_whole=whole)
    if per_second is not None:
        pieces = paced(pieces, per_second, now_seconds, sleep_seconds)
    problem: Exception | None = None
    with (
        ProgressLine(sys.stderr, is_shown=sys.stderr.isatty() and not is_typed) as progress,
        Producer(
            settings.bootstrap,
            acks=acks,
            compression=compression,
            linger_ms=linger_ms,
            max_block_ms=settings.timeout_ms,
            delivery_timeout_ms=settings.timeout_ms,
            first_contact_ms=settings.first_contact_ms,
        ) as producer,
    ):
        lines_mean = make_form(**form, partition_count=count_partitions(producer, topic, form["partition"]))
        sending = Sending(producer, topic)
        interrupts = Interrupts()
        try:
            for lines in interrupts.while_reading(pieces):
                for columns in lines_mean.columns(lines, LoopClock().wall_ms()):
                    sending.send(lines.source, columns)
                progress.tick(sending.stored, sources.share)
                if sending.failure is not None:
                    break
        except KeyboardInterrupt:
            pass  # what was read is stored, unless somebody insists
        except (CommandError, LograftError, OSError) as error:
            problem = error  # told after what was stored before
        producer.flush()
    sending.finish()
    if problem is not None:
        raise problem
    if interrupts.is_asked:
        click.get_current_context().exit(EXIT_INTERRUPTED)


def check_usage(settings: Settings, *, whole: bool, input_form: str, tombstone: bool, **form: Any) -> None:
    keyed = [name for name in ("key", "key_separator", "key_field") if form[name] is not None]
    keyed += ["tombstone"] if tombstone else []
    if len(keyed) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in keyed[:2])
        raise click.UsageError(f"{first} and {second} exclude one another")
    if form["key_separator"] == "":
        raise click.UsageError("--key-separator is empty: give what is between a key and its value")
    named = [*keyed, *(name for name in ("timestamp_field", "null_value") if form[name] is not None)]
    if input_form == "json" and named:
        raise click.UsageError(
            f"--{named[0].replace('_', '-')} is for lines: with --input json a record says it itself"
        )
    if tombstone and form["timestamp_field"] is not None:
        raise click.UsageError("--tombstone and --timestamp-field exclude one another")
    if form["key_separator"] is not None and form["timestamp_field"] is not None:
        raise click.UsageError("--key-separator and --timestamp-field exclude one another: take --key-field")
    parse_headers(form["headers"])
    if settings.timeout_ms > MAX_DELIVERY_TIMEOUT_MS:
        raise click.UsageError("--timeout is at most 1h here: a broker forgets what it has not to store twice")


def make_form(
    *,
    input_form: str,
    key: str | None,
    key_separator: str | None,
    key_field: str | None,
    timestamp_field: str | None,
    null_value: str | None,
    tombstone: bool,
    partition: int | None,
    headers: Sequence[str],
    partition_count: int,
) -> RecordForm:
    pairs = parse_headers(headers)
    if input_form == "json":
        return JsonRecordForm(partition_count, pairs, partition)
    given_key, null = (as_given(text) if text is not None else None for text in (key, null_value))
    if key_field is not None or timestamp_field is not None:
        return JsonLineForm(key_field, timestamp_field, given_key, null, pairs, partition)
    separator = unescape(key_separator) if key_separator is not None else None
    return LineForm(given_key, separator, null, tombstone, pairs, partition)


def count_partitions(producer: Producer, topic: str, partition: int | None) -> int:
    """Of the topic. A place that is not there is told before anything is read."""
    count = producer.partitions_for(topic)
    if partition is not None and partition >= count:
        raise UnknownPartition(f"topic {topic!r} has no partition {partition}: it has 0 to {count - 1}")
    return count


def as_given(text: str) -> bytes:
    """The bytes that an argument was given as, text or not."""
    return text.encode(errors="surrogateescape")


def parse_headers(texts: Sequence[str]) -> Pairs:
    pairs = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.UsageError(f"{text!r} is not NAME=VALUE")
        pairs.append((name, as_given(value)))
    return pairs
