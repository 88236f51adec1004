"""Whether a batch from a client may be stored: looked at here and now, or, if that takes long, beside the loop."""

from lograft.broker.replica_errors import ReplicaError
from lograft.proto import errors_pb2
from lograft.runtime.blocking import Blocking
from lograft.runtime.clock import Clock
from lograft.runtime.files import Buffer
from lograft.runtime.logging import get_logger
from lograft.storage.admission import Admitted, admit
from lograft.storage.config import LogConfig
from lograft.storage.errors import InvalidBatch
from lograft.storage.header import COMPRESSION_MASK, HEADER_BYTES

log = get_logger(__name__)

_QUICK_BYTES = 16 * 1024  # opened, or compressed, in well under a millisecond
_ATTRIBUTES_LOW_BYTE = 22


def is_quick(batch: Buffer, config: LogConfig) -> bool:
    """Whether `admit_now` takes no longer than reading the batch once."""
    if len(batch) < HEADER_BYTES:
        return True  # refused at once
    codec = batch[_ATTRIBUTES_LOW_BYTE] & COMPRESSION_MASK
    is_converted = config.compression is not None and codec != config.compression
    is_opened = config.cleanup_compact or is_converted
    # What is compressed may be any number of times larger once it is opened.
    return not is_opened or (codec == 0 and len(batch) <= _QUICK_BYTES)


def admit_now(batch: Buffer, config: LogConfig, now_ms: int) -> Admitted:
    """As `admit`. A bug in it, which some batch may have found, is INTERNAL for that batch: the node lives on."""
    try:
        return admit(batch, config, now_ms)
    except InvalidBatch:
        raise
    except Exception as error:
        log.error("batch_not_understood", size_bytes=len(batch), exc_info=True)
        raise ReplicaError(
            errors_pb2.INTERNAL,
            f"the broker could not make sense of the batch ({type(error).__name__}): it was not stored; report this, "
            "with the broker's log",
        ) from error


async def admit_beside(batch: Buffer, config: LogConfig, clock: Clock, blocking: Blocking) -> Admitted:
    """As `admit_now`, wherever it does not hold up others."""
    if is_quick(batch, config):
        return admit_now(batch, config, clock.wall_ms())
    return await blocking.run_blocking(admit_now, batch, config, clock.wall_ms())
