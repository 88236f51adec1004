"""Records as columns, the producer's internal form: whole lists are accepted, cut and sealed without a Python loop over
records. `arrow_columns` does the same for Arrow. Pure.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeAlias

HeaderPairs: TypeAlias = Sequence[tuple[str, bytes | None]]

RECORD_OVERHEAD_BYTES = 16
"""For the timestamp delta and the offsets of key and value."""

_HEADER_OVERHEAD_BYTES = 8


def record_bytes(key: bytes | None, value: bytes | None, headers: HeaderPairs) -> int:
    """Return about how many bytes a record takes in a batch. It takes a few bits more if other records of the batch
    have a key, a value or headers where it has none."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size


@dataclass(slots=True, eq=False)
class ListColumns:
    """Invariant: all columns have the same length, except that `keys` and `headers` are None while no record has
    any."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    timestamps: list[int] = field(default_factory=list)
    headers: list[HeaderPairs] | None = None
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.timestamps)

    def add(
        self, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderPairs, size_bytes: int
    ) -> None:
        count = len(self.timestamps)
        self.values.append(value)
        self.timestamps.append(timestamp)
        if key is not None or self.keys is not None:
            self.add_key(key, count)
        if headers or self.headers is not None:
            self.add_headers(headers, count)
        self.size_bytes += size_bytes

    def add_key(self, key: bytes | None, index: int) -> None:
        """Add the key of the record being added at `index`."""
        if self.keys is None:
            self.keys = [None] * index
        self.keys.append(key)

    def add_headers(self, headers: HeaderPairs, index: int) -> None:
        """Add the headers of the record being added at `index`."""
        if self.headers is None:
            self.headers = [()] * index
        self.headers.append(headers)

    def extend(self, other: "ListColumns", start: int, end: int, size_bytes: int) -> None:
        """Add the records of `other` from `start` to `end`, whose size is `size_bytes`."""
        self.keys = _joined(self.keys, len(self), other.keys, start, end, None)
        self.headers = _joined(self.headers, len(self), other.headers, start, end, ())
        self.values += other.values[start:end]
        self.timestamps += other.timestamps[start:end]
        self.size_bytes += size_bytes

    def part(self, start: int, end: int) -> "ListColumns":
        return SizedLists.of(self).cut(start, end)

    def timestamp(self, index: int) -> int:
        return self.timestamps[index]

    def only_timestamps(self) -> "ListColumns":
        """Return the columns without contents: stored records only need timestamps, for their metadata."""
        return ListColumns([], None, self.timestamps, None, self.size_bytes)


def _joined(
    mine: list[Any] | None, count: int, theirs: list[Any] | None, start: int, end: int, missing: Any
) -> list[Any] | None:
    """Concatenate a column that either side may lack; `missing` fills in for it."""
    if theirs is None and mine is None:
        return None
    if mine is None:
        mine = [missing] * count
    mine += [missing] * (end - start) if theirs is None else theirs[start:end]
    return mine


def record_sizes(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, headers: Sequence[HeaderPairs] | None
) -> Iterable[int]:
    """Return `record_bytes` of each record."""
    if headers is not None or None in values or (keys is not None and None in keys):
        every_key: Sequence[bytes | None] = [None] * len(values) if keys is None else keys
        every_header: Sequence[HeaderPairs] = [()] * len(values) if headers is None else headers
        return map(record_bytes, every_key, values, every_header)
    lengths: Iterable[int] = map(RECORD_OVERHEAD_BYTES.__add__, map(len, values))  # type: ignore[arg-type]
    return lengths if keys is None else map(int.__add__, lengths, map(len, keys))  # type: ignore[arg-type]


class Sized:
    """Columns that know where each record ends in bytes, so that they can be cut into batches."""

    __slots__ = ()

    ends: Any
    """The total size of the records up to and including each."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def size_bytes(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def bytes_before(self, index: int) -> int:
        return int(self.ends[index - 1]) if index else 0

    def bytes_between(self, start: int, end: int) -> int:
        return self.bytes_before(end) - self.bytes_before(start)

    def fitting(self, start: int, room_bytes: int) -> int:
        """Return the end of the records from `start` that fit into `room_bytes`; `start` if none does."""
        return bisect_right(self.ends, self.bytes_before(start) + room_bytes, start)


@dataclass(slots=True, eq=False)
class SizedLists(Sized):
    """Lists with their record sizes."""

    lists: ListColumns = field(default_factory=ListColumns)
    ends: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, lists: ListColumns) -> "SizedLists":
        """Create from lists whose `size_bytes` is not computed yet, and set it."""
        ends = list(accumulate(record_sizes(lists.values, lists.keys, lists.headers)))
        lists.size_bytes = ends[-1] if ends else 0
        return cls(lists, ends)

    @property
    def has_keys(self) -> bool:
        return self.lists.keys is not None

    def cut(self, start: int, end: int) -> ListColumns:
        """Return the records from `start` to `end` as the contents of a batch."""
        some = ListColumns()
        some.extend(self.lists, start, end, self.bytes_between(start, end))
        return some

    def pick(self, indices: Sequence[int]) -> "SizedLists":
        """Return the records at these indices, in that order."""
        columns = (self.lists.values, self.lists.keys, self.lists.timestamps, self.lists.headers)
        values, keys, timestamps, headers = (each and list(map(each.__getitem__, indices)) for each in columns)
        return SizedLists.of(ListColumns(values or [], keys, timestamps or [], headers))  # type: ignore[arg-type]

    def as_lists(self) -> ListColumns:
        return self.lists
