"""Reads of a log from a disk that may fail or return damaged data."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.files import is_shortage
from lograft.storage.errors import CorruptLog, InvalidBatch
from lograft.storage.inspect.batch_check import check_batches
from lograft.storage.log.log_reader import Batches
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.state.epoch_cache import EpochCache

# Above this size, which may hold many small batches, check in a worker; below it, starting the worker costs more.
_CHECKED_ASIDE_BYTES = 64 * 1024


async def read_log(
    log: PartitionLog,
    start: int,
    max_bytes: int,
    bound: int | None = None,
    *,
    verify: bool = False,
    from_disk: bool = False,
) -> Batches:
    """Read like `PartitionLog.read`, with the errors of `reading`.

    With `verify`, raise `CorruptLog` for damaged data from the disk. Use it where other replicas can take over. Without
    it, readers detect the damage themselves, and can read the rest.
    """
    is_from_disk = from_disk or log.tail.find(start) is None
    try:
        found = await log.read(start, max_bytes, bound, from_disk=from_disk)
    except OSError as error:
        await _fail(log, error)
    if verify and is_from_disk:
        await _verify(log, start, found)
    return found


@asynccontextmanager
async def reading(log: PartitionLog) -> AsyncIterator[None]:
    """Translate `OSError`. A failed read raises `DiskFailed`, and fails the disk for all logs on it. A missing file
    raises `CorruptLog`, a temporary shortage `ReplicaError`."""
    try:
        yield
    except OSError as error:
        await _fail(log, error)


async def _fail(log: PartitionLog, error: OSError) -> NoReturn:
    if is_shortage(error):
        raise ReplicaError(
            errors_pb2.UNAVAILABLE, f"the broker is out of file descriptors or memory ({error.strerror}): try again"
        ) from error
    if isinstance(error, FileNotFoundError):
        raise CorruptLog(log.directory, None, f"a file is missing: {error}") from error
    if log.failure is not None:
        raise log.failure from error
    await log.disk.writer.fail(log.directory, error)


async def _verify(log: PartitionLog, start: int, found: Batches) -> None:
    try:
        if found.size_bytes < _CHECKED_ASIDE_BYTES:
            check_batches(found.buffers, log.epochs)
        else:
            await log.disk.blocking.run_blocking(check_batches, found.buffers, EpochCache(log.epochs))
    except InvalidBatch as error:
        raise CorruptLog(log.directory, None, f"reading from offset {start}: {error}") from error
