"""Maps the errors of storage and replicas to error codes for clients. Pure."""

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.proto import errors_pb2
from lograft.proto.errors import ERRORS, error_detail
from lograft.proto.errors_pb2 import ErrorCode, ErrorDetail
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.network import Status, StreamError
from lograft.storage import errors as storage


class NotReadable(Exception):
    """Raised for an offset outside the readable range. `valid_end`: the high watermark; None while unknown."""

    def __init__(self, offset: int, valid_start: int, valid_end: int | None) -> None:
        end = "not known yet" if valid_end is None else str(valid_end)
        super().__init__(f"offset {offset} is out of range {valid_start} to {end}")
        self.valid_start = valid_start
        self.valid_end = valid_end


class ReaderParted(Exception):
    """Raised when the reader's records match the log only up to `valid_end`."""

    def __init__(self, offset: int, valid_start: int, valid_end: int) -> None:
        super().__init__(
            f"the records read before offset {offset} are no longer in the log: an unclean election "
            f"truncated it at {valid_end}"
        )
        self.valid_start = valid_start
        self.valid_end = valid_end


SERVICE_ERRORS = (ReplicaError, ControllerError, NotReadable, ReaderParted, storage.StorageError, DiskFailed)
"""The errors that a service reports to clients. Any other exception is a broken invariant."""

_MAX_MESSAGE_BYTES = 1024  # an error's text may travel in a trailer

# The first match counts, so subclasses precede their base classes.
_CODES: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (storage.UnknownMagic, errors_pb2.UNSUPPORTED_FORMAT),
    (storage.UnknownCompression, errors_pb2.UNSUPPORTED_FORMAT),
    (storage.BatchTooLarge, errors_pb2.BATCH_TOO_LARGE),
    (storage.BadAttributes, errors_pb2.INVALID_RECORD),
    (storage.InvalidTimestamp, errors_pb2.INVALID_TIMESTAMP),
    (storage.InvalidRecord, errors_pb2.INVALID_RECORD),
    (storage.InvalidBatch, errors_pb2.CORRUPT_BATCH),
    (storage.OutOfOrderSequence, errors_pb2.OUT_OF_ORDER_SEQUENCE),
    (storage.InvalidProducerEpoch, errors_pb2.INVALID_PRODUCER_EPOCH),
    (storage.UnknownProducer, errors_pb2.UNKNOWN_PRODUCER_ID),
    (storage.OffsetOutOfRange, errors_pb2.OFFSET_OUT_OF_RANGE),
    (storage.LogTruncated, errors_pb2.NOT_LEADER),
    (storage.LogClosed, errors_pb2.NOT_LEADER),
    (storage.ResourceShortage, errors_pb2.UNAVAILABLE),
    (storage.DiskFull, errors_pb2.DISK_FULL),
    # A failure of this replica only: another one takes over.
    (storage.StorageError, errors_pb2.STORAGE_FAILED),
    (DiskFailed, errors_pb2.STORAGE_FAILED),
)


def detail_of(error: Exception, image: ClusterImage) -> ErrorDetail:
    """Return the error as sent to clients. `error`: one of SERVICE_ERRORS. `image`: supplies the leader's address."""
    text = _text(error)
    match error:
        case ReplicaError():
            leader = image.brokers.get(BrokerId(error.leader_id)) if error.leader_id is not None else None
            return error_detail(
                error.code,
                text,
                leader_id=error.leader_id,
                leader_address=leader.address if leader is not None else None,
                leader_epoch=error.leader_epoch,
            )
        case ControllerError():
            return error_detail(error.code, text)
        case NotReadable():
            return error_detail(
                errors_pb2.OFFSET_OUT_OF_RANGE, text, valid_start=error.valid_start, valid_end=error.valid_end
            )
        case ReaderParted():
            return error_detail(
                errors_pb2.LOG_TRUNCATED, text, valid_start=error.valid_start, valid_end=error.valid_end
            )
    return error_detail(next(code for kind, code in _CODES if isinstance(error, kind)), text)


def stream_error_of(detail: ErrorDetail) -> StreamError:
    """Return the error that ends the whole call."""
    status = Status[ERRORS[detail.code].grpc_status]
    return StreamError(status, detail.message, detail.SerializeToString())


def _text(error: Exception) -> str:
    text = error.message if isinstance(error, ReplicaError | ControllerError) else str(error)
    return text.encode()[:_MAX_MESSAGE_BYTES].decode(errors="ignore")
