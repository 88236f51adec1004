"""Records as columns, which is how a producer keeps them: whole lists are taken in, cut and sealed without looking at a
record. `arrow_columns` has the same for Arrow. Pure.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Self, TypeAlias

HeaderPairs: TypeAlias = Sequence[tuple[str, bytes | None]]

RECORD_OVERHEAD_BYTES = 16
"""Timestamp delta, and the offsets of key and value."""

_HEADER_OVERHEAD_BYTES = 8


def record_bytes(key: bytes | None, value: bytes | None, headers: HeaderPairs) -> int:
    """About how much of a batch a record takes; not less than it does."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size


class Sized:
    """Columns that know where, in bytes, each record ends. What is left for those of lists and those of Arrow to say is
    how they are cut."""

    __slots__ = ()

    ends: Any
    """The bytes of all records up to each, itself included."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def size_bytes(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def bytes_before(self, index: int) -> int:
        return int(self.ends[index - 1]) if index else 0

    def fitting(self, start: int, room_bytes: int) -> int:
        """Where the records from `start` on that fit into `room_bytes` end; `start` if not even one does."""
        return bisect_right(self.ends, self.bytes_before(start) + room_bytes, start)


@dataclass(slots=True, eq=False)
class ListColumns(Sized):
    """Invariant: all of one length. `headers` is None while no record has any."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    headers: list[HeaderPairs] | None = None

    @classmethod
    def of(
        cls,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        timestamps: int | list[int],
        headers: list[HeaderPairs] | None = None,
    ) -> Self:
        """Of lists that are not changed any more."""
        count = len(values)
        return cls(
            values,
            [None] * count if keys is None else keys,
            [timestamps] * count if isinstance(timestamps, int) else timestamps,
            list(accumulate(_sizes(values, keys, headers))),
            headers,
        )

    def add(
        self, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderPairs, size_bytes: int
    ) -> None:
        self.values.append(value)
        self.keys.append(key)
        self.timestamps.append(timestamp)
        if headers or self.headers is not None:
            self.add_headers(headers)
        self.ends.append(self.size_bytes + size_bytes)

    def add_headers(self, headers: HeaderPairs) -> None:
        """Of the record that is being added."""
        if self.headers is None:
            self.headers = [()] * (len(self.timestamps) - 1)
        self.headers.append(headers)

    def extend(self, other: "ListColumns", start: int, end: int) -> None:
        """Add those of `other` from `start` to `end`."""
        shift = self.size_bytes - other.bytes_before(start)
        if other.headers is not None or self.headers is not None:
            mine = self.headers if self.headers is not None else [()] * len(self)
            theirs: Sequence[HeaderPairs] = (
                other.headers[start:end] if other.headers is not None else [()] * (end - start)
            )
            self.headers = [*mine, *theirs]
        self.values += other.values[start:end]
        self.keys += other.keys[start:end]
        self.timestamps += other.timestamps[start:end]
        self.ends += map(shift.__add__, other.ends[start:end]) if shift else other.ends[start:end]

    def part(self, start: int, end: int) -> "ListColumns":
        some = ListColumns()
        some.extend(self, start, end)
        return some

    def pick(self, indices: Sequence[int]) -> "ListColumns":
        """Those records, in that order."""
        keys: list[bytes | None] = list(map(self.keys.__getitem__, indices))
        headers = self.headers and list(map(self.headers.__getitem__, indices))
        values, timestamps = (list(map(each.__getitem__, indices)) for each in (self.values, self.timestamps))
        return ListColumns.of(values, keys, timestamps, headers)  # type: ignore[arg-type]

    @property
    def has_keys(self) -> bool:
        return self.keys.count(None) < len(self.keys)

    def each_key(self) -> Sequence[bytes | None]:
        return self.keys

    def as_lists(self) -> "ListColumns":
        return self

    def timestamp(self, index: int) -> int:
        return self.timestamps[index]

    def only_timestamps(self) -> "ListColumns":
        """What is kept of them once they are stored, for those who ask where."""
        return ListColumns([], [], self.timestamps, [self.size_bytes] * len(self))


def _sizes(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, headers: Sequence[HeaderPairs] | None
) -> Iterable[int]:
    if headers is not None or None in values or (keys is not None and None in keys):
        every_key: Sequence[bytes | None] = [None] * len(values) if keys is None else keys
        every_header: Sequence[HeaderPairs] = [()] * len(values) if headers is None else headers
        return map(record_bytes, every_key, values, every_header)
    lengths: Iterable[int] = map(RECORD_OVERHEAD_BYTES.__add__, map(len, values))  # type: ignore[arg-type]
    return lengths if keys is None else map(int.__add__, lengths, map(len, keys))  # type: ignore[arg-type]
