"""Records between the threads that send them and the loop: in parcels, in the order they were sent. Pure."""

from collections.abc import Callable
from typing import Generic, TypeVar

from lograft.clients.producer.pipeline.submission import Parcel
from lograft.clients.records.list_columns import HeaderPairs, SizedLists

PARCEL_BYTES = 256 * 1024
"""When a parcel is full: what the loop handles without a pause."""

P = TypeVar("P", bound=Parcel)


class OpenParcel(Generic[P]):
    """One that takes more records, up to `limit_bytes`: so much of the producer's buffer is set aside for it.
    `is_plain`: none has more than a value and a timestamp. Whoever adds one by
    itself has to `cut` it off again if it is interrupted.
    """

    __slots__ = ("_lists", "ends", "is_plain", "limit_bytes", "parcel", "size_bytes", "timestamps", "values")

    def __init__(self, parcel: P, limit_bytes: int) -> None:
        assert isinstance(parcel.columns, SizedLists)
        self.parcel = parcel
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self.is_plain = True
        self._lists = parcel.columns.lists
        self.values = self._lists.values
        self.timestamps = self._lists.timestamps
        self.ends = parcel.columns.ends

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderPairs,
        partition: int | None,
        size_bytes: int,
    ) -> int:
        """Its index. An interrupt, which may come between any two lines, leaves all of it or nothing."""
        lists, index = self._lists, len(self.ends)
        try:
            self.values.append(value)
            self.timestamps.append(timestamp)
            if key is not None or lists.keys is not None:
                lists.add_key(key, index)
            if headers or lists.headers is not None:
                lists.add_headers(headers, index)
            if partition is not None or self.parcel.partitions is not None:
                self._add_partition(partition, index)
            self.is_plain = lists.keys is None and lists.headers is None and self.parcel.partitions is None
            self.size_bytes += size_bytes
            self.ends.append(self.size_bytes)
        except BaseException:
            self.cut(index)
            raise
        return index

    def _add_partition(self, partition: int | None, index: int) -> None:
        if self.parcel.partitions is None:
            self.parcel.partitions = [None] * index
        self.parcel.partitions.append(partition)

    def cut(self, count: int) -> None:
        """Back to the first so many records."""
        lists = self._lists
        columns = (self.values, lists.keys, self.timestamps, lists.headers, self.parcel.partitions, self.ends)
        for column in columns:
            if column is not None:
                del column[count:]
        self.size_bytes = self.ends[-1] if self.ends else 0


class Staging(Generic[P]):
    """Invariant: of each topic at most one parcel is open, and it is the last of that topic."""

    def __init__(self, make_parcel: Callable[[str, SizedLists], P]) -> None:
        self._make_parcel = make_parcel
        self._parcels: list[P] = []
        self.open_parcels: dict[str, OpenParcel[P]] = {}

    @property
    def size_bytes(self) -> int:
        """Of all records, and of what is set aside for more."""
        aside_bytes = sum(each.limit_bytes - each.size_bytes for each in self.open_parcels.values())
        return aside_bytes + sum(parcel.size_bytes for parcel in self._parcels)

    def open(self, topic: str, limit_bytes: int) -> OpenParcel[P]:
        """Another parcel for the topic, behind all that was sent before."""
        parcel = self._make_parcel(topic, SizedLists())
        self._parcels.append(parcel)
        opened = self.open_parcels[topic] = OpenParcel(parcel, limit_bytes)
        return opened

    def put(self, parcel: P) -> None:
        """A whole parcel, behind all that was sent before."""
        self.open_parcels.pop(parcel.topic, None)
        self._parcels.append(parcel)

    def close_all(self) -> None:
        """Nothing is set aside any more."""
        self.open_parcels.clear()

    def take(self) -> list[P]:
        """All there is."""
        self.close_all()
        parcels, self._parcels = self._parcels, []
        return [parcel for parcel in parcels if len(parcel)]
