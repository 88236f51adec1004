"""`lograft bench produce|consume|latency`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from lograft.cli.commands import bench_runs as benching
from lograft.cli.commands.bench_runs import Measured, NotEnoughRecords, Tick
from lograft.cli.common.cluster_options import Settings, showing_command
from lograft.cli.common.command_error import CommandError
from lograft.cli.output.progress import ProgressLine
from lograft.cli.output.resource_output import Column, Resource, resource, write_resources
from lograft.clients.admin.sync_admin import Admin
from lograft.clients.consumer.sync_consumer import Consumer
from lograft.clients.producer.pipeline.options import AcksOption, CompressionOption
from lograft.clients.producer.sync_producer import Producer
from lograft.runtime.rng import system_rng

F = TypeVar("F", bound=Callable[..., Any])

_COUNT = click.IntRange(1, 10**12)
_SIZE = click.IntRange(0, 1024 * 1024)
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCING = {
    "send": benching.produce_one_by_one,
    "send_many": benching.produce_many,
    "arrow": benching.produce_arrow,
}
CONSUMING = {
    "poll": benching.consume_by_poll,
    "iterate": benching.consume_one_by_one,
    "arrow": benching.consume_arrow,
}

_COLUMNS = [
    Column("BENCH", lambda one: one["metadata"]["name"]),
    Column("HOW", lambda one: one["spec"]["how"]),
    Column("RECORDS", lambda one: one["status"]["records"], is_number=True),
    Column("SIZE", lambda one: one["spec"]["size"], is_number=True),
    Column("SECONDS", lambda one: one["status"]["seconds"], is_number=True),
    Column("RECORDS/S", lambda one: one["status"]["recordsPerSecond"], is_number=True),
    Column("MB/S", lambda one: one["status"]["megabytesPerSecond"], is_number=True),
    Column("CPU S/M", lambda one: one["status"]["cpuSecondsPerMillionRecords"], is_number=True),
    Column("P50 MS", lambda one: _latency(one, "p50"), is_number=True),
    Column("P99 MS", lambda one: _latency(one, "p99"), is_number=True),
    Column("MAX MS", lambda one: _latency(one, "max"), is_number=True),
]


def _latency(one: Resource, name: str) -> float | None:
    latency: dict[str, float] | None = one["status"]["latencyMs"]
    return latency[name] if latency is not None else None


@click.group("bench")
def bench() -> None:
    """Measure produce throughput, consume throughput, or latency with lograft's own clients.

    Without TOPIC, the command creates a topic and deletes it afterwards.

    \b
    Examples:
      # Measure produce throughput with records of 1,000 bytes on 3 replicas
      lograft bench produce --size 1000 --replicas 3
      # Measure how fast a consumer reads a million records as Arrow tables
      lograft bench consume orders --records 1000000 --how arrow
      # Measure end-to-end latency, as JSON
      lograft bench latency -o json
    """


def _scratch_flags(command: F) -> F:
    replicas = click.option(
        "--replicas", type=_COUNT, help="Replicas of the created topic.  [default: min(3, brokers)]"
    )
    partitions = click.option("--partitions", type=_COUNT, default=1, help="Partitions of the created topic.")
    size = click.option("--size", type=_SIZE, default=100, show_default=True, help="Size of each value in bytes.")
    return size(partitions(replicas(command)))


def _producer_flags(command: F) -> F:
    acks = click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
    compression = click.option("--compression", type=click.Choice(_COMPRESSIONS), default="none", show_default=True)
    return acks(compression(command))


@bench.command()
@click.argument("topic", required=False)
@click.option("--records", type=_COUNT, default=500_000, show_default=True, help="Number of records to send.")
@click.option("--how", type=click.Choice(list(PRODUCING)), default="send_many", show_default=True)
@_producer_flags
@_scratch_flags
@showing_command
def produce(
    settings: Settings,
    topic: str | None,
    records: int,
    how: str,
    acks: AcksOption,
    compression: CompressionOption,
    **made: Any,
) -> None:
    """Measure produce throughput in records per second. `--how send` sends records one by one."""
    size = made["size"]
    with _topic(settings, topic, made) as name, _producer(settings, acks, compression) as producer:
        producer.partitions_for(name)
        with _progress(records) as tick:
            measured = PRODUCING[how](producer, name, records, size, tick)
    spec = {"topic": name, "how": how, "size": size, "acks": acks, "compression": compression}
    _show(settings, "produce", spec, measured)


@bench.command()
@click.argument("topic", required=False)
@click.option("--records", type=_COUNT, default=500_000, show_default=True, help="Number of records to read.")
@click.option("--how", type=click.Choice(list(CONSUMING)), default="poll", show_default=True)
@_producer_flags
@_scratch_flags
@showing_command
def consume(
    settings: Settings,
    topic: str | None,
    records: int,
    how: str,
    acks: AcksOption,
    compression: CompressionOption,
    **made: Any,
) -> None:
    """Measure consume throughput from the beginning of a topic. A created topic is filled first."""
    size = made["size"]
    with _topic(settings, topic, made) as name:
        if topic is None:
            with _producer(settings, acks, compression) as producer:
                benching.produce_many(producer, name, records, size, lambda _: None)
        with _consumer(settings) as consumer:
            partitions = consumer.partitions_for(name)
            consumer.assign(partitions)
            _check_there_are(consumer, partitions, records)
            with _progress(records) as tick:
                measured = CONSUMING[how](consumer, records, tick)
    _show(settings, "consume", {"topic": name, "how": how, "size": measured.size}, measured)


@bench.command()
@click.argument("topic", required=False)
@click.option(
    "--records", type=_COUNT, default=2_000, show_default=True, help="Number of records to send, one at a time."
)
@_producer_flags
@_scratch_flags
@showing_command
def latency(
    settings: Settings, topic: str | None, records: int, acks: AcksOption, compression: CompressionOption, **made: Any
) -> None:
    """Measure the time from `send` until a consumer receives the record, one record at a time."""
    size = made["size"]
    with (
        _topic(settings, topic, made) as name,
        _producer(settings, acks, compression) as producer,
        _consumer(settings) as consumer,
    ):
        producer.partitions_for(name)
        with _progress(records) as tick:
            measured = benching.measure_latency(producer, consumer, name, records, size, tick)
    spec = {"topic": name, "how": "send to poll", "size": size, "acks": acks, "compression": compression}
    _show(settings, "latency", spec, measured)


# -- what it takes


@contextmanager
def _topic(settings: Settings, given: str | None, made: dict[str, Any]) -> Iterator[str]:
    """Yield the given topic, or a temporary one that is deleted on exit."""
    if given is not None:
        yield given
        return
    name = f"bench-{system_rng().uuid().hex[:8]}"
    with Admin(settings.bootstrap, timeout_ms=settings.timeout_ms, first_contact_ms=settings.first_contact_ms) as admin:
        admin.create_topic(name, partitions=made["partitions"], replicas=made["replicas"])
        try:
            yield name
        finally:
            admin.delete_topic(name)


def _producer(settings: Settings, acks: AcksOption, compression: CompressionOption) -> Producer:
    return Producer(
        settings.bootstrap,
        acks=acks,
        compression=compression,
        max_block_ms=settings.timeout_ms,
        delivery_timeout_ms=max(settings.timeout_ms, 1000),
        first_contact_ms=settings.first_contact_ms,
    )


def _consumer(settings: Settings) -> Consumer:
    return Consumer(
        settings.bootstrap,
        auto_offset_reset="earliest",
        request_timeout_ms=settings.timeout_ms,
        first_contact_ms=settings.first_contact_ms,
    )


def _check_there_are(consumer: Consumer, partitions: list[Any], records: int) -> None:
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    found = sum(ends[each] - starts[each] for each in partitions)
    if found < records:
        remedy = (
            f"pass --records {found} or less" if found else "write records to it with `lograft bench produce TOPIC`"
        )
        raise CommandError(str(NotEnoughRecords(found)), remedy)


@contextmanager
def _progress(records: int) -> Iterator[Tick]:
    """Report progress on a terminal."""
    with ProgressLine(sys.stderr, is_shown=sys.stderr.isatty()) as progress:
        yield lambda count: progress.tick(count, count / records)


def _show(settings: Settings, name: str, spec: Resource, measured: Measured) -> None:
    latencies = measured.latencies
    found = None
    if latencies.count:
        found = {
            "p50": round(latencies.p50_ms, 3),
            "p90": round(latencies.p90_ms, 3),
            "p99": round(latencies.p99_ms, 3),
            "max": round(latencies.max_ms, 3),
        }
    status = {
        "records": measured.records,
        "seconds": round(measured.seconds, 3),
        "recordsPerSecond": round(measured.records_per_second),
        "megabytesPerSecond": round(measured.megabytes_per_second, 1),
        "cpuSecondsPerMillionRecords": round(measured.cpu_seconds_per_million, 2),
        "latencyMs": found,
    }
    one = resource("Benchmark", {"name": name}, spec=spec, status=status)
    write_resources(sys.stdout, [one], _COLUMNS, settings, is_one=True)
