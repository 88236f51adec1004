"""Chooses the partition of each record of a producer, and puts it into a batch there. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from lograft.clients.cluster.cluster_view import TopicView
from lograft.clients.errors import InvalidArgument, LograftError
from lograft.clients.producer.pipeline.accumulator import Accumulator
from lograft.clients.producer.pipeline.partitioner import Partitioner, Turns, partition_of_key
from lograft.clients.producer.pipeline.pending_batch import BATCH_OVERHEAD_BYTES, PartitionKey, PendingBatch
from lograft.clients.producer.pipeline.submission import BatchSlice, PartitionSlice, RecordColumns, Submission
from lograft.clients.records.list_columns import HeaderPairs, SizedLists, record_bytes
from lograft.runtime.rng import Rng

_BY_TURNS = -1


class Router:
    """A record's partition is the one given; else the `partitioner`'s choice, if it makes one; else by the key; else
    partitions take turns, batch by batch."""

    def __init__(self, accumulator: Accumulator, partitioner: Partitioner | None, rng: Rng, batch_bytes: int) -> None:
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._rng = rng
        self._batch_bytes = batch_bytes
        self._turns: dict[bytes, Turns] = {}
        self._latest: dict[bytes, PendingBatch] = {}  # the last batch filled by turns, by topic id

    # -- one record

    def place_one(
        self,
        view: TopicView,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderPairs,
        now_ms: int,
    ) -> tuple[PendingBatch, int]:
        """Put the record into a batch. Return the batch and its index there. Raise `InvalidArgument` if the partitioner
        fails."""
        if partition is None:
            partition = self._chosen(view, key, value)
        if partition is None and key is not None:
            partition = partition_of_key(key, view.partition_count)
        is_by_turns = partition is None
        if partition is None:
            size_bytes = record_bytes(key, value, headers)
            partition = self._turn(view, size_bytes)
            self._turns[view.id].give(size_bytes)
        batch, index = self._accumulator.append(
            PartitionKey(view.id, partition), view.name, key, value, timestamp, headers, now_ms
        )
        if is_by_turns:
            self._filled_by_turns(view, batch, index)
        return batch, index

    # -- by turns

    def _turn(self, view: TopicView, next_bytes: int) -> int:
        """Return the partition whose turn it is, beginning a new turn if `next_bytes` do not fit into this one."""
        turns = self._turns.get(view.id)
        if turns is None:
            turns = self._turns[view.id] = Turns(self._rng, max(self._batch_bytes - BATCH_OVERHEAD_BYTES, 1))
        mine = turns.partition
        if mine is None or turns.is_over(view.partition_count, next_bytes) or not self._goes_on(view, mine):
            return turns.next(view.partition_count, lambda number: self._is_usable(view, number))
        return mine

    def _goes_on(self, view: TopicView, partition: int) -> bool:
        queue = self._accumulator.queue(PartitionKey(view.id, partition))
        return queue is not None and queue.filling is not None and self._is_usable(view, partition)

    def _is_usable(self, view: TopicView, partition: int) -> bool:
        """Return True if a record for the partition is likely to be stored soon."""
        queue = self._accumulator.queue(PartitionKey(view.id, partition))
        return view.leaders[partition].broker_id is not None and (queue is None or not queue.trouble)

    def _filled_by_turns(self, view: TopicView, batch: PendingBatch, first: int) -> None:
        """Note that records were added to the batch from index `first` on."""
        latest = self._latest.get(view.id)
        if first == 0 and latest is not None and not latest.is_settled:
            batch.behind = latest
        self._latest[view.id] = batch

    def _chosen(self, view: TopicView, key: bytes | None, value: bytes | None) -> int | None:
        """Return the choice of the user's partitioner; None if there is none or it makes no choice."""
        if self._partitioner is None:
            return None
        try:
            chosen = self._partitioner(view.name, key, value, view.partition_count)
        except Exception as error:
            raise InvalidArgument(f"the partitioner failed: {error!r}") from error
        if chosen is not None and not (isinstance(chosen, int) and 0 <= chosen < view.partition_count):
            raise InvalidArgument(f"the partitioner chose {chosen!r} of {view.partition_count} partitions")
        return chosen

    # -- many at once

    def place(self, submission: Submission, view: TopicView, now_ms: int) -> None:
        """Put all records of the submission into batches. All partitions that it names must exist."""
        columns = submission.columns
        assert columns is not None
        partition = self._partition_of_all(submission, columns, view)
        if partition is not None:
            group = PartitionSlice(range(len(columns)))
            self._fill(group, columns, partition, view, now_ms)
            submission.placed({0: group}, None)
            return
        if isinstance(columns, SizedLists) or submission.partitions is not None or self._partitioner is not None:
            partitions: Any = self._partitions_of_lists(submission, columns, view)
            indices: Mapping[int, Any] = _grouped(partitions, submission.refused)
        else:
            without_key = columns.keys.null_count
            partitions = columns.partitions_of_keys(
                view.partition_count, lambda: self._turn_of_some(view, columns, without_key)
            )
            indices = columns.grouped(partitions)
        groups = {number: PartitionSlice(some) for number, some in indices.items()}
        for number, group in groups.items():
            self._fill(group, columns.pick(group.indices), number, view, now_ms)  # type: ignore[arg-type]
        submission.placed(groups, partitions)

    def _partition_of_all(self, submission: Submission, columns: RecordColumns, view: TopicView) -> int | None:
        """Return the partition of all records if they share one, and `_BY_TURNS` if none has a fixed partition: only
        then partitions take turns within the submission."""
        if submission.partition is not None:
            return submission.partition
        if submission.partitions is not None or self._partitioner is not None:
            return None
        if view.partition_count == 1:
            return 0
        return None if columns.has_keys else _BY_TURNS

    def _partitions_of_lists(self, submission: Submission, columns: RecordColumns, view: TopicView) -> list[int]:
        lists = columns.as_lists()
        count = view.partition_count
        keys = lists.keys or [None] * len(lists)
        if submission.partitions is None and self._partitioner is None:
            # `partition_of_key`, inlined: a call per record would dominate the cost.
            partitions = [_BY_TURNS if key is None else crc32(key) % count for key in keys]
        else:
            partitions = self._partitions_one_by_one(submission, keys, lists.values, view)
        by_turns = partitions.count(_BY_TURNS)
        if not by_turns:
            return partitions
        # Records with a key or a fixed partition must keep their order, so all others share one partition.
        mine = self._turn_of_some(view, columns, by_turns)
        return [mine if partition == _BY_TURNS else partition for partition in partitions]

    def _turn_of_some(self, view: TopicView, columns: RecordColumns, count: int) -> int:
        """Return the partition for `count` records without a fixed one, in a submission with other records."""
        size_bytes = columns.size_bytes * count // len(columns)
        mine = self._turn(view, size_bytes // count)
        self._turns[view.id].give(size_bytes)
        return mine

    def _partitions_one_by_one(
        self, submission: Submission, keys: Sequence[bytes | None], values: Sequence[bytes | None], view: TopicView
    ) -> list[int]:
        wanted: Sequence[int | None] = submission.partitions or [None] * len(values)
        partitions = []
        for index, (partition, key, value) in enumerate(zip(wanted, keys, values, strict=True)):
            if partition is None and index not in submission.refused:
                try:
                    partition = self._chosen(view, key, value)
                except LograftError as error:
                    submission.refused[index] = error
            if partition is None:
                partition = _BY_TURNS if key is None else partition_of_key(key, view.partition_count)
            partitions.append(partition)
        return partitions

    def _fill(self, group: PartitionSlice, columns: RecordColumns, number: int, view: TopicView, now_ms: int) -> None:
        start, count = 0, len(columns)
        while start < count:
            if number == _BY_TURNS:
                batch, first, end = self._fill_by_turns(columns, start, view, now_ms)
            else:
                key = PartitionKey(view.id, number)
                batch, first, end = self._accumulator.fill(key, view.name, columns, start, now_ms)
            group.batches.append(BatchSlice(batch, first, start))
            start = end

    def _fill_by_turns(
        self, columns: RecordColumns, start: int, view: TopicView, now_ms: int
    ) -> tuple[PendingBatch, int, int]:
        """Like `Accumulator.fill`, into one batch of the partition whose turn it is."""
        partition = self._turn(view, self._accumulator.least_bytes(columns, start))
        turns = self._turns[view.id]
        batch, first, end = self._accumulator.fill(
            PartitionKey(view.id, partition), view.name, columns, start, now_ms, turns.left_bytes
        )
        turns.give(columns.bytes_between(start, end))
        self._filled_by_turns(view, batch, first)
        return batch, first, end


def _grouped(group_of: Sequence[int], without: dict[int, LograftError]) -> dict[int, list[int]]:
    """Return the indices of the records in each group, in order, except those in `without`."""
    groups: dict[int, list[int]] = defaultdict(list)
    if without:
        for index, group in enumerate(group_of):
            if index not in without:
                groups[group].append(index)
    else:
        for index, group in enumerate(group_of):
            groups[group].append(index)
    return groups
