"""What each contender has to be able to do, and what is measured of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Protocol, Self

from compare.servers import Servers

PARTITIONS = 4
"""Of the topics that throughput is measured on. What has no partitions gets as many streams."""

REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Mode:
    """How durable an acknowledged record is. `durability` is `fsync` (on the disks of the replicas) or `os` (in their
    memory; the operating system writes it some time). Only what is equal is compared."""

    durability: str
    label: str


@dataclass(frozen=True, slots=True)
class Amount:
    """So many records, in so many seconds."""

    count: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds


@dataclass(slots=True)
class Limit:
    """How much is sent: for so many seconds, but no more than so many records."""

    seconds: float
    records: int
    deadline: float = 0.0

    def begun(self) -> Self:
        """The clock runs from here."""
        self.deadline = perf_counter() + self.seconds
        return self

    def pieces(self, values: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
        """`values` in pieces of that size, over and over, until it is enough."""
        sent = 0
        for start in cycle(range(0, len(values), size)):
            if perf_counter() >= self.deadline or sent >= self.records:
                return
            piece = values[start : start + min(size, self.records - sent)]
            sent += len(piece)
            yield piece


class System(Protocol):
    """Three server processes or more on this machine, and clients for them."""

    name: str
    modes: Sequence[Mode]
    writers: Sequence[str]
    """Ways to produce; the first takes records one by one."""
    readers: Sequence[str]
    servers: Servers

    def versions(self) -> str: ...

    def start(self, directory: Path) -> float:
        """Seconds from nothing to the first write that is acknowledged by all replicas."""

    def make_topic(self, name: str, mode: Mode, partitions: int) -> None: ...

    def produce(self, writer: str, topic: str, values: Sequence[bytes], limit: Limit) -> Amount:
        """Send `values`, over and over, and wait until the last is acknowledged."""

    def stored(self, topic: str) -> int:
        """How many records there are. `failures.Wrong` if a replica is missing or behind."""

    def consume(self, reader: str, topic: str, count: int, seconds: float) -> Amount:
        """Read from the beginning until there are `count`, or that time is over."""

    def latencies(self, topic: str, size_bytes: int, rate: float, seconds: float) -> list[float]:
        """Of each record, sent at this rate, the seconds from when it was due to when a consumer has it."""

    def failover(self, topic: str) -> float:
        """Kill -9 whoever leads the topic's only partition, under load: the longest time without acknowledgement."""

    def spark_options(self, topic: str) -> dict[str, str] | None:
        """For `spark.read`, `format` included; None if Spark has no source for it."""

    def stop(self) -> None:
        """At once; nothing of it is needed any more. May be called at any time."""
