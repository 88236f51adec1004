"""A local Spark session for the other examples. On a cluster, pass your own session to `main`."""

import os
import sys

from pyspark.sql import SparkSession


def local_session(name: str) -> SparkSession:
    # Workers must run the Python that has lograft; by default they run `python3`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Driver and workers communicate locally, and need no other address.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.appName(name)
        .master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")  # the default of 200 suits clusters
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
