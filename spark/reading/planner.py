"""Turns options into ranges of offsets, on the driver: asks the cluster once for the current topics and offsets, and
pins them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from lograft.clients.admin.model.types import TopicDescription
from lograft.clients.admin.sync_admin import Admin
from lograft.clients.errors import InvalidArgument, OffsetOutOfRange
from lograft.clients.types import TopicPartition
from lograft.spark.common.cluster_access import FIRST_CONTACT_MS
from lograft.spark.common.offset_options import (
    EARLIEST,
    LATEST,
    Edge,
    EdgeOfAll,
    OffsetsByPartition,
    TimeOfAll,
    TimesByPartition,
    Wanted,
    check_names_all,
)
from lograft.spark.common.options import ClusterOptions, ReadOptions, SplitOptions
from lograft.spark.common.range_reader import OffsetRange
from lograft.spark.common.topic_options import SubscribePattern, TopicChoice, chosen_partitions, names_to_describe
from lograft.spark.reading.ranges import LogSize, split_ranges

Offsets = dict[TopicPartition, int]


def open_admin(options: ClusterOptions) -> Admin:
    return Admin(
        options.bootstrap, timeout_ms=options.timeout_ms, first_contact_ms=min(FIRST_CONTACT_MS, options.timeout_ms)
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen partitions, in order, and the ids of their topics."""

    partitions: list[TopicPartition]
    topic_ids: Mapping[str, UUID]


class Planner:
    """Makes one plan, or the plans of one query."""

    def __init__(self, admin: Admin, options: ReadOptions) -> None:
        self.admin = admin
        self._options = options

    # -- topics

    def choose(self, choice: TopicChoice | None = None) -> Chosen:
        """Return the chosen partitions. Raise `UnknownTopic` or `UnknownPartition` if a named one does not exist."""
        choice = choice or self._options.choice
        topics = self._topics(choice)
        partitions = chosen_partitions(choice, {topic.name: len(topic.partitions) for topic in topics})
        return Chosen(partitions, {topic.name: topic.id for topic in topics})

    def _topics(self, choice: TopicChoice) -> Sequence[TopicDescription]:
        if isinstance(choice, SubscribePattern):
            # One request for all: with two, a matching topic deleted in between would be an error that no user caused.
            known = self.admin.describe_cluster().topics
            matching = names_to_describe(choice, [topic.name for topic in known])
            return [topic for topic in known if topic.name in matching]
        return self.admin.describe_cluster(names_to_describe(choice, ())).topics

    # -- offsets

    def edges(self, partitions: Iterable[TopicPartition], edge: Edge) -> Offsets:
        """Return the offset of `edge` in each partition."""
        partitions = list(partitions)
        if not partitions:
            return {}
        found = self.admin.list_offsets(partitions, "earliest" if edge is EARLIEST else "latest")
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offsets at which the options say to start."""
        return self._offsets("startingOffsets", list(partitions), self._options.start, is_start=True)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offsets at which the options say to end."""
        return self._offsets("endingOffsets", list(partitions), self._options.end, is_start=False)

    def _offsets(self, name: str, partitions: list[TopicPartition], wanted: Wanted, *, is_start: bool) -> Offsets:
        match wanted:
            case EdgeOfAll(edge):
                return self.edges(partitions, edge)
            case OffsetsByPartition(offsets):
                check_names_all(name, offsets, partitions)
                found = {partition: offset for partition, offset in offsets.items() if isinstance(offset, int)}
                for edge in Edge:
                    found |= self.edges([each for each in partitions if offsets[each] is edge], edge)
                return found
            case TimeOfAll(epoch_ms):
                return self._at_times(dict.fromkeys(partitions, epoch_ms), is_start=is_start)
            case TimesByPartition(times):
                check_names_all(f"{name}ByTimestamp", times, partitions)
                return self._at_times(times, is_start=is_start)

    def _at_times(self, times: Mapping[TopicPartition, int], *, is_start: bool) -> Offsets:
        found: Offsets = {}
        none_as_late: list[TopicPartition] = []
        for epoch_ms in sorted(set(times.values())):
            asked = [partition for partition, at in times.items() if at == epoch_ms]
            for partition, offset in self.admin.list_offsets(asked, epoch_ms).items():
                if offset is None:
                    none_as_late.append(partition)
                else:
                    found[partition] = offset
        if none_as_late and is_start and not self._options.missing_start_is_latest:
            raise InvalidArgument(
                f"{none_as_late[0]} has no record of {times[none_as_late[0]]} or later to start at: start earlier, or "
                "set startingOffsetsByTimestampStrategy to latest"
            )
        return found | self.edges(none_as_late, LATEST)

    # -- ranges

    def batch(self) -> list[OffsetRange]:
        """Return the ranges that a batch reads, before splitting. If offsets do not exist, raise `OffsetOutOfRange`, or
        clip the ranges if `failOnDataLoss` is false."""
        chosen = self.choose()
        # The edges only rise: ask for the first before everything else and the last after it, and for neither twice.
        first = self.edges(chosen.partitions, EARLIEST)
        starts = first if self._options.start == EdgeOfAll(EARLIEST) else self.start_offsets(chosen.partitions)
        ends = self.end_offsets(chosen.partitions)
        last = ends if self._options.end == EdgeOfAll(LATEST) else self.edges(chosen.partitions, LATEST)
        ranges = [
            range_of(chosen.topic_ids, partition, starts[partition], ends[partition]) for partition in chosen.partitions
        ]
        return [self._checked(each, first[each.name], last[each.name]) for each in ranges]

    def stream_starts(self, chosen: Chosen) -> Offsets:
        """Return the start offsets of a streaming query. Raise `OffsetOutOfRange` as for a batch: later, the gap would
        look like data loss."""
        first = self.edges(chosen.partitions, EARLIEST)
        starts = self.start_offsets(chosen.partitions)
        last = self.edges(chosen.partitions, LATEST)
        ranges = [
            range_of(chosen.topic_ids, partition, starts[partition], last[partition]) for partition in chosen.partitions
        ]
        return {each.name: self._checked(each, first[each.name], last[each.name]).start for each in ranges}

    def _checked(self, wanted: OffsetRange, first: int, last: int) -> OffsetRange:
        if first <= wanted.start <= last and first <= wanted.end <= last:
            if wanted.start > wanted.end:
                raise InvalidArgument(f"{wanted.name} ends at {wanted.end}, before it starts at {wanted.start}")
            return wanted
        if self._options.fail_on_data_loss:
            raise OffsetOutOfRange(
                f"{wanted} is asked for, but there is [{first}, {last}): ask for that, or set failOnDataLoss to false "
                "to read what there is",
                valid_start=first,
                valid_end=last,
            )
        start, end = (min(max(offset, first), last) for offset in (wanted.start, wanted.end))
        return replace(wanted, start=start, end=max(start, end))

    def split(self, ranges: list[OffsetRange], options: SplitOptions | None = None) -> list[OffsetRange]:
        options = options or self._options.split
        sizes = self._sizes(ranges) if options.max_bytes is not None else {}
        return split_ranges(ranges, options, sizes)

    def _sizes(self, ranges: list[OffsetRange]) -> dict[TopicPartition, LogSize]:
        topics = list(dict.fromkeys(each.topic for each in ranges))
        replicas = self.admin.describe_replicas(topics) if topics else []
        return {
            replica.partition: LogSize(replica.end - replica.start, replica.size_bytes)
            for replica in replicas
            if replica.is_leader
        }


def range_of(topic_ids: Mapping[str, UUID], partition: TopicPartition, start: int, end: int) -> OffsetRange:
    return OffsetRange(partition.topic, topic_ids[partition.topic].bytes, partition.partition, start, end)
