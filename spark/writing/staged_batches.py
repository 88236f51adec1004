"""Encodes rows as the batches to publish, without sequences yet, and as records of the staging topic."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lograft.clients.errors import BatchTooLarge, InvalidArgument, InvalidRecord, UnknownPartition
from lograft.clients.producer.pipeline.partitioner import Turns
from lograft.clients.records.arrow_columns import ArrowColumns, arrow_columns, columns_of_table
from lograft.clients.records.validation import check_size
from lograft.storage.batch.codec import Compression, encode_arrow

BATCH_BYTES = 512 * 1024

_TARGET = struct.Struct(">16sii")


class Target(NamedTuple):
    """A partition of a topic identified by its id."""

    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A target topic at the time of staging. Staging refuses rows that the topic would not accept: otherwise it would
    refuse them, on every retry, only after some of the batch is published."""

    name: str
    topic_id: bytes
    partition_count: int
    max_batch_bytes: int
    needs_keys: bool
    compression: Compression


class StagedBatch(NamedTuple):
    """A batch to publish: its target, number of records, and bytes."""

    target: Target
    record_count: int
    batch: bytes

    @property
    def key(self) -> bytes:
        """The key of its record in the staging topic; the value is the batch."""
        return _TARGET.pack(*self.target, self.record_count)


def read_staged(key: bytes | None, value: bytes | None) -> StagedBatch:
    """Decode a record of the staging topic. Raise `InvalidArgument` if the connector did not write it."""
    if key is None or value is None or len(key) != _TARGET.size:
        raise InvalidArgument("the staging topic has a record that is no staged batch: let nobody else write there")
    topic_id, partition, count = _TARGET.unpack(key)
    return StagedBatch(Target(topic_id, partition), count, value)


def batches_of(table: Any, topic: TargetTopic, *, now_ms: int, turns: Turns) -> Iterator[StagedBatch]:
    """Yield all rows of `table` as batches, in order within each partition. Partitions take `turns` for rows with
    neither partition nor key."""
    given = columns_of_table(table)
    columns = arrow_columns(given, now_ms)
    if topic.needs_keys and (columns.keys is None or columns.keys.null_count):
        raise InvalidRecord(f"topic {topic.name!r} is compacted: every row needs a key")
    numbers = _partitions(columns, given.partitions, topic, turns)
    for number, indices in ArrowColumns.grouped(numbers).items():
        picked = columns.pick(indices)
        for part in _cut(picked):
            for count, batch in _encoded(part, topic):
                yield StagedBatch(Target(topic.topic_id, number), count, batch)


def _encoded(columns: ArrowColumns, topic: TargetTopic) -> Iterator[tuple[int, bytes]]:
    """Yield one batch, or repeatedly halved ones that are within the topic's limit."""
    batch = encode_arrow(
        columns.values,
        keys=columns.keys,
        timestamps=columns.timestamps,
        headers=columns.headers,
        compression=topic.compression,
    )
    count = len(columns)
    if len(batch) <= topic.max_batch_bytes:
        yield count, batch
        return
    if count == 1:
        raise BatchTooLarge(
            f"a row makes a batch of {len(batch)} bytes, and topic {topic.name!r} takes at most "
            f"{topic.max_batch_bytes}: split it, or raise the topic's max.message.bytes"
        )
    for start, end in ((0, count // 2), (count // 2, count)):
        yield from _encoded(columns.cut(start, end), topic)


def _partitions(columns: ArrowColumns, wanted: Any, topic: TargetTopic, turns: Turns) -> NDArray[np.uint16]:
    partition_count = topic.partition_count
    has_keys = columns.has_keys
    numbers = columns.partitions_of_keys(partition_count, lambda: 0) if has_keys else _by_turns(columns, topic, turns)
    if has_keys and columns.keys.null_count:
        are_without = columns.keys.is_null().to_numpy(zero_copy_only=False)
        numbers[are_without] = _by_turns(columns.pick(np.flatnonzero(are_without)), topic, turns)
    if wanted is None:
        return numbers
    array = wanted.combine_chunks() if isinstance(wanted, pa.ChunkedArray) else wanted
    are_given = array.is_valid().to_numpy(zero_copy_only=False)
    given = array.fill_null(0).to_numpy(zero_copy_only=False)
    for number in (int(given.min(initial=0)), int(given.max(initial=0))):
        if not 0 <= number < partition_count:
            raise UnknownPartition(f"topic {topic.name!r} has no partition {number}: it has 0 to {partition_count - 1}")
    return np.where(are_given, given, numbers).astype(np.uint16)


def _by_turns(columns: ArrowColumns, topic: TargetTopic, turns: Turns) -> NDArray[np.uint16]:
    numbers = np.empty(len(columns), np.uint16)
    start, count = 0, len(columns)
    while start < count:
        number = turns.partition
        if number is None or turns.is_over(topic.partition_count, columns.bytes_between(start, start + 1)):
            number = turns.next(topic.partition_count)
        end = max(columns.fitting(start, turns.left_bytes), start + 1)
        numbers[start:end] = number
        turns.give(columns.bytes_between(start, end))
        start = end
    return numbers


def _cut(columns: ArrowColumns) -> Iterator[ArrowColumns]:
    start, count = 0, len(columns)
    while start < count:
        end = max(columns.fitting(start, BATCH_BYTES), start + 1)
        check_size(columns.bytes_between(start, end) if end == start + 1 else 0)
        yield columns.cut(start, end)
        start = end
