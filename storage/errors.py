"""What can be wrong with a log, each cause a class of its own. Pure."""


class StorageError(Exception):
    """Anything the log refuses or reports."""


# -- record batches


class InvalidBatch(StorageError):
    """A batch that must not be stored or decoded; the subclass names what is wrong with it."""


class TruncatedBatch(InvalidBatch):
    """The bytes end before the batch does."""


class BadBatchLength(InvalidBatch):
    """The length field cannot be right: too small for a header, too large, or not what the content needs."""


class UnknownMagic(InvalidBatch):
    """A payload layout this version does not know."""


class BadCrc(InvalidBatch):
    """The content is not what its CRC-32C was computed over."""


class BadRecordCount(InvalidBatch):
    """The header's record count disagrees with the payload, or is out of range."""


class BadSection(InvalidBatch):
    """A section of a columns payload is unknown, missing, doubled, overlapping, out of bounds or of the wrong size."""


class BadRecord(InvalidBatch):
    """A record inside the payload is malformed: lengths, deltas or offsets out of range."""


class UnknownCompression(InvalidBatch):
    """A compression codec this version does not know."""


class BadCompressedData(InvalidBatch):
    """The payload does not decompress, or decompresses to more than is allowed."""


class BatchTooLarge(InvalidBatch):
    """A batch over `max.message.bytes`."""


class BadAttributes(InvalidBatch):
    """Header fields that a client may not set so: the transactional and control bits, timestamps, sequence numbers."""


class InvalidTimestamp(InvalidBatch):
    """A timestamp before 1970, or more than an hour ahead."""


class InvalidRecord(InvalidBatch):
    """A record that this topic does not take: one without a key where it is compacted."""


# -- producers


class ProducerError(StorageError):
    """A batch that does not follow on from what its producer wrote before."""


class OutOfOrderSequence(ProducerError):
    """A batch of this producer is missing before this one; it must be sent first."""


class InvalidProducerEpoch(ProducerError):
    """A newer incarnation of this producer has taken over."""


class UnknownProducer(ProducerError):
    """Nothing is known of this producer, and its batch is not its first."""


# -- the log


class OffsetOutOfRange(StorageError):
    """An offset the log does not hold: below its start, or above its end."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside the log's range [{start_offset}, {end_offset}]")
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class LogTruncated(StorageError):
    """What was waited for was cut off: the log ended at `end_offset` then."""

    def __init__(self, end_offset: int) -> None:
        super().__init__(f"the log was cut at offset {end_offset}")
        self.end_offset = end_offset


class FrameMismatch(StorageError):
    """A replicated frame that does not continue this log: wrong start, offsets or epochs that fall."""


class SegmentRetired(StorageError):
    """A segment that left its log before it could be opened: look again at what the log has now."""


class LogClosed(StorageError):
    """The log was closed before the answer was found."""


class DiskFull(StorageError):
    """What is left on the disk is less than its reserve: nothing was stored, and more can be once there is room."""


class ResourceShortage(StorageError):
    """There is no descriptor or memory to spare: nothing is wrong with the log or its disk, and it may pass."""


class CorruptLog(StorageError):
    """Data that was once durable is no longer what it was. The replica must be rebuilt, not cut."""

    def __init__(self, path: str, position: int | None, reason: str) -> None:
        where = path if position is None else f"{path} at byte {position}"
        super().__init__(f"{where} is corrupt: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class DirectoryRefused(StorageError):
    """A data directory that must not be used as it is; the message says why and what to do."""


class DirectoryFailed(DirectoryRefused):
    """A sync failed there: what can be read of it may not be on the disk."""
