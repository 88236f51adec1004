"""`lograft produce TOPIC`: write lines of standard input or files as records."""

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
    help="Read this file instead of standard input (-). Repeatable.",
)
@click.option("--whole", is_flag=True, help="Write each file as one record.")
@click.option(
    "--input",
    "input_form",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="Format of lines: a value, or a record as printed by `consume -o json`.",
)
@click.option("--key", metavar="TEXT", help="Key of all records.")
@click.option("--key-separator", metavar="TEXT", help=r"Separator between key and value in each line, such as : or \t.")
@click.option("--key-field", metavar="FIELD", help="Field of each line, a JSON object, that is the record's key.")
@click.option(
    "--timestamp-field", metavar="FIELD", help="Field that is the record's timestamp: milliseconds or ISO 8601."
)
@click.option(
    "--null-value", metavar="TEXT", help="Value to write as null, which deletes the key in a compacted topic."
)
@click.option("--tombstone", is_flag=True, help="Lines are keys of records with a null value.")
@click.option("--partition", type=click.IntRange(min=0), help="Partition to write to.  [default: by key]")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Header of all records. Repeatable.")
@click.option("--rate", "per_second", callback=read_rate, metavar="N/s", help="Maximum rate, such as 100/s or 30/m.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="When a record counts as written.",
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
    """Write each line of standard input, or of files, to TOPIC as a record, and wait until all are acknowledged.

    \b
    Examples:
      # Write one record
      echo hello | lograft produce greetings
      # Write JSON objects with their id as the key
      jq -c . orders.json | lograft produce orders --key-field id
      # Write lines of the form key:value from two files
      lograft produce orders -F monday.txt -F tuesday.txt --key-separator :
      # Write a file as a single record
      lograft produce pictures -F cat.png --whole --key cat
      # Delete a key of a compacted topic
      echo customer-7 | lograft produce customers --tombstone
      # Copy a topic
      lograft consume orders --exit -o json | lograft produce copy --input json
      # Write 10 records per second
      seq 1 1000 | lograft produce numbers --rate 10/s

    With `--input json`, a record is an object with "value" and optionally "key", "headers", "timestamp", and
    "partition". Keys and values are strings, null, {"base64": "..."}, or other values, which are written as JSON.
    "topic" and "offset" are ignored.

    Records with the same key keep their order. At an invalid line, the command reports its position and writes no
    further records. The same applies to a record that the cluster rejects, though records already in flight may be
    written. The command always reports how many records were written, and shows progress on a terminal.

    \b
    Exit code    0  all records were written
                 1  some records were not written
                 2  invalid usage
               130  interrupted by Ctrl+C; sent records were written
    """
    check_usage(settings, whole=whole, **form)
    paths = paths or [STANDARD_INPUT]
    is_typed = STANDARD_INPUT in paths and sys.stdin.isatty()
    if is_typed:
        click.echo("Each line you type is a record. Press Ctrl+D to end.", err=True)
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
            pass  # write the lines read so far, unless interrupted again
        except (CommandError, LograftError, OSError) as error:
            problem = error  # reported after the number of records written before
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
        raise click.UsageError(f"{first} and {second} cannot be combined")
    if form["key_separator"] == "":
        raise click.UsageError("--key-separator is empty: pass the text between key and value")
    named = [*keyed, *(name for name in ("timestamp_field", "null_value") if form[name] is not None)]
    if input_form == "json" and named:
        raise click.UsageError(
            f"--{named[0].replace('_', '-')} cannot be combined with --input json: set it in the records"
        )
    if tombstone and form["timestamp_field"] is not None:
        raise click.UsageError("--tombstone and --timestamp-field cannot be combined")
    if form["key_separator"] is not None and form["timestamp_field"] is not None:
        raise click.UsageError("--key-separator and --timestamp-field cannot be combined: use --key-field")
    parse_headers(form["headers"])
    if settings.timeout_ms > MAX_DELIVERY_TIMEOUT_MS:
        raise click.UsageError("--timeout is limited to 1h, the time for which brokers recognise duplicates")


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
    """Return the number of partitions. Raise if the given partition does not exist, before any input is read."""
    count = producer.partitions_for(topic)
    if partition is not None and partition >= count:
        raise UnknownPartition(f"topic {topic!r} has no partition {partition}: its partitions are 0 to {count - 1}")
    return count


def as_given(text: str) -> bytes:
    """Return the argument's original bytes, even if they are not text."""
    return text.encode(errors="surrogateescape")


def parse_headers(texts: Sequence[str]) -> Pairs:
    pairs = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.UsageError(f"{text!r} is not NAME=VALUE")
        pairs.append((name, as_given(value)))
    return pairs
