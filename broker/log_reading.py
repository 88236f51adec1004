"""Reading a log on a disk that may not give back what it has."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

from lograft.broker.replica_errors import ReplicaError
from lograft.proto import errors_pb2
from lograft.storage.errors import CorruptLog
from lograft.storage.log import PartitionLog
from lograft.storage.reader import Batches

# The machine's trouble, not the disk's, and it may pass.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


async def read_log(log: PartitionLog, start: int, max_bytes: int, bound: int | None = None) -> Batches:
    """As `PartitionLog.read`, and fails as what is done while `reading`."""
    try:
        return await log.read(start, max_bytes, bound)
    except OSError as error:
        await _fail(log, error)


@asynccontextmanager
async def reading(log: PartitionLog) -> AsyncIterator[None]:
    """A disk that fails to read is a failed disk: `DiskFailed`, and all on it are told. A file that is gone is
    `CorruptLog`; and what may pass, a `ReplicaError`."""
    try:
        yield
    except OSError as error:
        await _fail(log, error)


async def _fail(log: PartitionLog, error: OSError) -> NoReturn:
    if error.errno in _PASSING:
        raise ReplicaError(
            errors_pb2.UNAVAILABLE, f"the broker has no file or memory to spare ({error.strerror}): try again"
        ) from error
    if isinstance(error, FileNotFoundError):
        raise CorruptLog(log.directory, None, f"a file is gone: {error}") from error
    if log.failure is not None:
        raise log.failure from error
    await log.disk.writer.fail(log.directory, error)
