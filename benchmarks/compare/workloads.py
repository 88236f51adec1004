"""What is measured, the same of every system: one visit of a system that is up alone, from its start to its end."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from measure import MEBIBYTE, percentile
from samples import make_sample

from compare.failures import CannotRun, Wrong
from compare.results import Sample
from compare.spark_reading import SparkReading
from compare.system import PARTITIONS, Limit, Mode, System

SIZES = {"100 B": 100, "1 KiB": 1024}
PARTS = ("produce", "latency", "consume", "spark", "failover")
"""Start-up time and memory are measured in any case."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done of everything, in each round."""

    rounds: int
    warm_seconds: float
    produce_seconds: float
    produce_bytes: int
    consume_seconds: float
    latency_rate: float
    latency_seconds: float
    spark_records: int


THOROUGH = Effort(5, 8.0, 5.0, 512 * MEBIBYTE, 5.0, 1000, 10.0, 2_000_000)
QUICK = Effort(3, 4.0, 2.0, 192 * MEBIBYTE, 2.0, 1000, 4.0, 1_000_000)
TINY = Effort(1, 0.3, 0.3, 16 * MEBIBYTE, 0.5, 200, 1.0, 20_000)


def make_values(size_bytes: int) -> list[bytes]:
    """A list of records that is sent over and over; a whole number of every system's pieces."""
    sample = make_sample(size_bytes)
    some = [key + value for key, value in zip(sample.keys, sample.values, strict=True)]
    assert all(len(value) == size_bytes for value in some)
    count = 20_000 if size_bytes < 1000 else 5_000
    return (some * (count // len(some) + 1))[:count]


class Visit:
    """Of one system, in one round."""

    def __init__(
        self, system: System, number: int, effort: Effort, values: dict[str, list[bytes]], spark: SparkReading | None
    ) -> None:
        self._system = system
        self._round = number
        self._effort = effort
        self._values = values
        self._spark = spark
        self.samples: list[Sample] = []
        self.failures: list[str] = []

    def run(self, directory: Path, parts: list[str]) -> None:
        """Whatever fails is noted, and costs its own figures only."""
        system = self._system
        with self._noting("start-up"):
            self._note("start-up", "", None, "s", system.start(directory))
            self._note("memory, idle", "", None, "MB", system.servers.resident_bytes() / 1e6)
        if self.failures:
            return
        steps: dict[str, Callable[[], None]] = {
            "produce": self._produce,
            "consume": self._consume,
            "latency": self._latency,
            "spark": self._read_with_spark,
        }
        with self._noting("warm-up"):
            self._warm_up()
        for part, step in steps.items():
            if part in parts:
                with self._noting(part):
                    step()
        self._note("memory, after load", "", None, "MB", system.servers.resident_bytes() / 1e6)
        if "failover" in parts:
            with self._noting("failover"):
                self._failover()

    @contextmanager
    def _noting(self, part: str) -> Iterator[None]:
        try:
            yield
            self._system.servers.check()
        except Exception as error:  # of whatever client: it costs these figures, and not those of others
            kind = "" if isinstance(error, CannotRun | Wrong) else f"{type(error).__name__}: "
            self.failures.append(f"{self._system.name}, {part}: {kind}{error}")

    def _note(self, workload: str, how: str, mode: Mode | None, unit: str, value: float) -> None:
        durability, setting = (mode.durability, mode.label) if mode else ("", "")
        self.samples.append(Sample(self._round, workload, self._system.name, how, durability, setting, unit, value))

    # -- parts

    def _warm_up(self) -> None:
        """Servers are fresh in each round: their compilers, caches and connections get a while to settle."""
        writer, mode = self._system.writers[0], self._system.modes[0]
        for size, values in self._values.items():
            topic = f"warm-{len(values[0])}"
            self._system.make_topic(topic, mode, PARTITIONS)
            limit = Limit(self._effort.warm_seconds / len(self._values), self._most(size))
            acknowledged = self._system.produce(writer, topic, values, limit).count
            self._system.consume(self._system.readers[0], topic, acknowledged, self._effort.warm_seconds / 4)

    def _most(self, size: str) -> int:
        return self._effort.produce_bytes // SIZES[size]

    def _produce(self) -> None:
        """Every other round goes backwards: what comes later finds warmer servers."""
        ways = [
            (size, mode, writer)
            for size in self._values
            for mode in self._system.modes
            for writer in self._system.writers
        ]
        for size, mode, writer in ways[::-1] if self._round % 2 else ways:
            self._produce_once(size, self._values[size], mode, writer)

    def _produce_once(self, size: str, values: list[bytes], mode: Mode, writer: str) -> None:
        topic = f"produce-{SIZES[size]}-{mode.durability}-{self._system.writers.index(writer)}"
        self._system.make_topic(topic, mode, PARTITIONS)
        os.sync()  # what others left to be written is not waited for here
        servers, client = self._system.servers.processor_seconds(), process_time()
        amount = self._system.produce(writer, topic, values, Limit(self._effort.produce_seconds, self._most(size)))
        gigabytes = amount.count * SIZES[size] / 1e9
        self._note(f"produce, {size}", writer, mode, "records/s", amount.rate)
        if size == "1 KiB":
            client_seconds = process_time() - client
            server_seconds = self._system.servers.processor_seconds() - servers
            self._note("processor, servers", writer, mode, "s/GB", server_seconds / gigabytes)
            self._note("processor, client", writer, mode, "s/GB", client_seconds / gigabytes)
        self._check_stored(topic, amount.count)

    def _check_stored(self, topic: str, acknowledged: int) -> None:
        stored = self._system.stored(topic)
        if stored != acknowledged:
            raise Wrong(f"{topic}: {acknowledged} records were acknowledged, and {stored} are there")

    def _consume(self) -> None:
        for size, values in self._values.items():
            topic = f"consume-{SIZES[size]}"
            self._system.make_topic(topic, self._os_mode(), PARTITIONS)
            limit = Limit(self._effort.produce_seconds, self._most(size))
            written = self._system.produce(self._system.writers[-1], topic, values, limit).count
            self._check_stored(topic, written)
            for reader in self._system.readers:
                amount = self._system.consume(reader, topic, written, self._effort.consume_seconds)
                if amount.count > written:
                    raise Wrong(f"{topic}: {amount.count} records were read of {written}")
                if amount.count < written and amount.seconds < self._effort.consume_seconds:
                    raise Wrong(f"{topic}: {amount.count} of {written} records were read, and no more came")
                self._note(f"consume, {size}", reader, None, "records/s", amount.rate)

    def _os_mode(self) -> Mode:
        return next(mode for mode in self._system.modes if mode.durability == "os")

    def _latency(self) -> None:
        effort = self._effort
        for mode in self._system.modes:
            topic = f"latency-{mode.durability}"
            self._system.make_topic(topic, mode, 1)
            os.sync()
            ages = self._system.latencies(topic, SIZES["1 KiB"], effort.latency_rate, effort.latency_seconds)
            settled = ages[len(ages) // 5 :]  # connections are made on the way
            for label, share in (("p50", 0.5), ("p99", 0.99)):
                self._note(f"latency, {label}", "", mode, "ms", percentile(settled, share) * 1000)

    def _read_with_spark(self) -> None:
        if self._spark is None or self._system.spark_options("") is None:
            return
        topic, values = "spark", self._values["100 B"]
        self._system.make_topic(topic, self._os_mode(), PARTITIONS)
        written = self._system.produce(
            self._system.writers[-1], topic, values, Limit(600, self._effort.spark_records)
        ).count
        self._check_stored(topic, written)
        options = self._system.spark_options(topic)
        assert options is not None
        for question, seconds in self._spark.ask(options, written, written * len(values[0])).items():
            self._note(f"Spark, {question}", "", None, "records/s", written / seconds)

    def _failover(self) -> None:
        mode = self._system.modes[0]
        self._system.make_topic("failover", mode, 1)
        self._note("failover", "", None, "s", self._system.failover("failover"))
