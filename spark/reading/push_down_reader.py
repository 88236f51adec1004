"""`option("pushDown", "true")`: the filters of a scan decide what is read, where Spark keeps a plan for each scan."""

from collections.abc import Iterator

from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from lograft.spark.common.options import ReadOptions
from lograft.spark.common.range_reader import OffsetRange
from lograft.spark.reading.batch_reader import BatchReader
from lograft.spark.reading.filters import Predicates, narrow
from lograft.spark.reading.planner import Planner


class PushDownReader(BatchReader):
    """Narrow the ranges to where rows that pass the filters can be.

    Right for one scan alone: see `scan_plans`. A class of its own, because Spark refuses readers with `pushFilters`
    unless `spark.sql.python.filterPushdown.enabled` is set.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        self._predicates = Predicates()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Return all of them: Spark evaluates them for each row, so that rows are the same with and without this."""
        for each in filters:
            self._predicates.heed(each)
            yield each

    def _narrowed(self, planner: Planner, ranges: list[OffsetRange]) -> list[OffsetRange]:
        return narrow(planner.admin, self._predicates, ranges)
