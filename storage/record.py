"""What a batch decodes to: one named tuple a record, or one list a column."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as a consumer sees it. The timestamp is in milliseconds; headers are ordered, names may repeat."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Columns(NamedTuple):
    """The records of one batch, a sequence a column, all of the same length; offsets and timestamps are absolute."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]
