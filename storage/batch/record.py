"""Decoded batches: one named tuple per record, or one list per column."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias

if TYPE_CHECKING:  # defaults of type variables came to `typing` in Python 3.13
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple, Generic[K, V]):
    """One record as a consumer sees it. The timestamp is in milliseconds; headers are ordered, names may repeat.

    Key and value are bytes or None, unless the consumer has deserializers: then they are of types `K` and `V`.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K
    value: V
    headers: Headers


class Columns(NamedTuple):
    """The records of one batch, a sequence a column, all of the same length; offsets and timestamps are absolute."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]

    def part(self, start: int, end: int | None = None) -> "Columns":
        """Return the columns of records `start` to `end`, counted from 0."""
        return Columns(
            self.offsets[start:end],
            self.timestamps[start:end],
            self.keys[start:end],
            self.values[start:end],
            self.headers[start:end],
        )


def records_of(topic: str, partition: int, *columns: Iterable[object]) -> Iterator[Record]:
    """Yield records from the columns of `Columns`, lazily.

    Built by C code: the class's constructor would take as long as the rest of decoding.
    """
    rows = zip(repeat(topic), repeat(partition), *columns, strict=False)
    return map(tuple.__new__, repeat(Record), rows)
