"""`lograft produce TOPIC`: each line of standard input is a record."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import click

from lograft.clients.cli import CommandError
from lograft.clients.cli_options import Settings, cluster_command
from lograft.clients.errors import LograftError
from lograft.clients.producer import Delivery, Producer

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
    pairs = parse_headers(headers)
    tally = Tally(is_shown=sys.stderr.isatty() and not sys.stdin.isatty())
    with Producer(
        settings.bootstrap,
        acks=acks,
        compression=compression,
        linger_ms=linger_ms,
        max_block_ms=settings.timeout_ms,
        delivery_timeout_ms=settings.timeout_ms,
    ) as producer:
        producer.partitions_for(topic)  # a topic that is not there is told before anything is read
        for number, line in enumerate(lines(sys.stdin.buffer), start=1):
            if tally.failure is not None:
                break
            record_key = key_of(line, key_field, number) if key_field is not None else key
            encoded_key = record_key.encode() if record_key is not None else None
            delivery = producer.send(topic, line, key=encoded_key, partition=partition, headers=pairs)
            delivery.add_done_callback(tally.settled)
        producer.flush()
    tally.finish(topic)


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Without their ends. The last need not have one."""
    for line in file:
        yield line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def key_of(line: bytes, field: str, number: int) -> str | None:
    """A string as it is, anything else as JSON; None if there is no such field, or it is null."""
    try:
        content = json.loads(line)
    except ValueError as error:
        raise CommandError(f"line {number} is not JSON: {error}", "give JSON, or leave --key-field out") from None
    if not isinstance(content, dict):
        raise CommandError(f"line {number} is not a JSON object", "give objects, or leave --key-field out")
    value = content.get(field)
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def parse_headers(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    pairs = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.UsageError(f"{text!r} is not NAME=VALUE")
        pairs.append((name, value.encode()))
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
