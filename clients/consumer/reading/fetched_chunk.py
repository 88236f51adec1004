"""Received batches of a partition, opened one after the other. Pure."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from lograft.clients.consumer.reading.fetch_credit import FetchCredit
from lograft.storage.batch.codec import BatchHeader, decode_arrow, iterate_batches, validate_payload
from lograft.storage.batch.header import check_crc
from lograft.storage.errors import InvalidBatch

Bytes: TypeAlias = bytes | memoryview
T = TypeVar("T")


class Damaged(Exception):
    """Records that cannot be read. The message says why and, if `batch` is known, where to continue after it."""

    def __init__(self, message: str, batch: BatchHeader | None = None) -> None:
        super().__init__(message)
        self.batch = batch


class NotAsStored(Damaged):
    """The bytes are not those that a broker accepted: this copy was damaged on disk, in memory or in transit. Another
    replica may have the records, so they are never skipped."""


class FetchedChunk:
    """Batches that broker `source` sent in a leader's epoch, up to `next_offset`, which use `credit` until released.
    `walked_epoch`: the leader epoch of the last batch reached, whether opened or skipped."""

    def __init__(self, batches: Bytes, next_offset: int, credit: FetchCredit, leader_epoch: int, source: int) -> None:
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.source = source
        self._view = memoryview(batches)
        self._credit = credit
        self._batches: Iterator[tuple[int, BatchHeader]] = iterate_batches(batches)
        self._current: tuple[BatchHeader, memoryview] | None = None
        self._arrow: Any = None  # the current batch, decoded
        self.walked_epoch: int | None = None

    @property
    def size_bytes(self) -> int:
        return len(self._view)

    def release(self) -> None:
        """Return the credit of this chunk, which is no longer held."""
        self._credit.freed(len(self._view))

    def batch_at(self, position: int) -> tuple[BatchHeader, memoryview] | None:
        """Return the batch with the next records from `position` on, or None if none are left. Its CRC and payload are
        validated, but records are not decoded. It stays current until the position is past it. Skip control batches,
        which users do not see."""
        while self._current is None or self._current[0].next_offset <= position:
            try:
                start, header = next(self._batches)
            except StopIteration:
                return None
            except InvalidBatch as error:
                raise NotAsStored(str(error)) from error
            self.walked_epoch = header.leader_epoch
            if header.next_offset > position and not header.is_control:
                self._current, self._arrow = (header, self._checked(start, header)), None
        return self._current

    def arrow_at(self, position: int) -> tuple[BatchHeader, Any] | None:
        """Like `batch_at`, with the records from `position` on as an Arrow RecordBatch, sharing the chunk's memory if
        possible."""
        current = self.batch_at(position)
        if current is None:
            return None
        header, view = current
        if self._arrow is None:
            self._arrow = open_batch(header, lambda: decode_arrow(view))
        if position <= header.base_offset:
            return header, self._arrow
        first = int(self._arrow.column("offset").to_numpy().searchsorted(position))
        return header, self._arrow.slice(first)

    def _checked(self, start: int, header: BatchHeader) -> memoryview:
        try:
            check_crc(self._view, start, header)
        except InvalidBatch as error:
            raise NotAsStored(f"{error}; {_way_past(header)}", header) from error
        open_batch(header, lambda: validate_payload(self._view, start, header))
        return self._view[start : start + header.total_bytes]

    def last_epoch(self) -> int | None:
        """Return the leader epoch of the last batch, or None if there is none or a batch is damaged."""
        epoch = None
        try:
            for _, header in iterate_batches(self._view):
                epoch = header.leader_epoch
        except InvalidBatch:
            return None
        return epoch


def open_batch(header: BatchHeader, opened: Callable[[], T]) -> T:
    """Return the result of `opened`. Raise `Damaged` with the header if the batch is invalid: its end is known, so it
    can be skipped."""
    try:
        return opened()
    except InvalidBatch as error:
        raise Damaged(f"{error}; {_way_past(header)}", header) from error


def _way_past(header: BatchHeader) -> str:
    return f"seek to {header.next_offset} to pass over it"
