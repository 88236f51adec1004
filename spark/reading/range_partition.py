"""A range of offsets as a Spark partition, read on an executor."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lograft.clients.errors import OffsetOutOfRange, WrongCluster
from lograft.spark.common.cluster_access import cluster_access, renewed_access
from lograft.spark.common.error_text import one_sentence
from lograft.spark.common.options import ReadOptions
from lograft.spark.common.range_reader import OffsetRange, RangePart
from lograft.spark.reading.arrow_rows import row_batches
from lograft.spark.reading.row_schema import arrow_schema


class RangePartition(InputPartition):
    """The range that one task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def read_partition(partition: InputPartition, schema: StructType, options: ReadOptions) -> Iterator[Any]:
    """Yield the record batches of a partition. Spark creates its own, empty partition for a plan without any."""
    if isinstance(partition, RangePartition):
        wanted = partition.wanted
        with one_sentence():
            parts = _parts(wanted, options)
            yield from row_batches(wanted, parts, arrow_schema(schema), skips_bad=options.skips_bad_batches)


def _parts(wanted: OffsetRange, options: ReadOptions) -> Iterator[RangePart]:
    """Yield all parts of the range. If retention deleted some of it since it was planned, raise `OffsetOutOfRange`, or
    skip that if `failOnDataLoss` is false."""
    access = cluster_access(options.cluster.bootstrap)
    while wanted.count:
        try:
            for part in access.read(wanted, options.cluster, spreads=options.spreads_reads):
                yield part
                wanted = replace(wanted, start=part.next_offset)
        except WrongCluster:
            access = renewed_access(access, options.cluster.bootstrap)
        except OffsetOutOfRange as error:
            left = _left_of(wanted, error)
            if options.fail_on_data_loss or left is None:
                raise OffsetOutOfRange(
                    f"{error.message}: it was there when the query was planned, and is gone; set failOnDataLoss to "
                    "false to read what there is",
                    valid_start=error.valid_start,
                    valid_end=error.valid_end,
                ) from None
            wanted = left
        else:
            return


def _left_of(wanted: OffsetRange, error: OffsetOutOfRange) -> OffsetRange | None:
    """Return the part of the range that still exists; None if that is unknown, or nothing is missing."""
    if error.valid_start is None or error.valid_end is None:
        return None
    start = max(wanted.start, error.valid_start)
    left = replace(wanted, start=start, end=max(start, min(wanted.end, error.valid_end)))
    return left if left != wanted else None
