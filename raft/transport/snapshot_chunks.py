"""Splitting a snapshot into chunks, and assembling them. Pure."""

from collections.abc import Iterator

import google_crc32c

from lograft.raft.core.configuration import Member
from lograft.raft.core.messages import InstallSnapshot
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.interfaces import Snapshot
from lograft.raft.transport.envelope_codec import SnapshotChunk


class SnapshotRefused(Exception):
    """The chunks do not make a snapshot, or not an acceptable one. The sender may start over."""


def cut(sender: Member, order: SnapshotToSend, snapshot: Snapshot, chunk_bytes: int) -> Iterator[SnapshotChunk]:
    """Yield the chunks of `snapshot`, in order; at least one, whatever its size."""
    data = snapshot.data
    crc32c = google_crc32c.value(data)
    for offset in range(0, max(len(data), 1), chunk_bytes):
        piece = data[offset : offset + chunk_bytes]
        is_last = offset + len(piece) == len(data)
        yield SnapshotChunk(
            order.recipient, sender, order.term, snapshot.metadata, offset, piece, is_last, len(data), crc32c
        )


class SnapshotAssembly:
    """Assembles one snapshot from `sender` for `recipient`, chunk by chunk in order."""

    def __init__(self, sender: Member, recipient: Member, max_bytes: int) -> None:
        self._sender = sender
        self._recipient = recipient
        self._max_bytes = max_bytes
        self._first: SnapshotChunk | None = None
        self._pieces: list[bytes] = []
        self._size_bytes = 0
        self._crc32c = 0

    def add(self, chunk: SnapshotChunk) -> InstallSnapshot | None:
        """Add a chunk; return the snapshot after the last one. Raise SnapshotRefused if the chunk does not fit."""
        self._check(chunk)
        self._pieces.append(chunk.data)
        self._size_bytes += len(chunk.data)
        self._crc32c = google_crc32c.extend(self._crc32c, chunk.data)
        if self._size_bytes < chunk.total_bytes:
            return None
        if self._crc32c != chunk.crc32c:
            raise SnapshotRefused(f"CRC-32C is {self._crc32c:08x}, not {chunk.crc32c:08x}")
        return InstallSnapshot(chunk.sender, chunk.term, chunk.metadata, b"".join(self._pieces))

    def _check(self, chunk: SnapshotChunk) -> None:
        if self._first is None:
            self._first = chunk
        if (chunk.sender, chunk.recipient) != (self._sender, self._recipient):
            raise SnapshotRefused(f"a chunk from {chunk.sender} for {chunk.recipient}")
        if _snapshot_of(chunk) != _snapshot_of(self._first):
            raise SnapshotRefused("a chunk of another snapshot")
        if chunk.total_bytes > self._max_bytes:
            raise SnapshotRefused(f"{chunk.total_bytes} bytes, over the limit of {self._max_bytes}")
        if chunk.offset != self._size_bytes:
            raise SnapshotRefused(f"a chunk at {chunk.offset} where {self._size_bytes} is expected")
        if self._size_bytes + len(chunk.data) > chunk.total_bytes:
            raise SnapshotRefused(f"more than the {chunk.total_bytes} bytes there should be")
        if not chunk.data and chunk.total_bytes:
            raise SnapshotRefused("a chunk of nothing")


def _snapshot_of(chunk: SnapshotChunk) -> tuple[object, ...]:
    """Return the fields that all chunks of a snapshot share."""
    return (chunk.term, chunk.metadata, chunk.total_bytes, chunk.crc32c)
