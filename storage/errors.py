"""Errors of a log, one class per cause. Pure."""


class StorageError(Exception):
    """Base class: an error that the log raises."""


# -- record batches


class InvalidBatch(StorageError):
    """A batch that must not be stored or decoded; the subclass names the defect."""


class TruncatedBatch(InvalidBatch):
    """The bytes end before the batch does."""


class BadBatchLength(InvalidBatch):
    """The length field is wrong: too small for a header, too large, or not matching the content."""


class UnknownMagic(InvalidBatch):
    """A payload layout unknown to this version."""


class BadCrc(InvalidBatch):
    """The content does not match its CRC-32C."""


class BadRecordCount(InvalidBatch):
    """The header's record count disagrees with the payload, or is out of range."""


class BadSection(InvalidBatch):
    """A section of a columns payload is unknown, missing, doubled, overlapping, out of bounds or of the wrong size."""


class BadRecord(InvalidBatch):
    """A record inside the payload is malformed: lengths, deltas or offsets out of range."""


class UnknownCompression(InvalidBatch):
    """A compression codec unknown to this version."""


class BadCompressedData(InvalidBatch):
    """The payload does not decompress, or exceeds the limit when decompressed."""


class BatchTooLarge(InvalidBatch):
    """A batch over `max.message.bytes`."""


class BadAttributes(InvalidBatch):
    """Header fields with values that clients may not set: transactional and control bits, timestamps, sequence
    numbers."""


class InvalidTimestamp(InvalidBatch):
    """A timestamp before 1970, more than an hour ahead, or later than the header says that any is."""


class InvalidRecord(InvalidBatch):
    """A record that the topic does not accept: one without a key in a compacted topic."""


# -- producers


class ProducerError(StorageError):
    """A batch that does not continue its producer's previous batches."""


class OutOfOrderSequence(ProducerError):
    """An earlier batch of this producer is missing; the producer must send it first."""


class InvalidProducerEpoch(ProducerError):
    """A newer incarnation of this producer has taken over."""


class UnknownProducer(ProducerError):
    """The log does not know this producer, and the batch is not its first."""


# -- the log


class OffsetOutOfRange(StorageError):
    """An offset the log does not hold: below its start, or above its end."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside the log's range [{start_offset}, {end_offset}]")
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class LogTruncated(StorageError):
    """The awaited offset was truncated: the log now ends at `end_offset`."""

    def __init__(self, end_offset: int) -> None:
        super().__init__(f"the log was cut at offset {end_offset}")
        self.end_offset = end_offset


class FrameMismatch(StorageError):
    """A replicated frame that does not continue this log: wrong start, or falling offsets or epochs."""


class SegmentRetired(StorageError):
    """The segment left its log before it could be opened: look up the log's present segments again."""


class LogClosed(StorageError):
    """The log was closed during the call."""


class DiskFull(StorageError):
    """The disk has less free space than its reserve: nothing was stored; retry once there is space."""


class ResourceShortage(StorageError):
    """The process is short of descriptors or memory: the log and its disk are sound, so a retry may succeed."""


class CorruptLog(StorageError):
    """Durable data has changed or is missing. The replica must be rebuilt, not truncated."""

    def __init__(self, path: str, position: int | None, reason: str) -> None:
        where = path if position is None else f"{path} at byte {position}"
        super().__init__(f"{where} is corrupt: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class DirectoryRefused(StorageError):
    """The data directory must not be used as it is; the message says why, and what to do."""


class DirectoryFailed(DirectoryRefused):
    """A sync failed in this directory: data read from it may not be on the disk."""
