"""Records as `Append` and `Read` have them, to batches and back. Heavy for large batches. Pure."""

from collections.abc import Iterator, Sequence

from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches
from lograft.storage.batch.header import MAX_TIMESTAMP, BatchHeader, check_crc
from lograft.storage.batch.record import Record
from lograft.storage.errors import BadCrc, InvalidBatch, InvalidTimestamp
from lograft.storage.log.log_reader import Batches


def batch_of(records: Sequence[pb.NewRecord], now_ms: int) -> bytes:
    """One batch, of our own layout and not compressed. `InvalidTimestamp` for one that no batch can hold."""
    timestamps = [record.timestamp if record.HasField("timestamp") else now_ms for record in records]
    if min(timestamps) < 0 or max(timestamps) > MAX_TIMESTAMP:
        raise InvalidTimestamp(f"timestamps from {min(timestamps)} to {max(timestamps)}: milliseconds since 1970")
    has_headers = any(record.headers for record in records)
    return encode_batch(
        [record.value if record.HasField("value") else None for record in records],
        keys=[record.key if record.HasField("key") else None for record in records],
        timestamps=timestamps,
        headers=[_headers(record) for record in records] if has_headers else None,
    )


def _headers(record: pb.NewRecord) -> list[tuple[str, bytes | None]]:
    return [(header.key, header.value if header.HasField("value") else None) for header in record.headers]


def records_of(batches: Batches, start: int, *, max_records: int, max_bytes: int) -> tuple[list[pb.StoredRecord], int]:
    """The records from `start` on, within both limits, but at least one if there is any; and where to go on.

    A batch is stored as its producer made it, readable or not: of one that is not, CORRUPT_BATCH says how to go on.
    """
    found: list[pb.StoredRecord] = []
    size = 0
    for batch, header in _batches_in(batches):
        try:
            check_crc(batch, 0, header)  # who reads plain records cannot check it
            records = decode_records(batch)
        except InvalidBatch as error:
            if found:
                return found, header.base_offset
            raise ReplicaError(errors_pb2.CORRUPT_BATCH, _why_unreadable(header, error)) from None
        for record in records:
            if record.offset < start:
                continue
            size += _size_of(record)
            if found and (len(found) == max_records or size > max_bytes):
                return found, record.offset
            found.append(_stored(record))
    return found, batches.next_offset


def _why_unreadable(header: BatchHeader, error: InvalidBatch) -> str:
    which = f"the records {header.base_offset} to {header.last_offset}"
    if isinstance(error, BadCrc):
        return (
            f"this broker's copy of {which} is damaged ({error}): another replica may have them intact, and "
            f"`lograft verify replicas` names the damaged ones; if none has, go on at {header.next_offset}"
        )
    return f"{which} cannot be read ({error}): go on at {header.next_offset}"


def _batches_in(batches: Batches) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Those that are for readers."""
    for buffer in batches.buffers:
        for position, header in iterate_batches(buffer):
            if not header.is_control:
                yield memoryview(buffer)[position : position + header.total_bytes], header


def _size_of(record: Record) -> int:
    content = len(record.key or b"") + len(record.value or b"")
    return content + sum(len(name) + len(value or b"") for name, value in record.headers)


def _stored(record: Record) -> pb.StoredRecord:
    headers = [pb.Header(key=name, value=value) for name, value in record.headers]
    return pb.StoredRecord(
        offset=record.offset, timestamp=record.timestamp, key=record.key, value=record.value, headers=headers
    )
