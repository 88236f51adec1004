"""Measures Spark reading from and writing to a cluster, on this machine: `make bench-spark`, or with `--help`.

Beside it, in the same run: the same rows from a Parquet file, which is the ceiling that users know, and from a data
source that makes them up with no IO at all, which is the ceiling of Spark's Python data sources.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from local_cluster import MeasuredCluster
from measure import MEBIBYTE, Aim, Result, megabytes_per_second, slowdown, take_turns, warm_memory
from processor_time import seconds_below
from report import Neighbours, describe_machine, print_results, write_json
from spark_rows import MadeUpSource, made_up_values

from lograft import Admin, Producer

PARTITIONS = 4
LOGRAFT, MADE_UP, PARQUET = "lograft", "rows made up, no IO", "Parquet file"
_AIM = 0.7


@dataclass(frozen=True, slots=True)
class Size:
    """So many records of so many bytes."""

    count: int
    value_bytes: int

    def __str__(self) -> str:
        return f"{self.count / 1e6:g} M records of {self.value_bytes} B"


THOROUGH = (Size(10_000_000, 100), Size(1_000_000, 1024))
QUICK = (Size(1_000_000, 100), Size(200_000, 1024))


def count_rows(frame: Any) -> None:
    frame.count()


def sum_lengths(frame: Any) -> None:
    from pyspark.sql import functions as F

    frame.select(F.sum(F.length("value"))).collect()


def group_rows(frame: Any) -> None:
    from pyspark.sql import functions as F

    frame.groupBy(F.substring("value", 1, 1)).agg(F.count("*"), F.max("offset")).collect()


QUESTIONS: Mapping[str, Callable[[Any], None]] = {
    "count": count_rows, "sum(length(value))": sum_lengths, "group by": group_rows
}  # fmt: skip


def open_spark(directory: Path) -> Any:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # for the workers, which import the source of made-up rows
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(directory / "spark"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(MadeUpSource)
    return spark


def fill(bootstrap: str, topic: str, size: Size) -> None:
    """A quarter of the records in each partition."""
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=PARTITIONS, replicas=1)
    values = made_up_values(size.value_bytes, 50_000)
    each = size.count // PARTITIONS
    with Producer(bootstrap) as producer:
        for partition in range(PARTITIONS):
            for start in range(0, each, len(values)):
                producer.send_many(topic, values.slice(0, min(len(values), each - start)), partition=partition)


def reading(spark: Any, bootstrap: str, topic: str, size: Size, parquet: Path) -> Mapping[str, Callable[[], Any]]:
    """How each contender gets its rows."""
    from_topic = spark.read.format("lograft").option("lograft.bootstrap.servers", bootstrap).option("subscribe", topic)
    from_topic.load().write.parquet(str(parquet))
    made_up = spark.read.format("made_up").option("count", size.count).option("bytes", size.value_bytes)
    return {
        MADE_UP: made_up.option("partitions", PARTITIONS).load,
        LOGRAFT: from_topic.load,
        PARQUET: lambda: spark.read.parquet(str(parquet)),
    }


async def measure_reading(
    frames: Mapping[str, Callable[[], Any]], cluster: MeasuredCluster, size: Size, rounds: int
) -> list[Result]:
    """Also what a row takes of the processors, of Spark, its workers and the node together."""
    results = []
    for question, ask in QUESTIONS.items():
        processor: dict[str, list[float]] = {name: [] for name in frames}

        async def contender(
            name: str, load: Callable[[], Any], ask: Callable[[Any], None], spent: dict[str, list[float]]
        ) -> float:
            spent_before, started = processor_seconds(cluster), perf_counter()
            ask(load())
            seconds = perf_counter() - started
            spent[name].append((processor_seconds(cluster) - spent_before) / size.count)
            return size.count / seconds

        samples = await take_turns(
            rounds, {name: partial(contender, name, load, ask, processor) for name, load in frames.items()}
        )
        each = {name: median(spent[1:]) for name, spent in processor.items()}  # without the round that warms up
        for name in frames:
            rate = median(samples[name])
            megabytes = megabytes_per_second(int(rate) * size.value_bytes, 1)
            share = f"; {each[MADE_UP] / each[name]:.0%} by processor time" if name == LOGRAFT else ""
            ratio = None if name == MADE_UP else slowdown(samples, name, MADE_UP)
            aim = Aim(1 / _AIM, "70 % of the API's ceiling") if name == LOGRAFT else None
            results.append(
                Result(
                    f"Reading {size}, {question} (ratio: to {MADE_UP})",
                    name,
                    rate / 1e6,
                    "M rows/s",
                    ratio,
                    aim,
                    f"{megabytes:,.0f} MB/s, {each[name] * 1e9:,.0f} ns of processor time a row{share}",
                )
            )
    return results


def processor_seconds(cluster: MeasuredCluster) -> float:
    """Of Spark, its workers, and the nodes, which are not our children."""
    return seconds_below(os.getpid()) + cluster.processor_seconds()


async def measure_writing(spark: Any, bootstrap: str, size: Size, rounds: int) -> list[Result]:
    """Rows that are made up, to topics of their own."""
    count = size.count // 5
    rows = (
        spark.read.format("made_up").option("count", count).option("bytes", size.value_bytes).option("partitions", 2)
    ).schema("value binary")
    topics = iter(range(1000))

    async def contender(options: Mapping[str, str]) -> float:
        topic = f"written-{size.value_bytes}-{next(topics)}"
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, partitions=PARTITIONS, replicas=1)
        started = perf_counter()
        writer = rows.load().write.format("lograft").option("lograft.bootstrap.servers", bootstrap)
        writer.option("topic", topic).options(**options).mode("append").save()
        return count / (perf_counter() - started)

    async def to_nowhere() -> float:
        started = perf_counter()
        rows.load().write.format("noop").mode("append").save()
        return count / (perf_counter() - started)

    nowhere, plain, exactly = "rows made up, to nowhere", "lograft, by the tasks", "lograft, exactlyOnce"
    samples = await take_turns(
        rounds,
        {nowhere: to_nowhere, plain: partial(contender, {}), exactly: partial(contender, {"exactlyOnce": "true"})},
    )
    return [
        Result(
            f"Writing {count / 1e6:g} M records of {size.value_bytes} B, RF 1, acks=all (ratio: to nowhere)",
            name,
            median(samples[name]) / 1e6,
            "M rows/s",
            None if name == nowhere else slowdown(samples, name, nowhere),
            note=f"{megabytes_per_second(int(median(samples[name])) * size.value_bytes, 1):,.0f} MB/s",
        )
        for name in samples
    ]


async def measure_everything(directory: Path, port: int, sizes: tuple[Size, ...], rounds: int) -> list[Result]:
    results: list[Result] = []
    spark = open_spark(directory)
    try:
        with MeasuredCluster(directory / "cluster", 1, port) as cluster:
            for number, size in enumerate(sizes):
                fill(cluster.bootstrap, f"rows-{number}", size)
                frames = reading(spark, cluster.bootstrap, f"rows-{number}", size, directory / f"parquet-{number}")
                for more in (
                    await measure_reading(frames, cluster, size, rounds),
                    await measure_writing(spark, cluster.bootstrap, size, rounds),
                ):
                    print_results(more)
                    results += more
    finally:
        spark.stop()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer records, fewer rounds")
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--dir", help="where the data goes while measuring (default: the system's temporary directory)")
    parser.add_argument("--port", type=int, default=15092, help="the first of some thirty ports (default: 15092)")
    options = parser.parse_args()
    # A kill must leave neither data nor processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="lograft-bench-", dir=options.dir) as directory:
        machine = describe_machine(directory)
        print(machine)
        print("Spark local[2] and one node on the same machine. Medians of rounds in which everything takes its turn.")
        warm_memory((512 if options.quick else 8192) * MEBIBYTE)
        neighbours = Neighbours()
        sizes, rounds = (QUICK, 2) if options.quick else (THOROUGH, 3)
        results = asyncio.run(measure_everything(Path(directory), options.port, sizes, rounds))
    print(f"\nOthers took {neighbours.cores_used():.1f} cores meanwhile, Spark and the node included.")
    if options.json is not None:
        write_json(options.json, machine, results)


if __name__ == "__main__":
    main()
