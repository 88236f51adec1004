"""Spark in batch: a topic's records counted, and their lengths added up. One Spark for all, started once."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from compare.failures import CannotRun, Wrong


class SparkReading:
    """local[2], as large as the machine that everything was measured on."""

    def __init__(self, directory: Path, jars: Sequence[Path]) -> None:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        try:
            from pyspark.sql import SparkSession

            builder = (
                SparkSession.builder.master("local[2]")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.driver.memory", "2g")
                .config("spark.sql.shuffle.partitions", "2")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.local.dir", str(directory / "spark"))
                .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            )
            if jars:
                builder = builder.config("spark.jars", ",".join(map(str, jars)))
            self._spark = builder.getOrCreate()
        except Exception as error:
            raise CannotRun(f"Spark does not start: {str(error).strip().splitlines()[0]}") from None
        self._spark.sparkContext.setLogLevel("OFF")

    def ask(self, options: dict[str, str], count: int, size_bytes: int) -> dict[str, float]:
        """Seconds for each question, once it was asked to warm up; `Wrong` if an answer is."""
        try:
            self._count(options)
            started = perf_counter()
            counted = self._count(options)
            between = perf_counter()
            added = self._sum(options)
            ended = perf_counter()
        except Exception as error:
            raise CannotRun(f"Spark cannot read it: {_cause(error)}") from None
        if (counted, added) != (count, size_bytes):
            raise Wrong(f"Spark counted {counted} records of {added} bytes, not {count} of {size_bytes}")
        return {"count": between - started, "sum of lengths": ended - between}

    def _frame(self, options: dict[str, str]) -> Any:
        others = {name: value for name, value in options.items() if name != "format"}
        return self._spark.read.format(options["format"]).options(**others).load()

    def _count(self, options: dict[str, str]) -> int:
        return int(self._frame(options).count())

    def _sum(self, options: dict[str, str]) -> int:
        from pyspark.sql import functions as F

        return int(self._frame(options).select(F.sum(F.length("value"))).collect()[0][0])

    def close(self) -> None:
        self._spark.stop()


def _cause(error: Exception) -> str:
    """In one line. Of a worker's traceback the end says most, which the JVM's may follow."""
    lines = [line for line in str(error).strip().splitlines() if not line.startswith(("\t", " ", "JVM stacktrace"))]
    return " ... ".join(dict.fromkeys([lines[0], lines[-1]]))[:300]
