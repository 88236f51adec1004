"""A Spark session on this machine, for the programs beside it. On a cluster, hand `main` a session of your own."""

import os
import sys

from pyspark.sql import SparkSession


def local_session(name: str) -> SparkSession:
    # Spark's workers are to be the Python that has lograft; by default they are whatever `python3` is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Driver and workers talk to each other here, and nobody else needs to reach them.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.appName(name)
        .master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")  # 200, the default, are for clusters
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
