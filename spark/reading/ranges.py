"""Splits ranges of offsets into Spark partitions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lograft.clients.types import TopicPartition
from lograft.spark.common.options import MAX_PARTS, SplitOptions
from lograft.spark.common.range_reader import OffsetRange


@dataclass(frozen=True, slots=True)
class LogSize:
    """The size of a whole log, from which the size of a part is estimated."""

    offsets: int
    size_bytes: int

    def bytes_of(self, count: int) -> float:
        return count * self.size_bytes / self.offsets if self.offsets else 0.0


def split_ranges(
    ranges: Sequence[OffsetRange], options: SplitOptions, sizes: Mapping[TopicPartition, LogSize]
) -> list[OffsetRange]:
    """Return the ranges that are not empty, split where the options require it, in the same order."""
    filled = [each for each in ranges if each.count > 0]
    parts = [_parts_by_limits(each, options, sizes.get(each.name)) for each in filled]
    if options.min_partitions is not None and sum(parts) < options.min_partitions:
        parts = _more_parts(filled, parts, options.min_partitions)
    return [part for each, count in zip(filled, parts, strict=True) for part in cut(each, count)]


def _parts_by_limits(wanted: OffsetRange, options: SplitOptions, size: LogSize | None) -> int:
    parts = 1
    if options.max_records is not None:
        parts = max(parts, -(-wanted.count // options.max_records))
    if options.max_bytes is not None and size is not None:
        parts = max(parts, -int(-size.bytes_of(wanted.count) // options.max_bytes))
    return min(parts, wanted.count, MAX_PARTS)


def _more_parts(ranges: Sequence[OffsetRange], parts: Sequence[int], at_least: int) -> list[int]:
    """Distribute the missing parts in proportion to the ranges' sizes, then split the largest parts until there are
    enough."""
    total = sum(each.count for each in ranges)
    shares = [
        min(each.count, max(count, at_least * each.count // total)) for each, count in zip(ranges, parts, strict=True)
    ]
    while sum(shares) < at_least:
        largest = max(range(len(ranges)), key=lambda at: ranges[at].count / shares[at], default=None)
        if largest is None or shares[largest] >= ranges[largest].count:
            break  # every part has one offset
        shares[largest] += 1
    return shares


def cut(wanted: OffsetRange, parts: int) -> list[OffsetRange]:
    """Split a range into this many parts of nearly equal size."""
    edges = [wanted.start + wanted.count * at // parts for at in range(parts + 1)]
    return [replace(wanted, start=start, end=end) for start, end in pairwise(edges)]
