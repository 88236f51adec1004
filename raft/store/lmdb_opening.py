"""Opening a Raft store on LMDB: lock it, check its identity, refuse an unusable one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from lograft.raft.core.configuration import Member
from lograft.raft.interfaces import StoredState, StoreIdentity
from lograft.raft.store.errors import StoreRefused
from lograft.raft.store.layout import (
    FORMAT_VERSION,
    DamagedStore,
    read_format,
    read_identity,
    read_seen_starts,
    read_snapshot,
    read_starts,
    read_state,
    write_identity,
    write_starts,
)
from lograft.raft.store_starts import StoreStart, StoreStarts
from lograft.runtime.files import FileLocked, Files, Lock, parent_of

if TYPE_CHECKING:
    import lmdb

_LOCK_FILE = "lock"
_DATA_FILE = "data.mdb"  # LMDB's name for it
_FIRST_MAP_BYTES = 16 * 1024 * 1024
_ROOM_BYTES = 1024 * 1024  # more than the note of an opening takes


@dataclass(frozen=True, slots=True)
class ExpectedStore:
    """The expected owner. `directory_id` names the store that must be there; None accepts any store, or none."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None
    fresh_directory_id: UUID  # for a new store
    token: int  # of this opening


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """An opened store and its content. Its identity and this opening are durable."""

    lock: Lock
    environment: lmdb.Environment
    state: StoredState
    starts: StoreStarts
    seen_starts: Mapping[Member, StoreStart]


def take_hold(files: Files, path: str, wanted: ExpectedStore) -> OpenedStore:
    """Open the store at `path`, or create it. Raise StoreRefused if it cannot be used."""
    try:
        for folder in (parent_of(path), path):
            files.make_directory(folder)
        lock = files.lock(f"{path}/{_LOCK_FILE}")
    except FileLocked:
        raise StoreRefused(
            f"{path} is in use by another process", "stop that process, or choose another directory"
        ) from None
    except OSError as error:
        raise _unusable(path, error.strerror or error) from None
    try:
        return _open_environment(files, path, wanted, lock)
    except BaseException:
        lock.release()
        raise


def _open_environment(files: Files, path: str, wanted: ExpectedStore, lock: Lock) -> OpenedStore:
    import lmdb

    damage = (DamagedStore, lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError)
    environment = None
    try:
        environment = lmdb.open(path, map_size=_FIRST_MAP_BYTES, max_dbs=0, max_spare_txns=1)
        _restore_length(files, f"{path}/{_DATA_FILE}", environment)
        state = _read_or_make(path, environment, wanted)
        _make_room(environment)
        with environment.begin(write=True) as transaction:
            starts = read_starts(transaction).followed_by(wanted.token)
            write_starts(transaction, starts)
            seen_starts = read_seen_starts(transaction)
        # LMDB syncs the file, but not its name; and the process that created it may have died before syncing that.
        for folder in (path, parent_of(path), parent_of(parent_of(path))):
            files.sync_directory(folder)
        return OpenedStore(lock, environment, state, starts, seen_starts)
    except BaseException as error:
        if environment is not None:
            environment.close()
        if isinstance(error, damage):
            raise _damaged(path, wanted, error) from None
        if isinstance(error, lmdb.VersionMismatchError):
            raise _unknown_format(path, "of another LMDB") from None
        if isinstance(error, lmdb.Error | OSError):
            raise _unusable(path, error) from None
        raise


def _make_room(environment: lmdb.Environment) -> None:
    """Grow the map, which may be no larger than the content if the store was full."""
    info = environment.info()
    needed_bytes = (info["last_pgno"] + 1) * environment.stat()["psize"] + _ROOM_BYTES
    if needed_bytes > info["map_size"]:
        environment.set_mapsize(-(-needed_bytes // _ROOM_BYTES) * _ROOM_BYTES)


def _restore_length(files: Files, path: str, environment: lmdb.Environment) -> None:
    """Extend a truncated file with zeros. Touching its missing pages would kill the process; zeros are detected as
    damage.

    A sound file may be short, too: LMDB does not write free pages.
    """
    size_bytes = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if files.size(path) < size_bytes:
        file = files.open(path)
        try:
            file.write(size_bytes - 1, [b"\0"])
        finally:
            file.close()


def _read_or_make(path: str, environment: lmdb.Environment, wanted: ExpectedStore) -> StoredState:
    with environment.begin() as transaction:
        version = read_format(transaction)
    if version is None:
        if wanted.directory_id is not None:
            raise StoreRefused(
                f"{path} is empty, and the store of directory {wanted.directory_id} should be there",
                "mount the disk that has it",
            )
        fresh = StoreIdentity(wanted.cluster_id, wanted.node_id, wanted.fresh_directory_id)
        with environment.begin(write=True) as transaction:
            write_identity(transaction, fresh)
        return StoredState(fresh)
    if version != FORMAT_VERSION:
        raise _unknown_format(path, str(version))
    with environment.begin() as transaction:
        _refuse_stranger(path, read_identity(transaction), wanted)
        state = read_state(transaction)
        read_snapshot(transaction)  # detect damage now, not when a peer needs the snapshot
    return state


def _refuse_stranger(path: str, found: StoreIdentity, wanted: ExpectedStore) -> None:
    if found.cluster_id != wanted.cluster_id:
        raise StoreRefused(
            f"{path} belongs to cluster {found.cluster_id!r}, not {wanted.cluster_id!r}",
            "set the cluster_id it was made with, or give the node a directory of its own",
        )
    if found.node_id != wanted.node_id:
        raise StoreRefused(
            f"{path} belongs to node {found.node_id}, not node {wanted.node_id}",
            f"start it as node {found.node_id}, or give node {wanted.node_id} a directory of its own",
        )
    if wanted.directory_id not in (None, found.directory_id):
        raise StoreRefused(
            f"{path} is the store of directory {found.directory_id}, not {wanted.directory_id}",
            "mount the disk that has that one",
        )


def _damaged(path: str, wanted: ExpectedStore, error: BaseException) -> StoreRefused:
    return StoreRefused(
        f"{path} is damaged ({error})",
        f"restore the disk, or move {path} away: the node then starts empty, without a vote, and "
        f"`lograft quorum replace {wanted.node_id}` gives it one again; one node at a time: wait until that command "
        "has succeeded before you move another node's store away",
    )


def _unknown_format(path: str, found: str) -> StoreRefused:
    return StoreRefused(
        f"{path} is of format {found}, and this version of lograft knows only {FORMAT_VERSION}",
        "run the version of lograft that wrote it",
    )


def _unusable(path: str, error: object) -> StoreRefused:
    return StoreRefused(f"{path} cannot be used ({error})", "check that it is writable, on a disk that has room")
