"""A pending batch as the bytes that go to the broker. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lograft.clients.producer.pipeline.pending_batch import BatchColumns, PendingBatch, SequenceStart
from lograft.clients.records.list_columns import ListColumns
from lograft.storage.batch.codec import Compression, encode_arrow, encode_batch


@dataclass(frozen=True, slots=True)
class Contents:
    """What a batch consists of at one moment, so that it can be sealed beside the loop. Its columns are not changed any
    more once a batch is taken."""

    columns: BatchColumns
    sequence: SequenceStart


def contents(batch: PendingBatch) -> Contents:
    return Contents(batch.columns, batch.sequence or SequenceStart(-1, -1, -1))


def seal(batch: Contents, compression: Compression) -> bytes:
    columns, sequence = batch.columns, batch.sequence
    if isinstance(columns, ListColumns):
        return encode_batch(
            columns.values,
            keys=columns.keys,
            timestamps=columns.timestamps,
            headers=columns.headers,
            compression=compression,
            producer_id=sequence.producer_id,
            producer_epoch=sequence.epoch,
            base_sequence=sequence.base,
        )
    return encode_arrow(
        columns.values,
        keys=columns.keys,
        timestamps=columns.timestamps,
        headers=columns.headers,
        compression=compression,
        producer_id=sequence.producer_id,
        producer_epoch=sequence.epoch,
        base_sequence=sequence.base,
    )


def seal_all(batches: Sequence[Contents], compression: Compression) -> list[bytes]:
    return [seal(batch, compression) for batch in batches]
