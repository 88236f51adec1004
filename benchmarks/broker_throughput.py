"""How much goes through a broker, beside what goes through a bare stream: records in, and records out."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from statistics import median
from time import perf_counter

from bare_stream import BareStream
from measure import MEBIBYTE, Aim, Result, Samples, megabytes_per_second, percentile, slowdown, take_turns
from raw_client import ProduceStream, Target, fetch, produce_messages, read_range, target_of
from samples import make_batches

from lograft import aio
from lograft.proto import log_pb2 as pb
from lograft.runtime.production.grpc_network import GrpcNetwork
from lograft.storage.batch.header import parse_header

RECORD_BYTES = 1024
SIZES = {"16 KiB": 16 * 1024, "128 KiB": 128 * 1024, "1 MiB": MEBIBYTE}
ACKS = {"1": pb.ACKS_LEADER, "all": pb.ACKS_ALL}
FLUSH_MODES = ("fsync", "os")
BARE = "bare stream"

_IN_FLIGHT_BYTES = 8 * MEBIBYTE
_MOST_IN_FLIGHT = 128
_LATENCY_BYTES_A_SECOND = 5_000_000
_NO_LIMIT = float("inf")


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured: a cluster, and a bare stream beside it."""

    bootstrap: str
    admin: aio.Admin
    bare: BareStream


@dataclass(frozen=True, slots=True)
class Workload:
    """One line of the table."""

    replicas: int
    acks: str
    flush_mode: str

    def __str__(self) -> str:
        return f"RF {self.replicas}, acks={self.acks}, {self.flush_mode}"

    def aim(self, size: str) -> Aim | None:
        match (self.replicas, self.acks, self.flush_mode, size):
            case (1, "1", _, "1 MiB"):
                return Aim(2.0, "half of the bare stream")
            case (3, "all", "os", "1 MiB"):
                return Aim(5.0, "a fifth of the bare stream")
        return None


WORKLOADS = [Workload(*each) for each in product((1, 3), ACKS, FLUSH_MODES)]


def _in_flight(size_bytes: int) -> int:
    return min(_IN_FLIGHT_BYTES // size_bytes, _MOST_IN_FLIGHT)


# -- topics


@asynccontextmanager
async def topic(bench: Bench, replicas: int, flush_mode: str) -> AsyncIterator[Target]:
    """A topic of one partition with one small record, led by the first broker, and a connection there."""
    name = f"rf-{replicas}-{flush_mode}"
    await bench.admin.create_topic(
        name,
        assignments=[range(1, 1 + replicas)],
        config={"flush.mode": flush_mode, "segment.bytes": str(256 * MEBIBYTE)},
    )
    async with aio.Producer(bench.bootstrap) as producer:  # which tries until the leader is there
        await (await producer.send(name, b""))
    description = await bench.admin.describe_cluster([name])
    addresses = {broker.id: broker.address for broker in description.brokers}
    leader = description.topics[0].partitions[0].leader
    assert leader is not None
    connection = await GrpcNetwork().connect(addresses[leader])
    try:
        yield target_of(description.topics[0], 0, connection)
    finally:
        await connection.close()
        await bench.admin.delete_topic(name)


# -- in


async def measure_producing(bench: Bench, size: str, seconds: float, rounds: int) -> list[Result]:
    size_bytes = SIZES[size]
    in_flight = _in_flight(size_bytes)
    batches = make_batches(RECORD_BYTES, size_bytes)
    bytes_each = len(batches[0])
    records_each = parse_header(batches[0]).record_count

    async def bare_rate() -> float:
        return await bench.bare.messages_per_second(bytes_each, in_flight, seconds)

    def contender(workload: Workload) -> Callable[[], Awaitable[float]]:
        async def rate() -> float:
            # A topic each time: nothing is measured among what the last turn left behind.
            async with topic(bench, workload.replicas, workload.flush_mode) as target:
                messages = produce_messages(target, batches, ACKS[workload.acks])
                await ProduceStream(target, messages).at_most(in_flight, seconds / 4)
                return await ProduceStream(target, messages).at_most(in_flight, seconds)

        return rate

    names = {str(workload): workload for workload in WORKLOADS}
    samples = await take_turns(
        rounds, {BARE: bare_rate, **{name: contender(workload) for name, workload in names.items()}}
    )
    section = f"Producing, batches of {size}, {in_flight} on their way (ratio: to the bare stream)"
    results = [_line(section, BARE, samples, bytes_each, records_each, None)]
    for name, workload in names.items():
        results.append(_line(section, name, samples, bytes_each, records_each, workload.aim(size)))
    if size == "16 KiB":
        rate = median(samples[str(Workload(3, "all", "os"))])
        results.append(
            Result(section, "requests, RF 3, acks=all, os", rate, "/s", aim=Aim(_NO_LIMIT, "3,000/s", at_least=3000))
        )
    return results


def _line(section: str, name: str, samples: Samples, bytes_each: int, records_each: int, aim: Aim | None) -> Result:
    rate = median(samples[name])
    ratio = None if name == BARE else slowdown(samples, name, BARE)
    note = f"{rate:,.0f} requests/s, {rate * records_each:,.0f} records/s"
    return Result(section, name, megabytes_per_second(bytes_each, 1 / rate), "MB/s", ratio, aim, note)


# -- out


async def measure_reading(bench: Bench, total_bytes: int, rounds: int) -> list[Result]:
    """What was written just now, and is in the page cache."""
    batches = make_batches(RECORD_BYTES, MEBIBYTE)
    async with topic(bench, 1, "os") as target:
        messages = produce_messages(target, batches, pb.ACKS_LEADER)
        count = total_bytes // len(batches[0])
        written = 0
        while written < count:
            stream = ProduceStream(target, messages)
            await stream.at_most(_in_flight(MEBIBYTE), 0.25)
            written += len(stream.latencies)
        end = count * parse_header(batches[0]).record_count

        def contender(read: Callable[[Target, int, int], Awaitable[int]]) -> Callable[[], Awaitable[float]]:
            async def rate() -> float:
                started = perf_counter()
                received = await read(target, 1, 1 + end)
                assert received >= count * len(batches[0])
                return received / (perf_counter() - started)

            return rate

        samples = await take_turns(
            rounds,
            {
                BARE: lambda: bench.bare.bytes_per_second(MEBIBYTE, total_bytes),
                "ReadRange": contender(read_range),
                "Fetch": contender(fetch),
            },
        )
    section = f"Reading {total_bytes // MEBIBYTE} MiB, batches of 1 MiB (ratio: to the bare stream)"
    aims = {"ReadRange": Aim(1 / 0.6, "60 % of the bare stream")}
    return [
        Result(
            section,
            name,
            median(rates) / 1e6,
            "MB/s",
            None if name == BARE else slowdown(samples, name, BARE),
            aims.get(name),
        )
        for name, rates in samples.items()
    ]


# -- how long it takes


async def measure_latency(bench: Bench, seconds: float, rounds: int) -> list[Result]:
    """At a rate that leaves the machine time to breathe."""
    size_bytes = SIZES["16 KiB"]
    batches = make_batches(RECORD_BYTES, size_bytes)
    rate = _LATENCY_BYTES_A_SECOND / len(batches[0])
    section = f"Latency at 5 MB/s, batches of 16 KiB ({rate:.0f} a second), RF 3, acks=all"
    latencies: dict[str, list[float]] = {flush_mode: [] for flush_mode in FLUSH_MODES}
    for turn in range(rounds + 1):
        for flush_mode in FLUSH_MODES:
            async with topic(bench, 3, flush_mode) as target:
                stream = ProduceStream(target, produce_messages(target, batches, pb.ACKS_ALL))
                await stream.at_rate(rate, seconds)
            if turn:
                latencies[flush_mode] += stream.latencies
    return [
        Result(section, f"{flush_mode}, {label}", percentile(latencies[flush_mode], share) * 1000, "ms")
        for flush_mode in FLUSH_MODES
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]
