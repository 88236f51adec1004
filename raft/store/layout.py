"""The layout of a Raft store in LMDB: its keys and their values.

    format            the version of this layout
    identity          the owner of the store
    starts            the openings of the store
    seen MEMBER       the latest opening noted of another member's store (MEMBER: node id, big-endian, and
                      directory id)
    hard-state        term, vote, commit index
    snapshot          the latest snapshot's metadata; its data is in pieces, under
    snapshot-data N   (N big-endian), none for a snapshot of nothing
    ~ INDEX           an entry of the log (INDEX big-endian, so in order)

Every value ends with the CRC-32C of its key and content: LMDB itself would not notice a flipped bit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import google_crc32c

from lograft.proto import raft_pb2 as pb
from lograft.proto.wire_format import CodecError
from lograft.raft.core.configuration import Member
from lograft.raft.core.entries import NEW, NOTHING, Entry, HardState, SnapshotMetadata
from lograft.raft.interfaces import Snapshot, StoredState, StoreIdentity
from lograft.raft.store.state_codec import (
    decode_entry,
    decode_hard_state,
    decode_identity,
    decode_seen_start,
    decode_starts,
    encode_entry,
    encode_hard_state,
    encode_identity,
    encode_seen_start,
    encode_starts,
    fill_metadata,
    parse,
    read_metadata,
)
from lograft.raft.store_starts import StoreStart, StoreStarts

if TYPE_CHECKING:
    import lmdb

FORMAT_VERSION = 1

_FORMAT = b"format"
_IDENTITY = b"identity"
_STARTS = b"starts"
_SEEN = b"seen "
_HARD_STATE = b"hard-state"
_SNAPSHOT = b"snapshot"
_PIECE = b"snapshot-data "
_ENTRY = b"~ "  # sorts last, so that entries are appended to the end of the tree and its pages stay full

_MEMBER = struct.Struct(">Q16s")
_CRC_BYTES = 4
_PIECE_BYTES = 256 * 1024
_NO_SNAPSHOT = (NOTHING, 0, 0)

T = TypeVar("T")


class DamagedStore(Exception):
    """The store's content differs from the data written to it."""


# -- keys and values


def _entry_key(index: int) -> bytes:
    return _ENTRY + struct.pack(">Q", index)


def _piece_key(number: int) -> bytes:
    return _PIECE + struct.pack(">I", number)


def _seal(key: bytes, content: bytes) -> bytes:
    return content + struct.pack(">I", google_crc32c.extend(google_crc32c.value(key), content))


def _unseal(key: bytes, value: bytes) -> bytes:
    content = value[:-_CRC_BYTES]
    if _seal(key, content) != value:
        raise DamagedStore(f"the checksum of {_name(key)} is wrong")
    return content


def _name(key: bytes) -> str:
    for prefix, name in ((_ENTRY, "entry"), (_PIECE, "piece")):
        if key.startswith(prefix):
            return f"{name} {int.from_bytes(key[len(prefix) :], 'big')}"
    return repr(key.decode(errors="replace"))


def _decode(key: bytes, value: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(_unseal(key, value))
    except CodecError as error:
        raise DamagedStore(f"{_name(key)} cannot be read: {error}") from None


def _read(transaction: lmdb.Transaction[bytes], key: bytes, decode: Callable[[bytes], T]) -> T | None:
    value = transaction.get(key)
    return None if value is None else _decode(key, value, decode)


def _put(transaction: lmdb.Transaction[bytes], key: bytes, content: bytes) -> None:
    transaction.put(key, _seal(key, content))


# -- identity


def read_format(transaction: lmdb.Transaction[bytes]) -> int | None:
    """Return the layout's version; None if the environment was never used."""
    content = _read(transaction, _FORMAT, bytes)
    if content is None and transaction.stat()["entries"] > 0:
        raise DamagedStore("it holds something, but not its format")
    return None if content is None else int.from_bytes(content, "big")


def write_identity(transaction: lmdb.Transaction[bytes], identity: StoreIdentity) -> None:
    """Make a new store."""
    _put(transaction, _FORMAT, struct.pack(">I", FORMAT_VERSION))
    _put(transaction, _IDENTITY, encode_identity(identity))


def read_identity(transaction: lmdb.Transaction[bytes]) -> StoreIdentity:
    identity = _read(transaction, _IDENTITY, decode_identity)
    if identity is None:
        raise DamagedStore("it has no identity")
    return identity


# -- openings


def read_starts(transaction: lmdb.Transaction[bytes]) -> StoreStarts:
    """Return the openings; none in a store written only by versions that did not count them."""
    return _read(transaction, _STARTS, decode_starts) or StoreStarts()


def write_starts(transaction: lmdb.Transaction[bytes], starts: StoreStarts) -> None:
    _put(transaction, _STARTS, encode_starts(starts))


def read_seen_starts(transaction: lmdb.Transaction[bytes]) -> dict[Member, StoreStart]:
    cursor = transaction.cursor()
    seen = {}
    is_there = cursor.set_range(_SEEN)
    while is_there and cursor.key().startswith(_SEEN):
        key = cursor.key()
        node_id, directory = _MEMBER.unpack(key[len(_SEEN) :])
        seen[Member(node_id, UUID(bytes=directory))] = _decode(key, cursor.value(), decode_seen_start)
        is_there = cursor.next()
    return seen


def write_seen_start(transaction: lmdb.Transaction[bytes], member: Member, start: StoreStart) -> None:
    key = _SEEN + _MEMBER.pack(member.node_id, member.directory_id.bytes)
    _put(transaction, key, encode_seen_start(start))


# -- content


def read_state(transaction: lmdb.Transaction[bytes]) -> StoredState:
    """Return everything except the snapshot's data."""
    identity = read_identity(transaction)
    hard_state = _read(transaction, _HARD_STATE, decode_hard_state) or NEW
    metadata, _, _ = _read(transaction, _SNAPSHOT, _decode_snapshot_record) or _NO_SNAPSHOT
    return StoredState(identity, hard_state, metadata, tuple(_read_entries(transaction, metadata.index + 1)))


def _read_entries(transaction: lmdb.Transaction[bytes], first_index: int) -> Iterator[Entry]:
    """Read entries one by one: if a cursor runs into a damaged page, LMDB aborts the process."""
    cursor = transaction.cursor()
    cursor.last()
    end = max(first_index, int.from_bytes(cursor.key()[len(_ENTRY) :], "big") + 1)
    for index in range(first_index, end if cursor.key().startswith(_ENTRY) else first_index):
        entry = _read(transaction, _entry_key(index), decode_entry)
        if entry is None or entry.index != index:
            raise DamagedStore(f"entry {index} is missing, and there are later ones")
        yield entry


def read_snapshot(transaction: lmdb.Transaction[bytes]) -> Snapshot | None:
    """Return the latest snapshot, if there is one beyond index 0."""
    metadata, size_bytes, pieces = _read(transaction, _SNAPSHOT, _decode_snapshot_record) or _NO_SNAPSHOT
    if metadata.index == 0:
        return None
    contents = []
    for key in map(_piece_key, range(pieces)):
        content = _read(transaction, key, bytes)
        if content is None:
            raise DamagedStore(f"{_name(key)} of {pieces} of the snapshot is missing")
        contents.append(content)
    data = b"".join(contents)
    if len(data) != size_bytes:
        raise DamagedStore(f"the snapshot has {len(data)} bytes, not {size_bytes}")
    return Snapshot(metadata, data)


def _decode_snapshot_record(content: bytes) -> tuple[SnapshotMetadata, int, int]:
    """Return a snapshot's metadata, and how many bytes and pieces its data has."""
    record = parse(pb.StoredSnapshot, content)
    return read_metadata(record.metadata), record.size_bytes, record.pieces


# -- changes


def write_ready(
    transaction: lmdb.Transaction[bytes],
    hard_state: HardState | None,
    entries: Sequence[Entry],
    snapshot: Snapshot | None,
) -> None:
    """Write a Ready. A leader's snapshot replaces the whole log; entries replace everything from the first one on."""
    if snapshot is not None:
        _delete_entries_from(transaction, 0)
        write_snapshot(transaction, snapshot)
    if entries:
        _delete_entries_from(transaction, entries[0].index)
        _append(transaction, entries)
    if hard_state is not None:
        _put(transaction, _HARD_STATE, encode_hard_state(hard_state))


def write_own_snapshot(transaction: lmdb.Transaction[bytes], snapshot: Snapshot) -> None:
    """Write the node's own snapshot; delete entries up to it, keep later ones."""
    cursor = transaction.cursor()
    later = _entry_key(snapshot.metadata.index + 1)
    cursor.set_range(_ENTRY)
    while cursor.key() and cursor.key() < later:
        cursor.delete()
    write_snapshot(transaction, snapshot)


def write_snapshot(transaction: lmdb.Transaction[bytes], snapshot: Snapshot) -> None:
    """Replace the snapshot. Its data is written in pieces, because LMDB needs adjacent pages for each value."""
    cursor = transaction.cursor()
    cursor.set_range(_PIECE)
    while cursor.key().startswith(_PIECE):
        cursor.delete()
    starts = range(0, len(snapshot.data), _PIECE_BYTES)
    for number, start in enumerate(starts):
        _put(transaction, _piece_key(number), snapshot.data[start : start + _PIECE_BYTES])
    record = pb.StoredSnapshot(size_bytes=len(snapshot.data), pieces=len(starts))
    fill_metadata(record.metadata, snapshot.metadata)
    _put(transaction, _SNAPSHOT, record.SerializeToString())


def _delete_entries_from(transaction: lmdb.Transaction[bytes], index: int) -> None:
    cursor = transaction.cursor()
    if cursor.set_range(_entry_key(index)):
        while cursor.delete():
            pass


def _append(transaction: lmdb.Transaction[bytes], entries: Sequence[Entry]) -> None:
    for entry in entries:
        key = _entry_key(entry.index)
        transaction.put(key, _seal(key, encode_entry(entry)), append=True)
