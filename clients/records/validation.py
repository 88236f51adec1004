"""Validation of records given to a producer, single or in columns. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from lograft.clients.errors import BatchTooLarge, InvalidArgument
from lograft.clients.records.list_columns import HeaderPairs
from lograft.clients.types import check_topic, is_text
from lograft.runtime.network import MAX_MESSAGE_BYTES
from lograft.storage.batch.header import MAX_TIMESTAMP

MAX_RECORD_BYTES = MAX_MESSAGE_BYTES - 1024 * 1024
"""A batch travels in one message, with some overhead around it."""

HeadersOption: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
"""Headers as users give them: a dict, or pairs, in which names may repeat."""

_BYTES_OR_NONE = {bytes, type(None)}


def check_place(topic: object, partition: object) -> None:
    check_topic(topic)
    if partition is not None and not isinstance(partition, int):
        raise InvalidArgument(f"the partition is {partition!r}: give its number, or None")


def check_record(key: object, value: object, headers: HeadersOption | None) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers as pairs. Raise `InvalidArgument` for a key or value that is not bytes."""
    for name, content in (("key", key), ("value", value)):
        if content is not None and not isinstance(content, bytes):
            kind = type(content).__name__
            raise InvalidArgument(
                f"the {name} is of type {kind}: give bytes, None, or the producer a {name}_serializer"
            )
    return check_headers(headers) if headers else ()


def check_headers(headers: HeadersOption) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers as pairs. Raise `InvalidArgument` for an invalid one."""
    pairs = tuple(tuple(pair) for pair in (headers.items() if isinstance(headers, Mapping) else headers))
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], bytes | None):
            raise InvalidArgument(f"{pair!r} is not a header: give a dict, or pairs, of a string and bytes (or None)")
        if not pair[0].isascii() and not is_text(pair[0]):
            raise InvalidArgument(f"the header name {pair[0]!r} cannot be written as UTF-8")
    return pairs


def check_timestamp(timestamp: object) -> None:
    if timestamp is not None and (not isinstance(timestamp, int) or not 0 <= timestamp <= MAX_TIMESTAMP):
        raise InvalidArgument(f"the timestamp is {timestamp!r}: give milliseconds since 1970, or None for now")


def check_size(size_bytes: int) -> None:
    if size_bytes > MAX_RECORD_BYTES:
        raise BatchTooLarge(f"a record of {size_bytes} bytes is over the limit of {MAX_RECORD_BYTES}: split it")


# -- columns


def check_bytes_column(name: str, column: Sequence[object]) -> None:
    """Check types only, without a Python loop over records unless one is invalid."""
    if set(map(type, column)) <= _BYTES_OR_NONE:
        return
    for index, content in enumerate(column):
        if content is not None and not isinstance(content, bytes):
            raise InvalidArgument(f"{name}[{index}] is of type {type(content).__name__}: give bytes, or None")


def check_timestamps(timestamps: Sequence[Any]) -> None:
    if set(map(type, timestamps)) <= {int} and (not timestamps or _are_times(min(timestamps), max(timestamps))):
        return
    for timestamp in timestamps:
        check_timestamp(timestamp)
        if timestamp is None:
            raise InvalidArgument("a timestamp is None: give one for each record, one for all, or none at all")


def _are_times(smallest: int, largest: int) -> bool:
    return smallest >= 0 and largest <= MAX_TIMESTAMP


def check_header_lists(headers: Sequence[Any]) -> list[HeaderPairs]:
    """Return each record's headers as pairs."""
    return [check_headers(pairs) if pairs else () for pairs in headers]


def check_partitions(partitions: Sequence[Any]) -> None:
    for partition in partitions:
        check_place("", partition)


def check_count(name: str, column: Sequence[Any], count: int) -> None:
    if len(column) != count:
        raise InvalidArgument(f"there are {count} values, and {len(column)} {name}")
