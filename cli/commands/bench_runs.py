"""Measure throughput, CPU cost and latency of the clients against a running cluster."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from lograft.cli.common.units import count_text
from lograft.clients.cluster.rates import Latencies, LatencySamples
from lograft.clients.consumer.sync_consumer import Consumer
from lograft.clients.producer.sync_delivery import Delivery
from lograft.clients.producer.sync_producer import Producer
from lograft.clients.types import TopicPartition
from lograft.runtime.process.stopwatch import Stopwatch, now_seconds

_AT_ONCE = 10_000  # records per send_many call
_SAMPLE_EVERY = 997  # with single sends: timing every record would dominate the measurement
_TICK_EVERY = 1000
_POLL_SECONDS = 1.0
_PATIENCE_POLLS = 30


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a run. `latencies`: from `send` to the acknowledgement, or to the consumer."""

    records: int
    size: int
    seconds: float
    cpu_seconds: float
    latencies: Latencies

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.records_per_second * self.size / 1e6

    @property
    def cpu_seconds_per_million(self) -> float:
        return 1e6 * self.cpu_seconds / self.records if self.records else 0.0


class NotEnoughRecords(Exception):
    """The topic has fewer records than requested."""

    def __init__(self, found: int) -> None:
        super().__init__(f"the topic has only {count_text(found, 'record')}")
        self.found = found


Tick = Callable[[int], None]
"""Called periodically with the number of records processed."""


def produce_one_by_one(producer: Producer, topic: str, records: int, size: int, tick: Tick) -> Measured:
    value, samples = bytes(size), LatencySamples()
    watch = Stopwatch()
    for number in range(records):
        delivery = producer.send(topic, value)
        if number % _SAMPLE_EVERY == 0:
            delivery.add_done_callback(_note(samples, now_seconds()))
        if number % _TICK_EVERY == 0:
            tick(number)
    producer.flush()
    delivery.result()
    return Measured(records, size, watch.seconds, watch.cpu_seconds, samples.summary())


def _note(samples: LatencySamples, sent: float) -> Callable[[Delivery], None]:
    def note(delivery: Delivery) -> None:
        samples.add(1000 * (now_seconds() - sent))

    return note


def produce_many(producer: Producer, topic: str, records: int, size: int, tick: Tick) -> Measured:
    """Send lists of values."""
    return _produce_columns(producer, topic, records, size, tick, lambda count: [bytes(size)] * count)


def produce_arrow(producer: Producer, topic: str, records: int, size: int, tick: Tick) -> Measured:
    """Send Arrow arrays."""
    import pyarrow

    return _produce_columns(
        producer, topic, records, size, tick, lambda count: pyarrow.array([bytes(size)] * count, pyarrow.binary())
    )


def _produce_columns(
    producer: Producer, topic: str, records: int, size: int, tick: Tick, make: Callable[[int], object]
) -> Measured:
    """Build the values before the measurement starts, so that it does not include building them."""
    whole, rest = make(min(records, _AT_ONCE)), records % _AT_ONCE
    columns = [whole] * (records // _AT_ONCE) + ([make(rest)] if rest else [])
    samples = LatencySamples()
    watch = Stopwatch()
    for number, values in enumerate(columns):
        began = now_seconds()
        sent = producer.send_many(topic, values)
        sent.add_done_callback(lambda _, began=began: samples.add(1000 * (now_seconds() - began)))  # type: ignore[misc]
        tick(number * _AT_ONCE)
    producer.flush()
    sent.result()
    return Measured(records, size, watch.seconds, watch.cpu_seconds, samples.summary())


# -- reading


def consume_by_poll(consumer: Consumer, records: int, tick: Tick) -> Measured:
    return _consume(_polled(consumer), records, tick)


def consume_one_by_one(consumer: Consumer, records: int, tick: Tick) -> Measured:
    """Read by iteration, which waits until the topic has that many records."""
    taken = size = 0
    watch = Stopwatch()
    for record in islice(consumer, records):
        taken += 1
        size += len(record.value or b"")
        if taken % _TICK_EVERY == 0:
            tick(taken)
    return Measured(taken, size // max(taken, 1), watch.seconds, watch.cpu_seconds, Latencies())


def consume_arrow(consumer: Consumer, records: int, tick: Tick) -> Measured:
    return _consume(_tables(consumer), records, tick)


def _consume(batches: Iterator[tuple[int, int]], records: int, tick: Tick) -> Measured:
    """Poll until at least that many records were read; the last poll may return more."""
    taken = size = waited = 0
    watch = Stopwatch()
    for count, value_bytes in batches:
        taken, size = taken + count, size + value_bytes
        if taken >= records:
            break
        waited = 0 if count else waited + 1
        if waited > _PATIENCE_POLLS:
            raise NotEnoughRecords(taken)
        tick(taken)
    return Measured(taken, size // max(taken, 1), watch.seconds, watch.cpu_seconds, Latencies())


def _polled(consumer: Consumer) -> Iterator[tuple[int, int]]:
    """Count the records of each poll, and estimate bytes from one record, since all have the same size."""
    while True:
        records = consumer.poll(_POLL_SECONDS)
        yield len(records), len(records) * len(records[0].value or b"") if records else 0


def _tables(consumer: Consumer) -> Iterator[tuple[int, int]]:
    while True:
        table = consumer.poll_arrow(_POLL_SECONDS)
        yield len(table), len(table) * len(table.column("value")[0].as_py() or b"") if len(table) else 0


# -- from end to end


def measure_latency(
    producer: Producer, consumer: Consumer, topic: str, records: int, size: int, tick: Tick
) -> Measured:
    """Measure one record at a time, from `send` until a consumer receives it."""
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_end(partition)
    consumer.position(partition)
    value, samples = bytes(size), LatencySamples(records)
    watch = Stopwatch()
    for number in range(records):
        sent = now_seconds()
        producer.send(topic, value, partition=0)
        while not consumer.poll(_POLL_SECONDS):
            pass
        samples.add(1000 * (now_seconds() - sent))
        tick(number)
    return Measured(records, size, watch.seconds, watch.cpu_seconds, samples.summary())
