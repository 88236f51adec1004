"""The Spark data source named `lograft`."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from lograft.clients.errors import InvalidArgument, LograftError
from lograft.runtime.rng import system_rng
from lograft.spark.common.error_text import one_sentence
from lograft.spark.common.options import batch_options, stream_options
from lograft.spark.reading.batch_reader import BatchReader
from lograft.spark.reading.refused_stream import RefusedStream
from lograft.spark.reading.row_schema import check_schema, full_schema
from lograft.spark.writing.at_least_once import DirectWriter
from lograft.spark.writing.row_tables import check_write_schema
from lograft.spark.writing.staged_writer import StagedWriter
from lograft.spark.writing.write_options import WriteOptions, write_options


@contextmanager
def needing(version: str, what: str) -> Iterator[None]:
    """Wrap an import of a feature that Spark has since `version`. Raise `InvalidArgument` if it fails."""
    try:
        yield
    except ImportError as error:
        raise InvalidArgument(f"{what} needs pyspark {version} or newer ({error})") from None


class LograftSource(DataSource):
    """The entry point of `spark.read`, `readStream`, `write` and `writeStream` with `format("lograft")`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Spark creates one instance per `load()`, and copies it from then on.
        self._load_id = system_rng().uuid().hex

    @classmethod
    def name(cls) -> str:
        return "lograft"

    def schema(self) -> StructType:
        headers = {name.lower(): value for name, value in self.options.items()}.get("includeheaders", "false")
        return full_schema(include_headers=headers.strip().lower() == "true")

    @one_sentence()
    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        options = batch_options(self.options)
        if not options.pushes_down:
            return BatchReader(schema, options)
        with needing("4.1", "option pushDown"):
            from lograft.spark.reading.push_down_reader import PushDownReader
        return PushDownReader(schema, options, self._load_id)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            check_schema(schema)
            with needing("4.2", "a streaming read"):
                from lograft.spark.reading.stream_reader import StreamReader
            return StreamReader(schema, *stream_options(self.options))
        except LograftError as error:
            return RefusedStream(error)

    @one_sentence()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = write_options(self.options, is_streaming=False)
        _check_write(schema, options, overwrite)
        return StagedWriter(options) if options.is_exactly_once else DirectWriter(options)

    @one_sentence()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = write_options(self.options, is_streaming=True)
        _check_write(schema, options, overwrite)
        with needing("4.1", "a streaming write"):
            from lograft.spark.writing.stream_writer import StreamWriter
        return StreamWriter(options)


def _check_write(schema: StructType, options: WriteOptions, overwrite: bool) -> None:
    if overwrite:
        raise InvalidArgument("a log is added to, not overwritten: use (output) mode append, or delete the topic first")
    check_write_schema(schema, options.topic)
