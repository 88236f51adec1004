"""The module that Spark discovers: it looks for modules named `pyspark_...` with a `DefaultSource`."""

from lograft.spark.source import LograftSource as DefaultSource

__all__ = ["DefaultSource"]
