"""`lograft.v1.Log/Append` and `Read`: plain records, for clients without a batch codec."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from google.protobuf.message import DecodeError

from lograft.broker.produce.batch_admission import AdmissionQueue
from lograft.broker.produce.produce_requests import read_acks
from lograft.broker.replica.interfaces import Acks, ServedReplica
from lograft.broker.replica.partition_lookup import (
    PartitionLookup,
    check_offset,
    check_size,
    check_writable,
    epoch_given,
    known_watermark,
    not_readable,
)
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.broker.requests.slow_requests import waiting
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import APPEND, READ
from lograft.proto.wire_format import WireError, fields_before
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.request_limits import check_timeout
from lograft.rpc.unary import unary
from lograft.runtime.limits.buffer_budget import DEFAULT_BUDGET_BYTES, LARGE_BYTES, BufferBudget, LargeTurn
from lograft.runtime.network import Handler, Stream
from lograft.runtime.world import Runtime
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches
from lograft.storage.batch.header import MAX_TIMESTAMP, BatchHeader, check_crc
from lograft.storage.batch.record import Record
from lograft.storage.errors import BadCrc, BatchTooLarge, InvalidBatch, InvalidTimestamp, OffsetOutOfRange
from lograft.storage.log.log_reader import Batches

DEFAULT_RECORDS = 500
MAX_RECORDS = 100_000
DEFAULT_BYTES = 1024 * 1024
MAX_BYTES = 16 * 1024 * 1024
MAX_WAIT_MS = 60_000
_NO_OFFSET = -1
_CHECKED_BYTES = 64 * 1024
_RECORDS = pb.AppendRequest.RECORDS_FIELD_NUMBER


class RecordsService:
    """Serves the calls that encode or decode batches, which is slow and runs in workers."""

    def __init__(self, runtime: Runtime, logs: PartitionLookup, budget: BufferBudget | None = None) -> None:
        self._runtime = runtime
        self._large_turns = (budget or BufferBudget(DEFAULT_BUDGET_BYTES, runtime.clock)).large_turns
        self._logs = logs
        self._admission = AdmissionQueue(runtime.clock, runtime.blocking)

    def handlers(self) -> Mapping[str, Handler]:
        return {
            APPEND: self._serve_append,
            READ: unary(self._serve_read, pb.ReadRequest),
        }

    # -- append

    async def _serve_append(self, stream: Stream) -> None:
        turn = LargeTurn(self._large_turns)
        serve = partial(self._answer_append, turn=turn)
        await unary(serve, pb.AppendRequest, partial(self._admit_append, turn=turn))(stream)

    @asynccontextmanager
    async def _admit_append(self, data: bytes, turn: LargeTurn) -> AsyncIterator[None]:
        """Refuse a request too large for any batch before copying it, and serialize large requests."""
        size_bytes = len(data)
        if size_bytes >= _CHECKED_BYTES:
            try:
                self._check_fits(data)
            except SERVICE_ERRORS as error:
                raise self._logs.stream_error(error) from None
        del data
        if size_bytes < LARGE_BYTES:
            yield
            return
        with waiting(self._runtime.clock):
            await turn.take()
        try:
            yield
        finally:
            turn.end()

    def _check_fits(self, data: bytes) -> None:
        try:
            head = pb.AppendRequest.FromString(fields_before(memoryview(data), _RECORDS))
        except (WireError, DecodeError):
            return  # decoding the whole request reports the error
        if not head.topic and not head.topic_id:
            return  # they may follow the records
        most = self._logs.find_named(head.topic, head.topic_id, head.partition).log_config.max_message_bytes
        if len(data) > _CHECKED_BYTES + 2 * most:  # a request is hardly larger than its batch
            raise BatchTooLarge(
                f"a request of {len(data)} bytes is over the topic's max.message.bytes of {most}: send "
                "less at a time, or raise max.message.bytes"
            )

    async def _answer_append(self, request: pb.AppendRequest, turn: LargeTurn) -> pb.AppendResponse:
        try:
            return await self._append(request, turn)
        except SERVICE_ERRORS as error:
            raise self._logs.stream_error(error) from None

    async def _append(self, request: pb.AppendRequest, turn: LargeTurn) -> pb.AppendResponse:
        clock, blocking = self._runtime.clock, self._runtime.blocking
        acks, timeout_ms = read_acks(request.acks), check_timeout(request.timeout_ms)
        leader_epoch = epoch_given(request.leader_epoch, request.HasField("leader_epoch"))
        if not request.records:
            raise ReplicaError(errors_pb2.INVALID_REQUEST, "the request has no records: send at least one")
        replica = self._logs.find_named(request.topic, request.topic_id, request.partition)
        check_writable(replica)
        replica.check_leads(leader_epoch)
        batch = await blocking.run_blocking(batch_of, request.records, clock.wall_ms())
        admitted = await self._admission.admit(batch, replica.log_config)
        await replica.room()
        pending = replica.begin_append(
            admitted,
            acks=acks,
            leader_epoch=leader_epoch,
            timeout_ms=timeout_ms,
            when_stored=turn.end if turn.is_taken else None,
        )
        if acks is Acks.NONE:
            return pb.AppendResponse(base_offset=_NO_OFFSET, log_start=replica.log_start)
        appended = await pending.outcome()
        return pb.AppendResponse(
            base_offset=appended.base_offset, append_time=appended.append_time_ms, log_start=appended.log_start
        )

    # -- read

    async def _serve_read(self, request: pb.ReadRequest) -> pb.ReadResponse:
        try:
            return await self._read(request)
        except SERVICE_ERRORS as error:
            raise self._logs.stream_error(error) from None

    async def _read(self, request: pb.ReadRequest) -> pb.ReadResponse:
        max_records = check_size(request.max_records, "max_records", DEFAULT_RECORDS, MAX_RECORDS)
        max_bytes = check_size(request.max_bytes, "max_bytes", DEFAULT_BYTES, MAX_BYTES)
        wait_ms = check_size(request.wait_ms, "wait_ms", 0, MAX_WAIT_MS)
        leader_epoch = epoch_given(request.leader_epoch, request.HasField("leader_epoch"))
        replica = self._logs.find_named(request.topic, request.topic_id, request.partition)
        batches = await self._read_batches(replica, leader_epoch, request.offset, max_bytes, wait_ms)
        records, next_offset = await self._runtime.blocking.run_blocking(
            partial(records_of, batches, request.offset, max_records=max_records, max_bytes=max_bytes)
        )
        answer = pb.ReadResponse(
            records=records,
            next_offset=next_offset,
            high_watermark=known_watermark(replica),
            log_start=replica.log_start,
        )
        if answer.records:
            replica.traffic.gave_out(answer.ByteSize(), len(answer.records))
        return answer

    async def _read_batches(
        self, replica: ServedReplica, leader_epoch: int | None, offset: int, max_bytes: int, wait_ms: int
    ) -> Batches:
        """Return batches as soon as any are available, or none after `wait_ms`."""
        found = await _read_now(replica, leader_epoch, offset, max_bytes)
        if found.buffers or not wait_ms:
            return found
        with waiting(self._runtime.clock), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                while not found.buffers:
                    await _until_readable(replica, max(offset, replica.high_watermark))
                    found = await _read_now(replica, leader_epoch, offset, max_bytes)
        return found


async def _read_now(replica: ServedReplica, leader_epoch: int | None, offset: int, max_bytes: int) -> Batches:
    replica.check_leads(leader_epoch)
    check_offset(replica, offset)
    if offset >= replica.high_watermark:
        return Batches([], offset)
    try:
        return await replica.read(offset, max_bytes)
    except OffsetOutOfRange:
        raise not_readable(replica, offset) from None


async def _until_readable(replica: ServedReplica, offset: int) -> None:
    woken = asyncio.Event()
    withdraw = replica.when_readable(offset, woken.set)
    try:
        await woken.wait()
    finally:
        withdraw()


def batch_of(records: Sequence[pb.NewRecord], now_ms: int) -> bytes:
    """Return the records as one uncompressed batch in the column layout. Raise `InvalidTimestamp` for timestamps that
    no batch can hold."""
    timestamps = [record.timestamp if record.HasField("timestamp") else now_ms for record in records]
    if min(timestamps) < 0 or max(timestamps) > MAX_TIMESTAMP:
        raise InvalidTimestamp(
            f"timestamps from {min(timestamps)} to {max(timestamps)}: expected milliseconds since 1970"
        )
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
    """Return the records from `start`, within both limits but at least one if there is any, and the next offset.

    The broker stores batches as producers encoded them, readable or not. Raise CORRUPT_BATCH, with the offset to
    continue at, if the first batch is unreadable.
    """
    found: list[pb.StoredRecord] = []
    size = 0
    for batch, header in _batches_in(batches):
        try:
            check_crc(batch, 0, header)  # a client that reads plain records cannot check it
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
    which = f"records {header.base_offset} to {header.last_offset}"
    if isinstance(error, BadCrc):
        return (
            f"this broker's copy of {which} is damaged ({error}): another replica may have intact copies, "
            "and `lograft verify replicas` names the damaged ones; if none has, continue at "
            f"{header.next_offset}"
        )
    return f"{which} cannot be read ({error}): continue at {header.next_offset}"


def _batches_in(batches: Batches) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the batches visible to readers, without control batches."""
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
