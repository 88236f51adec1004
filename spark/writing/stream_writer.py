"""The writer of `df.writeStream.format("lograft")`."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lograft.spark.common.spark_task import query_id, running_task
from lograft.spark.writing.at_least_once import write_rows
from lograft.spark.writing.exactly_once import commit_staged
from lograft.spark.writing.staged_rows import Staged, stage_rows
from lograft.spark.writing.write_options import WriteOptions


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark creates a new instance for each commit."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if not self._options.is_exactly_once:
            return write_rows(iterator, self._options)
        task = running_task()
        return stage_rows(iterator, self._options, query_id(task), task.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_staged([each for each in messages if isinstance(each, Staged)], batchId, self._options.cluster)
