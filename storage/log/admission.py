"""A leader's checks and rewrites of client batches before it assigns offsets. Pure, but slow for large batches."""

from dataclasses import dataclass

from lograft.runtime.files import Buffer
from lograft.storage.batch.codec import check_keys, check_records, rewrite_batch, validate_batch
from lograft.storage.batch.compression import MAX_PAYLOAD_BYTES, Compression
from lograft.storage.batch.header import COMPRESSION_MASK, MAGIC_ROWS, MAX_TIMESTAMP, BatchHeader, parse_header
from lograft.storage.errors import BadAttributes, BadRecordCount, BatchTooLarge, InvalidTimestamp
from lograft.storage.log.log_config import LogConfig
from lograft.storage.state.producer_state import NO_PRODUCER

MAX_FUTURE_MS = 3600 * 1000
# A small compressed batch can hold millions of tiny rows, and checking a million takes a second.
MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Admitted:
    """A batch ready to append, except for its offset and epoch."""

    header: BatchHeader
    batch: Buffer


def admit(batch: Buffer, config: LogConfig, now_ms: int, limit_bytes: int = MAX_PAYLOAD_BYTES) -> Admitted:
    """Check one batch from a client against the topic's rules, and rewrite it where they require it.

    Raise an InvalidBatch that names the defect; nothing is changed then. `limit_bytes` bounds the decompressed payload
    (BadCompressedData beyond it); the default is the limit of readers.
    """
    header = validate_batch(batch, max_bytes=config.max_message_bytes)
    if header.total_bytes != len(batch):
        raise BadRecordCount(f"{len(batch) - header.total_bytes} bytes follow the batch: one batch at a time")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise BadRecordCount(f"{header.record_count} records, and the last offset delta is {header.last_offset_delta}")
    _check_attributes(header)
    if header.producer_id != NO_PRODUCER and min(header.producer_id, header.producer_epoch, header.base_sequence) < 0:
        raise BadAttributes("a producer id needs an epoch and a sequence, and none is negative")
    if not config.append_time:
        _check_timestamps(header, now_ms)
    latest = MAX_TIMESTAMP if config.append_time else header.max_timestamp
    if config.cleanup_compact:
        _check_row_count(header)
        check_keys(batch, header, limit_bytes=limit_bytes, latest=latest)
    elif header.compression is Compression.NONE or config.validate_batches:
        # A stored batch that no reader can decode would stop every reader.
        _check_row_count(header)
        check_records(batch, header, limit_bytes=limit_bytes, latest=latest)
    to_codec = config.compression if config.compression not in (None, header.compression) else None
    if to_codec is None and not config.append_time:
        return Admitted(header, batch)
    append_time = now_ms if config.append_time else None
    rewritten = rewrite_batch(batch, compression=to_codec, append_time=append_time, limit_bytes=limit_bytes)
    if len(rewritten) > config.max_message_bytes:
        raise BatchTooLarge(f"{len(rewritten)} bytes once converted, and at most {config.max_message_bytes} are taken")
    return Admitted(parse_header(rewritten), rewritten)


def _check_attributes(header: BatchHeader) -> None:
    """Refuse all attribute bits except the compression's."""
    if header.is_transactional:
        # Stored, it would block read-committed consumers of a later version: nothing would ever end the transaction.
        raise BadAttributes("the batch says that it is part of a transaction, which this version does not have")
    if header.attributes & ~COMPRESSION_MASK:
        raise BadAttributes(f"attributes {header.attributes:#06x} are not for clients to set")


def _check_timestamps(header: BatchHeader, now_ms: int) -> None:
    if header.base_timestamp < 0 or header.max_timestamp < 0:
        raise InvalidTimestamp(f"timestamp {min(header.base_timestamp, header.max_timestamp)} is before 1970")
    if header.base_timestamp > header.max_timestamp:
        raise InvalidTimestamp(
            f"the base timestamp {header.base_timestamp} is later than the largest, {header.max_timestamp}"
        )
    if header.max_timestamp > now_ms + MAX_FUTURE_MS:
        raise InvalidTimestamp(f"timestamp {header.max_timestamp} is more than an hour ahead of {now_ms}")


def _check_row_count(header: BatchHeader) -> None:
    if header.magic == MAGIC_ROWS and header.record_count > MAX_ROWS:
        raise BatchTooLarge(f"a batch of {header.record_count} rows: at most {MAX_ROWS} are taken")
