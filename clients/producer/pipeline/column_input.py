"""Converts the input of `send_many` (lists, Arrow arrays, or a table) to the producer's columns."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lograft.clients.errors import InvalidArgument
from lograft.clients.producer.pipeline.submission import RecordColumns
from lograft.clients.records.list_columns import ListColumns, SizedLists
from lograft.clients.records.serializers import Serializer, serialize
from lograft.clients.records.validation import (
    check_bytes_column,
    check_count,
    check_header_lists,
    check_partitions,
    check_size,
    check_timestamp,
    check_timestamps,
)

PIECE_BYTES = 1024 * 1024
"""How much `send_many` submits at a time, so that it never needs the producer's whole buffer at once."""

# Lists of at least this many records are converted to Arrow, which is slow to import but takes a third of the time to
# send.
_WORTH_ARROW = 500


@dataclass(frozen=True, slots=True)
class Serializers:
    """The serializers of keys and values; None: they are bytes."""

    key: Serializer | None = None
    value: Serializer | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None


@dataclass(frozen=True, slots=True)
class GivenColumns:
    """`partitions`: the partition given for each record, or None where none is; None if no record has one."""

    columns: RecordColumns
    partitions: list[int | None] | None = None

    def pieces(self, most_bytes: int, batch_bytes: int) -> list["GivenColumns"]:
        """Split the records into pieces of at most `most_bytes`, or a single record. If a piece has room for whole
        batches of at most `batch_bytes`, it ends with a full one. Raise `BatchTooLarge` if a record is too large."""
        pieces = []
        start, count = 0, len(self.columns)
        while start < count:
            end = self._piece_end(start, most_bytes, batch_bytes)
            check_size(self.columns.bytes_between(start, end) if end == start + 1 else 0)
            part = self.columns.cut(start, end)
            columns = SizedLists.of(part) if isinstance(part, ListColumns) else part
            pieces.append(GivenColumns(columns, self.partitions and self.partitions[start:end]))
            start = end
        return pieces

    def _piece_end(self, start: int, most_bytes: int, batch_bytes: int) -> int:
        """Return the end of the piece. Leave the rest after the last full batch to the next piece: it would become a
        tiny batch, which costs every broker as much as a large one."""
        columns = self.columns
        limit = max(columns.fitting(start, most_bytes), start + 1)
        end = start
        while (batch_end := max(columns.fitting(end, batch_bytes), end + 1)) <= limit:
            end = batch_end
        return limit if end == start else end


def given_columns(
    topic: str, values: Any, keys: Any, timestamps: Any, headers: Any, serializers: Serializers, now_ms: int
) -> GivenColumns:
    """Convert the columns. Raise `InvalidArgument` or `SerializationError` if any record cannot be sent; then none
    is."""
    check_timestamp(timestamps if isinstance(timestamps, int) else None)
    given = _from_arrow if any(map(_is_arrow, (values, keys))) else _from_lists
    return given(topic, values, keys, timestamps, headers, serializers, now_ms)


def _is_arrow(something: object) -> bool:
    if "pyarrow" not in sys.modules:
        return False  # no Arrow object can exist
    from lograft.clients.records.arrow_columns import is_arrow

    return is_arrow(something)


def _from_lists(
    topic: str, values: Any, keys: Any, timestamps: Any, headers: Any, serializers: Serializers, now_ms: int
) -> GivenColumns:
    # Copy, since the caller may change its lists later.
    own_values = _serialized(topic, "value", _listed("values", values), serializers.value)
    count = len(own_values)
    own_keys = None if keys is None else _serialized(topic, "key", _listed("keys", keys), serializers.key)
    own_timestamps = now_ms if timestamps is None else timestamps
    if not isinstance(own_timestamps, int):
        own_timestamps = _listed("timestamps", own_timestamps)
        check_timestamps(own_timestamps)
        check_count("timestamps", own_timestamps, count)
    own_headers = None if headers is None else check_header_lists(_listed("headers", headers))
    check_bytes_column("values", own_values)
    for name, column in (("keys", own_keys), ("headers", own_headers)):
        if column is not None:
            check_count(name, column, count)
    if own_keys is not None:
        check_bytes_column("keys", own_keys)
    if count >= _WORTH_ARROW and own_headers is None:
        from lograft.clients.records.arrow_columns import Given, arrow_columns

        return GivenColumns(arrow_columns(Given(own_values, own_keys, own_timestamps), now_ms))
    each_timestamp = [own_timestamps] * count if isinstance(own_timestamps, int) else own_timestamps
    return GivenColumns(SizedLists.of(ListColumns(own_values, own_keys, each_timestamp, own_headers)))


def _listed(name: str, given: Iterable[Any]) -> list[Any]:
    if isinstance(given, str | bytes | bytearray | dict) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name} is of type {type(given).__name__}: give a list, or an Arrow array")
    return list(given)


def _serialized(topic: str, part: str, column: list[Any], serializer: Serializer | None) -> list[Any]:
    return column if serializer is None else [serialize(serializer, topic, part, each) for each in column]


def _from_arrow(
    topic: str, values: Any, keys: Any, timestamps: Any, headers: Any, serializers: Serializers, now_ms: int
) -> GivenColumns:
    from lograft.clients.records.arrow_columns import Given, arrow_columns, columns_of_table

    if hasattr(values, "schema"):
        if any(each is not None for each in (keys, timestamps, headers)):
            raise InvalidArgument("keys, timestamps and headers are columns of the table, if there is one")
        given = columns_of_table(values)
    else:
        given = Given(values, keys, timestamps, headers)
    partitions = None
    if given.partitions is not None:
        partitions = given.partitions.to_pylist()
        check_partitions(partitions)
    if serializers:
        found = _from_lists(
            topic,
            _python(given.values),
            _python(given.keys),
            timestamps_in_ms(given.timestamps),
            _header_lists(given.headers),
            serializers,
            now_ms,
        )
        return GivenColumns(found.columns, partitions)
    return GivenColumns(arrow_columns(given, now_ms), partitions)


def _python(column: Any) -> Any:
    """Return the column as Python objects, for serializers."""
    return column.to_pylist() if _is_arrow(column) else column


def timestamps_in_ms(timestamps: Any) -> Any:
    """Return the timestamps as integers, converting Arrow arrays."""
    from lograft.storage.batch import arrow_payload as arrow_layout

    return arrow_layout.timestamps_list(timestamps).tolist() if _is_arrow(timestamps) else timestamps


def _header_lists(headers: Any) -> Any:
    from lograft.storage.batch import arrow_payload as arrow_layout

    return arrow_layout.header_pairs(arrow_layout.headers_array(headers)) if _is_arrow(headers) else headers
