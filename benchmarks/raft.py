"""Measures Raft in three processes on this machine: `make bench-raft`, or `python benchmarks/raft.py --help`."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import lmdb
from measure import Aim, Result, percentile
from report import describe_machine, print_results, write_json

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.raft_processes import ProcessGone, RaftProcess, RaftProcesses, Refused

SIZE_BYTES = 200
IN_FLIGHT = (1, 16, 256)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done of everything."""

    rounds: int
    seconds: float
    kills: int


THOROUGH = Effort(rounds=7, seconds=2.0, kills=12)
QUICK = Effort(rounds=3, seconds=0.7, kills=4)


@dataclass(frozen=True, slots=True)
class Load:
    """What one measurement with so many proposals in flight gave."""

    latencies: list[float]
    seconds: float
    fsyncs: int

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds


@dataclass(slots=True)
class Round:
    """Everything once, one right after the other, because machines change from minute to minute."""

    commits: list[float]
    round_trips: list[float]
    loads: dict[int, Load]

    @property
    def bare_seconds(self) -> float:
        return median(self.commits) + median(self.round_trips)


# -- what things cost by themselves


def time_commits(environment: "lmdb.Environment", seconds: float) -> list[float]:
    """One durable transaction after another, each of one entry."""
    times: list[float] = []
    value = bytes(SIZE_BYTES)
    end = perf_counter() + seconds
    while (before := perf_counter()) < end:
        with environment.begin(write=True) as transaction:
            transaction.put(len(times).to_bytes(8, "big"), value)
        times.append(perf_counter() - before)
    return times


async def time_round_trips(node: RaftProcess, seconds: float) -> list[float]:
    """One message there and back after another, on one stream, between two processes."""
    times: list[float] = []
    message = bytes(SIZE_BYTES)
    connection, stream = await node.echo_stream()
    end = perf_counter() + seconds
    while (before := perf_counter()) < end:
        await stream.send(message)
        await stream.receive()
        times.append(perf_counter() - before)
    await connection.close()
    return times


# -- proposals


async def measure_round(cluster: RaftProcesses, environment: "lmdb.Environment", seconds: float) -> Round:
    leader = await cluster.until_led()
    commits = time_commits(environment, seconds / 2)
    round_trips = await time_round_trips(leader, seconds / 2)
    loads = {}
    for in_flight in IN_FLIGHT:
        measured = await leader.call("measure", in_flight=in_flight, seconds=seconds, size_bytes=SIZE_BYTES)
        loads[in_flight] = Load(**measured)
    return Round(commits, round_trips, loads)


def results_of(rounds: Sequence[Round]) -> list[Result]:
    section = f"Bare, {SIZE_BYTES} B, one at a time"
    results: list[Result] = []
    for name, samples in (
        ("LMDB durable commit", [each.commits for each in rounds]),
        ("gRPC round trip on a stream", [each.round_trips for each in rounds]),
    ):
        for share, label in ((0.5, "p50"), (0.99, "p99")):
            value = median(percentile(times, share) for times in samples)
            results.append(Result(section, f"{name}, {label}", value * 1000, "ms"))
    for in_flight in IN_FLIGHT:
        results.extend(_load_results(rounds, in_flight))
    return results


def _load_results(rounds: Sequence[Round], in_flight: int) -> list[Result]:
    section = f"Proposals of {SIZE_BYTES} B, {in_flight} in flight"
    loads = [each.loads[in_flight] for each in rounds]
    p50, p99 = (median(percentile(load.latencies, share) for load in loads) for share in (0.5, 0.99))
    per_fsync = median(len(load.latencies) / load.fsyncs for load in loads)
    is_single, is_crowd = in_flight == 1, in_flight == IN_FLIGHT[-1]
    ratio = median(percentile(each.loads[1].latencies, 0.5) / each.bare_seconds for each in rounds)
    single_aim = Aim(4, "4x of one commit + one round trip")
    fsync_aim = Aim(0.1, "at least 10 a fsync")
    return [
        Result(section, "proposals", median(load.rate for load in loads), "/s"),
        Result(
            section, "p50", p50 * 1000, "ms", ratio if is_single else None, single_aim if is_single else None
        ),
        Result(section, "p99", p99 * 1000, "ms"),
        Result(section, "fsyncs of the leader", median(load.fsyncs / load.seconds for load in loads), "/s"),
        Result(
            section, "fsyncs a proposal", 1 / per_fsync, "",
            aim=fsync_aim if is_crowd else None, note=f"{per_fsync:.1f} proposals a fsync",
        ),
    ]  # fmt: skip


# -- elections


async def measure_elections(cluster: RaftProcesses, kills: int) -> list[Result]:
    """From kill -9 of the leader to the first proposal that the next one has committed."""
    times = []
    for number in range(kills):
        leader = await cluster.until_led()
        survivors = [node for node in cluster.nodes.values() if node is not leader]
        for node in survivors:  # connected, and following
            await node.until(lambda status, leader=leader: status.get("leader") == leader.node_id)
        before = perf_counter()
        leader.kill()
        await _until_accepted(survivors, f"after-{number}")
        times.append(perf_counter() - before)
        leader.start()
        await leader.until(lambda status: status["role"] == "follower" and status["leader"] is not None)
    section = f"From kill -9 of the leader to the next commit, {kills} times"
    return [
        Result(section, "median", median(times) * 1000, "ms"),
        Result(section, "longest", max(times) * 1000, "ms", aim=Aim(1000, "1 s")),
    ]


async def _until_accepted(nodes: Sequence[RaftProcess], name: str) -> None:
    while True:
        for node in nodes:
            try:
                await node.call("propose", name=name)
                return
            except (Refused, ProcessGone):
                await asyncio.sleep(0.001)


# -- the whole


async def measure_everything(directory: Path, effort: Effort) -> list[Result]:
    bare = directory / "bare"
    bare.mkdir()
    async with RaftProcesses(directory) as cluster:
        cluster.start_all()
        await cluster.until_led()
        with lmdb.open(str(bare), map_size=1 << 30) as environment:
            # The first is forgotten: it warms caches and memory.
            rounds = [await measure_round(cluster, environment, effort.seconds) for _ in range(effort.rounds + 1)][1:]
        results = results_of(rounds)
        print_results(results)
        elections = await measure_elections(cluster, effort.kills)
        print_results(elections)
    return results + elections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: rough numbers in a few seconds")
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--dir", help="where the data goes while measuring (default: the system's temporary directory)")
    options = parser.parse_args()
    # A kill must leave neither data nor processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="lograft-bench-", dir=options.dir) as directory:
        machine = describe_machine(directory)
        print(machine)
        print(
            "Three processes, defaults, proposed at the leader. Medians of rounds in which everything takes its turn."
        )
        results = asyncio.run(measure_everything(Path(directory), QUICK if options.quick else THOROUGH))
    print(f"\nTook {perf_counter() - started:.0f} s.")
    if options.json is not None:
        write_json(options.json, machine, results)


if __name__ == "__main__":
    main()
