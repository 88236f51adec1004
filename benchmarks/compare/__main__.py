"""Measures lograft beside Kafka, NATS JetStream and Redis Streams, on this machine: `make bench-compare`."""

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep
from types import FrameType

from measure import MEBIBYTE, warm_memory
from report import Neighbours, describe_machine

from compare import chart, obtaining, table
from compare.failures import CannotRun
from compare.kafka_system import KafkaSystem
from compare.lograft_system import LograftSystem
from compare.nats_system import NatsSystem
from compare.redis_system import RedisSystem
from compare.results import Results, UnknownResults, read_results, to_json
from compare.spark_reading import SparkReading
from compare.system import System
from compare.workloads import PARTS, QUICK, SIZES, THOROUGH, TINY, Effort, Visit, make_values

SYSTEMS: dict[str, Callable[[], System]] = {
    "lograft": LograftSystem,
    "kafka": lambda: KafkaSystem(obtaining.find_kafka()),
    "nats": lambda: NatsSystem(obtaining.find_nats()),
    "redis": lambda: RedisSystem(obtaining.find_redis()),
}
EFFORTS = {"thorough": THOROUGH, "quick": QUICK, "tiny": TINY}
DOCS = Path(__file__).resolve().parents[2] / "docs"
_LISTEN_SECONDS = 2.0
_WARM_BYTES = 2048 * MEBIBYTE


def find_systems(names: list[str], results: Results) -> list[System]:
    """Those that can be had; the others are named as skipped."""
    found: list[System] = []
    for name in names:
        try:
            system = SYSTEMS[name]()
            results.versions[system.name] = system.versions()
        except (CannotRun, ImportError) as error:
            results.skipped[name] = str(error)
            print(f"Skipped: {name}: {error}", flush=True)
        else:
            found.append(system)
    return found


def open_spark(directory: Path, systems: list[System], results: Results) -> SparkReading | None:
    jars: list[Path] = []
    if any(system.name == "Kafka" for system in systems):
        try:
            source = obtaining.find_spark_source()
            jars = source.jars
            results.versions["Spark's Kafka source"] = source.description
        except CannotRun as error:
            results.skipped["Spark's Kafka source"] = str(error)
            print(f"Skipped: Spark's Kafka source: {error}", flush=True)
    try:
        return SparkReading(directory, jars)
    except CannotRun as error:
        results.skipped["Spark"] = str(error)
        print(f"Skipped: {error}", flush=True)
        return None


@contextlib.contextmanager
def stopped(system: System) -> Iterator[None]:
    try:
        yield
    finally:
        system.stop()


def measure_rounds(
    systems: list[System], parts: list[str], effort: Effort, minutes: float | None, directory: Path, results: Results
) -> None:
    """Every other round goes backwards, so that none always finds what the same one leaves behind."""
    started = perf_counter()
    values = {size: make_values(size_bytes) for size, size_bytes in SIZES.items()}
    spark = open_spark(directory, systems, results) if "spark" in parts else None
    try:
        longest = 0.0
        for number in range(effort.rounds):
            if minutes is not None and number and perf_counter() - started + longest > minutes * 60:
                print(f"No time for another round: {number} were made.", flush=True)
                break
            began = perf_counter()
            results.others_cores.append(listen())
            for system in systems[::-1] if number % 2 else systems:
                measure_visit(Visit(system, number, effort, values, spark), system, parts, directory, results)
            longest = max(longest, perf_counter() - began)
    finally:
        if spark is not None:
            spark.close()


def listen() -> float:
    """How many cores others keep busy while we do nothing."""
    neighbours = Neighbours()
    sleep(_LISTEN_SECONDS)
    return neighbours.cores_used()


def measure_visit(visit: Visit, system: System, parts: list[str], directory: Path, results: Results) -> None:
    began = perf_counter()
    with tempfile.TemporaryDirectory(dir=directory, ignore_cleanup_errors=True) as home, stopped(system):
        visit.run(Path(home), parts)
    results.samples += visit.samples
    results.failures += visit.failures
    print(f"\n{system.name}, {perf_counter() - began:.0f} s", flush=True)
    for sample in visit.samples:
        how = ", ".join(part for part in (sample.how, sample.setting) if part)
        print(f"  {sample.workload:<24} {how:<48} {table.number(sample.value):>10} {sample.unit}", flush=True)
    for failure in visit.failures:
        print(f"  FAILED: {failure}", flush=True)


def render(results: Results, page: Path | None) -> None:
    if page is None:
        print("\n" + table.markdown(results))
        return
    page.write_text(table.put_into(page.read_text(), table.markdown(results)))
    picture = page.with_suffix(".png")
    try:
        chart.draw(results, picture)
    except ImportError:
        print("No chart: install matplotlib (`pip install lograft[bench]`).")
        return
    print(f"\nWrote {page} and {picture}.")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m compare", description=__doc__)
    parser.add_argument("--quick", action="store_const", const="quick", dest="effort", help="less of everything")
    parser.add_argument("--effort", choices=EFFORTS, default="thorough", help="tiny only shows that everything works")
    parser.add_argument("--only", action="append", choices=PARTS, help="these parts only; may be given again")
    parser.add_argument("--systems", help=f"with commas between, of: {', '.join(SYSTEMS)} (default: all)")
    parser.add_argument("--rounds", type=int, help="how many, at most")
    parser.add_argument("--minutes", type=float, help="begin no round that would not end within this time")
    parser.add_argument("-o", "--output", nargs=2, metavar=("json", "FILE"), help="write the results to a file, too")
    parser.add_argument("--from", dest="source", metavar="FILE", help="measure nothing: make chart and table of this")
    parser.add_argument("--page", type=Path, help="put the table into this page, and the chart beside it")
    parser.add_argument(
        "--docs", action="store_const", const=DOCS / "performance.md", dest="page", help="the same, docs/performance.md"
    )
    parser.add_argument("--dir", help="where the data goes while measuring (default: the system's temporary directory)")
    options = parser.parse_args()
    if options.output is not None and options.output[0] != "json":
        parser.error(f"-o {options.output[0]}: only json is known; give -o json FILE")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: give at least 1")
    options.systems = (options.systems or ",".join(SYSTEMS)).split(",")
    unknown = [name for name in options.systems if name not in SYSTEMS]
    if unknown:
        parser.error(f"--systems: there is no {unknown[0]!r}; choose of {', '.join(SYSTEMS)}")
    return options


def main() -> None:
    options = _parse()
    if options.source is not None:
        try:
            results = read_results(Path(options.source))
        except (OSError, UnknownResults) as error:
            raise SystemExit(f"{options.source} cannot be used: {error}") from None
        render(results, options.page)
        return
    results = measure(options)
    if options.output is not None:
        Path(options.output[1]).write_text(to_json(results))
    if results.samples:
        render(results, options.page)
    raise SystemExit(1 if results.failures or not results.samples else 0)


def measure(options: argparse.Namespace) -> Results:
    # A kill must leave neither data nor processes behind.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a script it would be ignored
    effort = EFFORTS[options.effort]
    if options.rounds is not None:
        effort = replace(effort, rounds=options.rounds)
    started = perf_counter()
    with tempfile.TemporaryDirectory(
        prefix="lograft-compare-", dir=options.dir, ignore_cleanup_errors=True
    ) as directory:
        began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        results = Results(describe_machine(directory), options.effort, began)
        print(results.machine, flush=True)
        systems = find_systems(options.systems, results)
        if options.effort != "tiny":
            warm_memory(_WARM_BYTES)
        measure_rounds(systems, options.only or list(PARTS), effort, options.minutes, Path(directory), results)
    print(f"\nTook {perf_counter() - started:.0f} s.", flush=True)
    return results


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
