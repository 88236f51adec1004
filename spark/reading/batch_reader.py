"""The reader of `spark.read.format("lograft")`."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lograft.spark.common.error_text import one_sentence
from lograft.spark.common.options import ReadOptions
from lograft.spark.common.range_reader import OffsetRange
from lograft.spark.reading.planner import Planner, open_admin
from lograft.spark.reading.range_partition import RangePartition, read_partition


class BatchReader(DataSourceReader):
    """Created on the driver, where `partitions` plans; copies of it read on the executors, so it must not hold open
    connections."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    @one_sentence()
    def partitions(self) -> Sequence[InputPartition]:
        with open_admin(self._options.cluster) as admin:
            planner = Planner(admin, self._options)
            ranges = planner.split(self._narrowed(planner, planner.batch()))
        return [RangePartition(each) for each in ranges]

    def _narrowed(self, _planner: Planner, ranges: list[OffsetRange]) -> list[OffsetRange]:
        return ranges

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._schema, self._options)
