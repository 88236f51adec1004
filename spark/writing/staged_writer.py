"""The writer of a batch with `exactlyOnce`."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lograft.runtime.rng import system_rng
from lograft.spark.common.spark_task import running_task
from lograft.spark.writing.exactly_once import commit_staged
from lograft.spark.writing.staged_rows import Staged, stage_rows
from lograft.spark.writing.write_options import WriteOptions


class StagedWriter(DataSourceArrowWriter):
    """Writes a batch whose rows all become visible when it is done; rows of failed attempts never do."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._job_id = f"job-{system_rng().uuid()}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return stage_rows(iterator, self._options, self._job_id, running_task().partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_staged([each for each in messages if isinstance(each, Staged)], 0, self._options.cluster)
