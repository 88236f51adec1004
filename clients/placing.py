"""Finds the partition of each record of a producer, and puts it into a batch there. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from lograft.clients.accumulator import Accumulator
from lograft.clients.cluster_view import TopicView
from lograft.clients.errors import InvalidArgument, LograftError
from lograft.clients.parcel import Group, Parcel, RecordColumns, Run
from lograft.clients.partitioning import Partitioner, StickyPartitions, partition_of_key
from lograft.clients.pending_batch import PartitionKey
from lograft.clients.record_columns import ListColumns, SizedLists
from lograft.runtime.rng import Rng

_STICKY = -1


class Placer:
    """Records with a partition of their own go there; else the `partitioner` decides, if there is one and it cares;
    else the key; else chance."""

    def __init__(self, accumulator: Accumulator, partitioner: Partitioner | None, rng: Rng) -> None:
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._sticky = StickyPartitions(rng)

    def partition(self, view: TopicView, key: bytes | None, value: bytes | None) -> int:
        """Of a record that has none of its own. `InvalidArgument` if the partitioner fails."""
        chosen = self._chosen(view, key, value)
        if chosen is not None:
            return chosen
        if key is not None:
            return partition_of_key(key, view.partition_count)
        return self._sticky_partition(view)

    def _sticky_partition(self, view: TopicView) -> int:
        return self._sticky.partition(
            view.id, view.partition_count, lambda number: self._accumulator.is_filling(PartitionKey(view.id, number))
        )

    def _chosen(self, view: TopicView, key: bytes | None, value: bytes | None) -> int | None:
        """By the user's partitioner, if there is one, and it cares."""
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

    def place(self, parcel: Parcel, view: TopicView, now_ms: int) -> None:
        """Put all records of the parcel into batches. Partitions that were asked for are there."""
        columns = parcel.columns
        assert columns is not None
        partition = self._partition_of_all(parcel, columns, view)
        if partition is not None:
            group = Group(range(len(columns)))
            self._fill(group, columns, partition, view, now_ms)
            parcel.placed({0: group}, None)
            return
        if isinstance(columns, SizedLists) or parcel.partitions is not None or self._partitioner is not None:
            partitions: Any = self._partitions_of_lists(parcel, columns.as_lists(), view)
            indices: Mapping[int, Any] = _grouped(partitions, parcel.refused)
        else:
            partitions = columns.partitions_of_keys(view.partition_count, lambda: self._sticky_partition(view))
            indices = columns.grouped(partitions)
        groups = {number: Group(some) for number, some in indices.items()}
        for number, group in groups.items():
            self._fill(group, columns.pick(group.indices), number, view, now_ms)  # type: ignore[arg-type]
        parcel.placed(groups, partitions)

    def _partition_of_all(self, parcel: Parcel, columns: RecordColumns, view: TopicView) -> int | None:
        """The partition of all records, if there is one. Only if all are left to chance, they are so a batch at a
        time."""
        if parcel.partition is not None:
            return parcel.partition
        if parcel.partitions is not None or self._partitioner is not None:
            return None
        if view.partition_count == 1:
            return 0
        return None if columns.has_keys else _STICKY

    def _partitions_of_lists(self, parcel: Parcel, lists: ListColumns, view: TopicView) -> list[int]:
        count = view.partition_count
        keys = lists.keys or [None] * len(lists)
        if parcel.partitions is None and self._partitioner is None:
            # As `partition_of_key` has it: spelt out, because a call each would take longer than all else.
            partitions = [_STICKY if key is None else crc32(key) % count for key in keys]
        else:
            partitions = self._partitions_one_by_one(parcel, keys, lists.values, view)
        if _STICKY not in partitions:
            return partitions
        # Those with a key, or a partition of their own, must not be overtaken: one partition for all of the others.
        sticky = self._sticky_partition(view)
        return [sticky if partition == _STICKY else partition for partition in partitions]

    def _partitions_one_by_one(
        self, parcel: Parcel, keys: Sequence[bytes | None], values: Sequence[bytes | None], view: TopicView
    ) -> list[int]:
        wanted: Sequence[int | None] = parcel.partitions or [None] * len(values)
        partitions = []
        for index, (partition, key, value) in enumerate(zip(wanted, keys, values, strict=True)):
            if partition is None and index not in parcel.refused:
                try:
                    partition = self._chosen(view, key, value)
                except LograftError as error:
                    parcel.refused[index] = error
            if partition is None:
                partition = _STICKY if key is None else partition_of_key(key, view.partition_count)
            partitions.append(partition)
        return partitions

    def _fill(self, group: Group, columns: RecordColumns, number: int, view: TopicView, now_ms: int) -> None:
        start, count = 0, len(columns)
        while start < count:
            partition = self._sticky_partition(view) if number == _STICKY else number
            key = PartitionKey(view.id, partition)
            batch, first, end = self._accumulator.fill(key, view.name, columns, start, now_ms)
            group.runs.append(Run(batch, first, start))
            start = end


def _grouped(group_of: Sequence[int], without: dict[int, LograftError]) -> dict[int, list[int]]:
    """Which records are in each group, in order."""
    groups: dict[int, list[int]] = defaultdict(list)
    if without:
        for index, group in enumerate(group_of):
            if index not in without:
                groups[group].append(index)
    else:
        for index, group in enumerate(group_of):
            groups[group].append(index)
    return groups
