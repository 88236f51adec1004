"""Measures the batch codec and the partition log: `make bench-storage`, or `python benchmarks/storage.py --help`."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass
from time import perf_counter

from appending import measure_appends, measure_small_appends
from codec import measure_codec, measure_compression
from disk import open_bench
from measure import MEBIBYTE, Result, warm_memory
from opening import measure_opening, measure_recovery
from reading import measure_reads
from report import Neighbours, describe_machine, print_results, write_json

from lograft.runtime.process.allocator import keep_freed_memory

RECORD_SIZES = ((100, "100 B"), (1024, "1 KiB"))


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done of everything."""

    rounds: int
    fsync_rounds: int
    os_batches: int
    fsync_batches: int
    log_bytes: int
    partitions: int
    warm_bytes: int


THOROUGH = Effort(
    rounds=9,
    fsync_rounds=5,
    os_batches=192,
    fsync_batches=96,
    log_bytes=192 * MEBIBYTE,
    partitions=1000,
    warm_bytes=1024 * MEBIBYTE,
)
QUICK = Effort(
    rounds=3,
    fsync_rounds=3,
    os_batches=48,
    fsync_batches=32,
    log_bytes=64 * MEBIBYTE,
    partitions=200,
    warm_bytes=256 * MEBIBYTE,
)


async def measure_everything(directory: str, effort: Effort) -> list[Result]:
    """Prints each table as soon as it is known."""
    results: list[Result] = []

    async def show(measuring: Awaitable[list[Result]]) -> None:
        neighbours = Neighbours()
        found = await measuring
        print_results(found)
        print(f"  (meanwhile other processes used {neighbours.cores_used():.1f} cores)", flush=True)
        results.extend(found)

    warm_memory(effort.warm_bytes)
    for size, label in RECORD_SIZES:
        await show(measure_codec(size, label, effort.rounds))
    for size, label in RECORD_SIZES:
        await show(measure_compression(size, label, 3))
    async with open_bench(directory, is_counting=True) as bench:
        for size, label in RECORD_SIZES:
            amounts = (effort.os_batches, effort.fsync_batches, effort.rounds, effort.fsync_rounds)
            await show(measure_appends(bench, size, label, *amounts))
        await show(measure_small_appends(bench, effort.os_batches * 16, effort.fsync_batches * 16, 3))
        await show(measure_recovery(bench, MEBIBYTE, "1 MiB", effort.log_bytes, 3))
        await show(measure_recovery(bench, 16 * 1024, "16 KiB", effort.log_bytes, 3))
        await show(measure_opening(bench, effort.partitions))
    async with open_bench(directory, is_counting=False) as bench:
        for size, label in RECORD_SIZES:
            await show(measure_reads(bench, size, label, MEBIBYTE, "1 MiB", effort.log_bytes, effort.rounds))
        await show(measure_reads(bench, 100, "100 B", 16 * 1024, "16 KiB", effort.log_bytes, effort.rounds))
    return results


def main() -> None:
    options = _parse_options()
    # A kill must not leave the data behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    keep_freed_memory()
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="lograft-bench-", dir=options.dir) as directory:
        machine = describe_machine(directory)
        print(machine)
        print("Medians of interleaved rounds. MB is 10^6 bytes. `x`: so many times slower than the bare loop above it.")
        results = asyncio.run(measure_everything(directory, QUICK if options.quick else THOROUGH))
    print(f"\nTook {perf_counter() - started:.0f} s.")
    if options.json is not None:
        write_json(options.json, machine, results)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: rough numbers in a few seconds")
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--dir", help="where the data goes while measuring (default: the system's temporary directory)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
