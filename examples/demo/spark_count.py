"""Count the records of an offset range with Spark. Runs in a separate process, because Java prints a lot and is slow to
exit.

python examples/demo/spark_count.py localhost:9092 orders '{"orders": {"0": 0}}' '{"orders": {"0": 100}}'
"""

import os
import sys

from pyspark.sql import SparkSession


def count(bootstrap: str, topic: str, starting_offsets: str, ending_offsets: str) -> int:
    spark = (
        SparkSession.builder.appName("lograft demo")
        .master("local[2]")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # for a short run
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    return (
        spark.read.format("lograft")
        .option("lograft.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", starting_offsets)
        .option("endingOffsets", ending_offsets)
        .load()
        .count()
    )


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    print(count(*sys.argv[1:]))
