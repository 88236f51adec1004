"""`option("pushDown", "true")`: the filters of a query decide what is read. Spark has this since 4.1."""

from collections.abc import Iterator

from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from lograft.clients.range_reader import OffsetRange
from lograft.clients.spark.batch_reading import BatchReader
from lograft.clients.spark.options import ReadOptions
from lograft.clients.spark.planner import Planner
from lograft.clients.spark.push_down import Predicates, narrow


class PushDownReader(BatchReader):
    """Narrows the ranges to where rows that pass the filters can be.

    A class of its own, because Spark refuses readers with `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is set.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        self._predicates = Predicates()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """All are given back: Spark looks at each row itself, so that rows are the same with and without this."""
        for each in filters:
            self._predicates.heed(each)
            yield each

    def _narrowed(self, planner: Planner, ranges: list[OffsetRange]) -> list[OffsetRange]:
        return narrow(planner.admin, self._predicates, ranges)
