"""What each trial of a client's speed is made of: a topic, records, a clock; and lines of the report made of them."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from time import perf_counter, process_time
from typing import Any

from confluent import Confluent
from measure import MEGABYTE, Aim, Result, take_turns
from samples import make_sample

from lograft import Admin

SIZES = {"100 B": 100, "1 KiB": 1024}
PARTITIONS = 4
_NO_LIMIT = float("inf")


@dataclass(frozen=True)
class Records:
    """Values of one size, as many as a trial sends: as a list and as an Arrow array."""

    size: str
    count: int

    @cached_property
    def values(self) -> list[bytes]:
        some = [
            key + value
            for sample in [make_sample(self.bytes_each)]
            for key, value in zip(sample.keys, sample.values, strict=True)
        ]
        return (some * (self.count // len(some) + 1))[: self.count]

    @cached_property
    def arrow(self) -> Any:
        import pyarrow as pa

        return pa.array(self.values, pa.binary())

    @property
    def bytes_each(self) -> int:
        return SIZES[self.size]


@dataclass(frozen=True)
class Bench:
    """Where to: our cluster, and theirs."""

    bootstrap: str
    admin: Admin
    confluent: Confluent
    rounds: int

    @contextmanager
    def topic(self, replicas: int) -> Iterator[str]:
        """A topic of its own for each trial: nothing is measured among what the last one left behind. The page cache is
        trusted, as Kafka does: mock brokers have no disk at all."""
        name = f"bench-{perf_counter():.6f}"
        self.admin.create_topic(name, partitions=PARTITIONS, replicas=replicas, config={"flush.mode": "os"})
        yield name
        self.admin.delete_topic(name)


@dataclass(frozen=True, slots=True)
class Trial:
    """How long one took, and how much of the processors the client's process used."""

    records: int
    seconds: float
    processor_seconds: float


def timed(count: int, work: Callable[[], object]) -> Trial:
    started, used = perf_counter(), process_time()
    work()
    return Trial(count, perf_counter() - started, process_time() - used)


async def compare(
    bench: Bench,
    contenders: Mapping[str, Callable[[], Trial]],
    baseline: str,
    aims: Mapping[str, float],
    size: str,
    what: str,
) -> list[Result]:
    """A line for each contender: its rate, and how many times that of the `baseline` it is."""
    trials: dict[str, list[Trial]] = {name: [] for name in contenders}

    def turn(name: str) -> Callable[[], Awaitable[float]]:
        async def rate() -> float:
            trial = contenders[name]()
            trials[name].append(trial)
            return trial.records / trial.seconds

        return rate

    samples = await take_turns(bench.rounds, {name: turn(name) for name in contenders})
    return [
        _line(name, samples[name], samples[baseline], trials[name][1:], aims.get(name), size, what)
        for name in contenders
    ]


def _line(
    name: str, rates: list[float], baseline: list[float], trials: list[Trial], aim: float | None, size: str, what: str
) -> Result:
    rate = median(rates)
    megabytes = rate * SIZES[size] / MEGABYTE
    processor = median(trial.processor_seconds / trial.records for trial in trials) * 1e6
    return Result(
        f"{what}, records of {size}",
        name,
        rate,
        "records/s",
        ratio=median(own / theirs for own, theirs in zip(rates, baseline, strict=True)),
        aim=None if aim is None else Aim(_NO_LIMIT, f"{aim:g}x of confluent-kafka", at_least=aim),
        note=f"{megabytes:.0f} MB/s, {processor:.2f} CPU s a million",
    )
