"""At-least-once writes: each task produces its own rows, and a retried task produces them again."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lograft.clients.producer.sync_producer import Producer
from lograft.spark.common.error_text import one_sentence
from lograft.spark.writing.row_tables import tables_by_topic
from lograft.spark.writing.write_options import WriteOptions


class Written(WriterCommitMessage):
    """The result of one task: the number of rows it wrote."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


@one_sentence()
def write_rows(batches: Iterator[Any], options: WriteOptions) -> Written:
    """Write the rows, and return when all are acknowledged. Raise if any failed."""
    rows = 0
    cluster = options.cluster
    with Producer(
        cluster.bootstrap,
        acks=options.acks,
        compression=options.compression,
        delivery_timeout_ms=cluster.timeout_ms,
        max_block_ms=cluster.timeout_ms,
        client_id="lograft-spark",
    ) as producer:
        sent = []
        for batch in batches:
            for topic, table in tables_by_topic(batch, options.topic):
                sent.append(producer.send_many(topic, table))
                rows += table.num_rows
            # Show errors early, and release deliveries that are already stored.
            while sent and sent[0].done():
                sent.pop(0).result()
        for deliveries in sent:
            deliveries.result()
    return Written(rows)


class DirectWriter(DataSourceArrowWriter):
    """The writer of a batch without `exactlyOnce`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(iterator, self._options)
