"""Digests of a log's batches and records, to compare copies without sending them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from lograft.runtime.files import Buffer
from lograft.storage.batch.codec import decode_columns, iterate_batches
from lograft.storage.batch.header import BatchHeader
from lograft.storage.errors import InvalidBatch

NOTHING = 0
"""The placeholder for the digest of a null key or value."""

_BYTES = 8


class RecordDigests(NamedTuple):
    """Digests of records, one sequence per column. `contents` covers value, timestamp and headers.

    `undecodable` holds the batches without readable records.
    """

    offsets: Sequence[int]
    keys: Sequence[int]
    contents: Sequence[int]
    undecodable: Sequence[BatchHeader] = ()


def batches_within(buffers: Iterable[Buffer], start: int, end: int) -> list[BatchHeader]:
    """Return the batches that begin in the range: base offset, epoch, size and CRC identify an intact batch."""
    return [header for _, _, header in _iterate(buffers) if start <= header.base_offset < end]


def records_within(buffers: Iterable[Buffer], start: int, end: int) -> RecordDigests:
    """Digest each record. Return batches that cannot be decoded as `undecodable`; skip control batches, which have no
    records for readers."""
    offsets: list[int] = []
    keys: list[int] = []
    contents: list[int] = []
    undecodable: list[BatchHeader] = []
    for buffer, position, header in _iterate(buffers):
        if header.is_control:
            continue
        try:
            columns = decode_columns(memoryview(buffer)[position : position + header.total_bytes])
        except InvalidBatch:
            if start <= header.base_offset < end:
                undecodable.append(header)
            continue
        for offset, timestamp, key, value, headers in zip(*columns, strict=True):
            if start <= offset < end:
                offsets.append(offset)
                keys.append(NOTHING if key is None else _digest(key))
                contents.append(NOTHING if value is None else _digest(value, timestamp, headers))
    return RecordDigests(offsets, keys, contents, undecodable)


def _iterate(buffers: Iterable[Buffer]) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    for buffer in buffers:
        for position, header in iterate_batches(buffer):
            yield buffer, position, header


def _digest(content: bytes, *more: object) -> int:
    state = blake2b(content, digest_size=_BYTES)
    if more:
        state.update(repr(more).encode())
    return int.from_bytes(state.digest()) or 1
