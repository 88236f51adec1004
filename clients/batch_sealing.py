"""A pending batch as the bytes that go to the broker. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lograft.clients.pending_batch import HeaderPairs, PendingBatch, SequenceStart
from lograft.storage.batch import Compression, encode_batch


@dataclass(frozen=True, slots=True)
class Contents:
    """What a batch consists of at one moment, so that it can be sealed beside the loop. Its lists are not changed any
    more once a batch is taken."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[HeaderPairs] | None
    sequence: SequenceStart


def contents(batch: PendingBatch) -> Contents:
    return Contents(
        batch.values,
        batch.keys,
        batch.timestamps,
        batch.headers if batch.has_headers else None,
        batch.sequence or SequenceStart(-1, -1, -1),
    )


def seal(batch: Contents, compression: Compression) -> bytes:
    return encode_batch(
        batch.values,
        keys=batch.keys if any(key is not None for key in batch.keys) else None,
        timestamps=batch.timestamps,
        headers=batch.headers,
        compression=compression,
        producer_id=batch.sequence.producer_id,
        producer_epoch=batch.sequence.epoch,
        base_sequence=batch.sequence.base,
    )


def seal_all(batches: Sequence[Contents], compression: Compression) -> list[bytes]:
    return [seal(batch, compression) for batch in batches]
