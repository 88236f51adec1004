"""Measures three brokers with plain streams, on this machine: `make bench-broker`, or with `--help`."""

import argparse
import asyncio
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bare_stream import BareStream
from broker_life import measure_failover, measure_first_write, measure_idle
from broker_throughput import SIZES, Bench, measure_latency, measure_producing, measure_reading
from local_cluster import MeasuredCluster
from measure import MEBIBYTE, Result, warm_memory
from report import describe_machine, print_results, write_json

from lograft import aio
from lograft.runtime.process.allocator import keep_freed_memory

SECTIONS = ("idle", "producing", "latency", "reading", "failover")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done of everything."""

    rounds: int
    seconds: float
    idle_seconds: float
    kills: int
    read_bytes: int
    warm_bytes: int


THOROUGH = Effort(
    rounds=5, seconds=1.0, idle_seconds=30, kills=7, read_bytes=1024 * MEBIBYTE, warm_bytes=8192 * MEBIBYTE
)
QUICK = Effort(rounds=2, seconds=0.4, idle_seconds=10, kills=2, read_bytes=256 * MEBIBYTE, warm_bytes=2048 * MEBIBYTE)


async def measure_everything(
    directory: Path, port: int, sections: tuple[str, ...], sizes: list[str], effort: Effort
) -> list[Result]:
    results: list[Result] = []

    def report(more: list[Result]) -> None:
        print_results(more)
        results.extend(more)

    with MeasuredCluster(directory, 3, port) as cluster:
        async with aio.Admin(cluster.bootstrap) as admin, BareStream(f"127.0.0.1:{port + 9}") as bare:
            bench = Bench(cluster.bootstrap, admin, bare)
            report(await measure_first_write(cluster, admin))
            if "idle" in sections:
                report(await measure_idle(cluster, admin, effort.idle_seconds))
            for size in sizes if "producing" in sections else ():
                report(await measure_producing(bench, size, effort.seconds, effort.rounds))
            if "latency" in sections:
                report(await measure_latency(bench, effort.seconds * 2, effort.rounds))
            if "reading" in sections:
                report(await measure_reading(bench, effort.read_bytes, effort.rounds))
            if "failover" in sections:
                report(await measure_failover(cluster, admin, effort.kills))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: rough numbers in two minutes")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="these parts only; may be given again")
    parser.add_argument("--size", action="append", choices=SIZES, help="batches of this size only; may be given again")
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--dir", help="where the data goes while measuring (default: the system's temporary directory)")
    parser.add_argument("--port", type=int, default=15092, help="the first of some thirty ports (default: 15092)")
    options = parser.parse_args()
    # A kill must leave neither data nor processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    effort = QUICK if options.quick else THOROUGH
    keep_freed_memory()
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="lograft-bench-", dir=options.dir) as directory:
        machine = describe_machine(directory)
        print(machine)
        print("Three nodes, with the client on the same machine. Medians of rounds in which everything takes its turn.")
        warm_memory(effort.warm_bytes)
        sections = tuple(options.only or SECTIONS)
        results = asyncio.run(
            measure_everything(Path(directory), options.port, sections, options.size or list(SIZES), effort)
        )
    print(f"\nTook {perf_counter() - started:.0f} s.")
    if options.json is not None:
        write_json(options.json, machine, results)


if __name__ == "__main__":
    main()
