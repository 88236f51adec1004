"""A streaming read that cannot begin."""

from collections.abc import Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from lograft.clients.errors import LograftError
from lograft.spark.common.error_text import one_sentence


class RefusedStream(DataSourceStreamReader):
    """Raise `error` at the first call.

    Spark's runner stops its reader when anything fails. An error from `streamReader` itself leaves it without a reader
    to stop, and the user sees `UnboundLocalError` instead of the cause.
    """

    def __init__(self, error: LograftError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # of the oldest signature: any Spark calls it
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        self._refuse()

    @one_sentence()
    def _refuse(self) -> NoReturn:
        raise self._error
