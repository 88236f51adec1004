"""The reader for `option("pushDown", "true")`, which uses a query's filters to read less. Spark has this since 4.1."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.types import StructType

from lograft.runtime.clock import LoopClock
from lograft.spark.common.options import ReadOptions
from lograft.spark.common.range_reader import OffsetRange
from lograft.spark.common.spark_task import running_task
from lograft.spark.reading.batch_reader import BatchReader
from lograft.spark.reading.filters import Predicates, narrow, told
from lograft.spark.reading.load_use import LoadUse, plan_use
from lograft.spark.reading.planner import Planner


class PushDownReader(BatchReader):
    """Narrows the ranges to those that may have rows that pass the filters, for one query: see `load_use`.

    This is a separate class because Spark refuses readers with `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is set.
    """

    def __init__(self, schema: StructType, options: ReadOptions, load_id: str) -> None:
        super().__init__(schema, options)
        self._load_id = load_id
        self._predicates = Predicates()
        self._use: LoadUse | None = None  # None: not narrowed, so valid for any query

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Note the filters, and return all of them: Spark still tests each row, so results do not depend on this."""
        now_ms = LoopClock().wall_ms()
        heeded = [told(each) for each in filters if self._predicates.heed(each)]
        if heeded:
            self._use = plan_use(self._load_id, " and ".join(sorted(heeded)), now_ms)
        yield from filters

    def _narrowed(self, planner: Planner, ranges: list[OffsetRange]) -> list[OffsetRange]:
        return narrow(planner.admin, self._predicates, ranges)

    def partitions(self) -> Sequence[InputPartition]:
        return [NumberedPartition(each, number) for number, each in enumerate(super().partitions())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark creates its own partition for a plan without any.
        number, planned = 0, partition
        if isinstance(partition, NumberedPartition):
            number, planned = partition.number, partition.planned
        if self._use is not None:
            self._use.check_reader(number, running_task())
        yield from super().read(planned)


class NumberedPartition(InputPartition):
    """A partition and its number in the plan."""

    def __init__(self, planned: InputPartition, number: int) -> None:
        super().__init__(number)
        self.planned = planned
        self.number = number
