"""Measures the Python clients beside confluent-kafka, on this machine: `make bench-clients`, or with `--help`."""

import argparse
import asyncio
import contextlib
import io
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from client_ceiling import Ceiling, ceiling
from client_consuming import measure_consuming
from client_latency import measure_latency
from client_producing import measure_producing
from client_trials import SIZES, Bench, Records
from confluent import Confluent
from local_cluster import MeasuredCluster
from measure import MEBIBYTE, Result, warm_memory
from report import describe_machine, print_results, write_json

from lograft import Admin

Part = Callable[[Bench, Ceiling, Records], Awaitable[list[Result]]]

PARTS: dict[str, Part] = {"produce": measure_producing, "consume": measure_consuming, "latency": measure_latency}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done of everything."""

    rounds: int
    trial_bytes: int
    warm_bytes: int


THOROUGH = Effort(rounds=5, trial_bytes=256 * MEBIBYTE, warm_bytes=8192 * MEBIBYTE)
QUICK = Effort(rounds=3, trial_bytes=128 * MEBIBYTE, warm_bytes=2048 * MEBIBYTE)
_MOST_RECORDS = 1_000_000


async def measure_everything(
    directory: Path, port: int, parts: list[str], sizes: list[str], effort: Effort
) -> list[Result]:
    results: list[Result] = []
    with (
        MeasuredCluster(directory, 3, port) as cluster,
        Admin(cluster.bootstrap) as admin,
        Confluent() as confluent,
        ceiling(f"127.0.0.1:{port + 55}") as the_ceiling,
    ):
        print(f"Against {confluent.versions} and its mock broker.")
        bench = Bench(cluster.bootstrap, admin, confluent, effort.rounds)
        for part in parts:
            for size in sizes:
                records = Records(size, min(effort.trial_bytes // SIZES[size], _MOST_RECORDS))
                lines = await PARTS[part](bench, the_ceiling, records)
                print_results(lines)
                results += lines
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: rough numbers in a minute")
    parser.add_argument("--only", action="append", choices=PARTS, help="these parts only; may be given again")
    parser.add_argument("--size", action="append", choices=SIZES, help="records of this size only; may be given again")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="what is printed")
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--dir", help="where the data goes while measuring (default: the system's temporary directory)")
    parser.add_argument("--port", type=int, default=16092, help="the first of some forty ports (default: 16092)")
    options = parser.parse_args()
    # A kill must leave neither data nor processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    effort = QUICK if options.quick else THOROUGH
    started = perf_counter()
    is_json = options.output == "json"
    with (
        tempfile.TemporaryDirectory(prefix="lograft-bench-", dir=options.dir) as directory,
        contextlib.redirect_stdout(io.StringIO() if is_json else sys.stdout),
    ):
        machine = describe_machine(directory)
        print(machine)
        print(
            "Three nodes, with the clients on the same machine. Medians of rounds in which everything takes its turn."
        )
        warm_memory(effort.warm_bytes)
        results = asyncio.run(
            measure_everything(
                Path(directory), options.port, options.only or list(PARTS), options.size or list(SIZES), effort
            )
        )
        print(f"\nTook {perf_counter() - started:.0f} s.")
    if options.json is not None:
        write_json(options.json, machine, results)
    if is_json:
        write_json("/dev/stdout", machine, results)


if __name__ == "__main__":
    main()
