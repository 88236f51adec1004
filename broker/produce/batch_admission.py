"""Admission of clients' batches: checked on the event loop if that is quick, otherwise in a worker."""

import asyncio

from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.blocking import Blocking, run_to_end
from lograft.runtime.clock import Clock
from lograft.runtime.files import Buffer
from lograft.runtime.observability.logging import get_logger
from lograft.storage.batch.compression import MAX_PAYLOAD_BYTES
from lograft.storage.batch.header import COMPRESSION_MASK, HEADER_BYTES, MAGIC_ROWS
from lograft.storage.errors import BadCompressedData, InvalidBatch
from lograft.storage.log.admission import Admitted, admit
from lograft.storage.log.log_config import LogConfig

log = get_logger(__name__)

# Limits for decoding on the event loop, which then takes a fraction of a millisecond: size as stored, and decompressed.
_QUICK_BYTES = 16 * 1024
_QUICK_ROWS_BYTES = 4 * 1024  # rows are decoded one by one
_QUICK_OPENED_BYTES = 128 * 1024
_MAGIC_BYTE = 16
_ATTRIBUTES_LOW_BYTE = 22
# A batch of any size may decompress to 64 MiB, briefly held twice, so limit how many are decoded at once.
_OPENED_AT_ONCE = 2


def admit_quickly(batch: Buffer, config: LogConfig, now_ms: int) -> Admitted | None:
    """Admit like `admit_now`. Return None if that would take long; then use `AdmissionQueue`."""
    if not _may_be_quick(batch, config):
        return None
    try:
        return admit_now(batch, config, now_ms, _QUICK_OPENED_BYTES)
    except BadCompressedData:
        return None  # it may be valid, but over the quick limit


def _may_be_quick(batch: Buffer, config: LogConfig) -> bool:
    if len(batch) < HEADER_BYTES:
        return True  # refused at once
    codec = batch[_ATTRIBUTES_LOW_BYTE] & COMPRESSION_MASK
    is_converted = config.compression is not None and codec != config.compression
    is_decompressed = codec != 0 and config.validate_batches
    if batch[_MAGIC_BYTE] == MAGIC_ROWS and (codec == 0 or is_decompressed):
        return len(batch) <= _QUICK_ROWS_BYTES
    return not (config.cleanup_compact or is_converted or is_decompressed) or len(batch) <= _QUICK_BYTES


def admit_now(batch: Buffer, config: LogConfig, now_ms: int, limit_bytes: int = MAX_PAYLOAD_BYTES) -> Admitted:
    """Admit like `admit`. A bug that a batch triggers fails only that batch, with INTERNAL, and not the node."""
    try:
        return admit(batch, config, now_ms, limit_bytes)
    except InvalidBatch:
        raise
    except Exception as error:
        log.error("batch_not_understood", size_bytes=len(batch), exc_info=True)
        raise ReplicaError(
            errors_pb2.INTERNAL,
            f"the broker failed to process the batch ({type(error).__name__}), and did not store it; "
            "report this, with the broker's log",
        ) from error


class AdmissionQueue:
    """Admits batches, slow ones in workers, a few at a time."""

    def __init__(self, clock: Clock, blocking: Blocking) -> None:
        self._clock = clock
        self._blocking = blocking
        self._turns = asyncio.Semaphore(_OPENED_AT_ONCE)

    async def admit(self, batch: Buffer, config: LogConfig) -> Admitted:
        """Admit like `admit_now`, without blocking the event loop for long."""
        admitted = admit_quickly(batch, config, self._clock.wall_ms())
        if admitted is not None:
            return admitted
        async with self._turns:
            # Keep the turn until the worker ends, even if cancelled: it holds its memory until then.
            return await run_to_end(self._blocking, admit_now, batch, config, self._clock.wall_ms())
