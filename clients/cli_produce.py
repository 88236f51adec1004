"""`lograft produce TOPIC`: each line of standard input is a record."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import click

from lograft.clients.cli import EXIT_INTERRUPTED, CommandError
from lograft.clients.cli_options import Settings, cluster_command
from lograft.clients.errors import LograftError, UnknownPartition
from lograft.clients.producer import Delivery, Producer
from lograft.clients.producer_options import MAX_DELIVERY_TIMEOUT_MS

_PROGRESS_EVERY = 1000


@click.command("produce")
@click.argument("topic")
@click.option("--key", metavar="TEXT", help="The key of every record.")
@click.option("--key-field", metavar="FIELD", help="Each line is a JSON object: its key is this field of it.")
@click.option("--partition", type=click.IntRange(min=0), help="Where to; by default the key decides.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Goes with every record; repeatable.")
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
    key: str | None,
    key_field: str | None,
    partition: int | None,
    headers: Sequence[str],
    acks: str,
    compression: str,
    linger_ms: int,
) -> None:
    """Store each line of standard input as a record of TOPIC. Returns when all are acknowledged.

    \b
    echo hello | lograft produce greetings
    jq -c . orders.json | lograft produce orders --key-field id
    """
    if key is not None and key_field is not None:
        raise click.UsageError("--key and --key-field exclude one another")
    if settings.timeout_ms > MAX_DELIVERY_TIMEOUT_MS:
        raise click.UsageError("--timeout is at most 1h here: a broker forgets what it has not to store twice")
    if sys.stdin is None:
        raise CommandError("there is no standard input", "give it some: `lograft produce TOPIC < FILE`")
    pairs = parse_headers(headers)
    given_key = as_given(key) if key is not None else None
    tally = Tally(is_shown=sys.stderr.isatty() and not sys.stdin.isatty())
    with Producer(
        settings.bootstrap,
        acks=acks,
        compression=compression,
        linger_ms=linger_ms,
        max_block_ms=settings.timeout_ms,
        delivery_timeout_ms=settings.timeout_ms,
        first_contact_ms=settings.first_contact_ms,
    ) as producer:
        check_partition(producer, topic, partition)
        interrupts = Interrupts()
        try:
            for number, line in enumerate(interrupts.while_reading(lines(sys.stdin.buffer)), start=1):
                if tally.failure is not None:
                    break
                record_key = given_key if key_field is None else key_of(line, key_field, number)
                delivery = producer.send(topic, line, key=record_key, partition=partition, headers=pairs)
                delivery.add_done_callback(tally.settled)
        except KeyboardInterrupt:
            pass  # what was read is stored, unless somebody insists
        producer.flush()
    tally.finish(topic)
    if interrupts.is_asked:
        click.get_current_context().exit(EXIT_INTERRUPTED)


def check_partition(producer: Producer, topic: str, partition: int | None) -> None:
    """A place that is not there is told before anything is read."""
    count = producer.partitions_for(topic)
    if partition is not None and partition >= count:
        raise UnknownPartition(f"topic {topic!r} has no partition {partition}: it has 0 to {count - 1}")


class Interrupts:
    """Ctrl+C, which ends the reading: nothing is sent without being counted. The second one ends everything."""

    def __init__(self) -> None:
        self.is_asked = False
        self._is_reading = False
        signal.signal(signal.SIGINT, self._interrupt)

    def while_reading(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        while not self.is_asked:
            self._is_reading = True
            line = next(lines, None)
            self._is_reading = False
            if line is None:
                return
            yield line

    def _interrupt(self, *_: object) -> None:
        is_first, self.is_asked = not self.is_asked, True
        if self._is_reading or not is_first:
            self._is_reading = False
            raise KeyboardInterrupt


def as_given(text: str) -> bytes:
    """The bytes that an argument was given as, text or not."""
    return text.encode(errors="surrogateescape")


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Without their ends. The last need not have one."""
    for line in file:
        yield line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def key_of(line: bytes, field: str, number: int) -> bytes | None:
    """A string as it is, anything else as JSON; None if there is no such field, or it is null."""
    try:
        content = json.loads(line)
    except ValueError as error:
        raise CommandError(f"line {number} is not JSON: {error}", "give JSON, or leave --key-field out") from None
    if not isinstance(content, dict):
        raise CommandError(f"line {number} is not a JSON object", "give objects, or leave --key-field out")
    value = content.get(field)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode(errors="surrogatepass")  # JSON can have halves of a character


def parse_headers(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    pairs = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.UsageError(f"{text!r} is not NAME=VALUE")
        pairs.append((name, as_given(value)))
    return pairs


class Tally:
    """How many were stored, and the first that was not. Told by the client's thread."""

    def __init__(self, *, is_shown: bool) -> None:
        self.stored = 0
        self.failed = 0
        self.failure: LograftError | None = None
        self._is_shown = is_shown

    def settled(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            self.stored += 1
        else:
            self.failed += 1
            self.failure = self.failure or error
        if self._is_shown and self.stored % _PROGRESS_EVERY == 0:
            click.echo(f"\r{self.stored} records stored", err=True, nl=False)

    def finish(self, topic: str) -> None:
        """Raise the first failure, if there was one."""
        if self._is_shown and self.stored >= _PROGRESS_EVERY:
            click.echo("\r", err=True, nl=False)
        click.echo(f"{self.stored} record{'' if self.stored == 1 else 's'} stored in {topic}", err=True)
        if self.failure is not None:
            click.echo(f"{self.failed} not stored, or not known to be", err=True)
            raise self.failure
