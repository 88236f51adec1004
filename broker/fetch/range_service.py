"""`lograft.v1.Log/ReadRange`: all batches of an offset range, as fast as the client reads them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from lograft.broker.replica.interfaces import ServedReplica
from lograft.broker.replica.partition_lookup import PartitionLookup, check_size, epoch_given, not_readable
from lograft.broker.requests.call_stats import ServerStats
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import READ_RANGE
from lograft.proto.wire_format import field_head
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.unary import read_request, receive_request
from lograft.runtime.clock import Clock
from lograft.runtime.files import Buffer
from lograft.runtime.limits.buffer_budget import DEFAULT_BUDGET_BYTES, BufferBudget, StreamBudget
from lograft.runtime.limits.byte_budget import Claim
from lograft.runtime.network import Handler, Stream
from lograft.storage.errors import OffsetOutOfRange
from lograft.storage.files.batch_scan import batch_bounds
from lograft.storage.log.log_reader import Batches

DEFAULT_MESSAGE_BYTES = 1024 * 1024
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_LEAST_BYTES = 64 * 1024

_BATCHES = pb.ReadRangeResponse.BATCHES_FIELD_NUMBER


@dataclass(frozen=True, slots=True)
class _Range:
    """A requested range [start, end) of a replica."""

    replica: ServedReplica
    topic: str
    partition: int
    leader_epoch: int | None
    start: int
    end: int
    message_bytes: int
    from_follower: bool


class RangeService:
    """Serves any number of ranges."""

    def __init__(
        self, clock: Clock, logs: PartitionLookup, stats: ServerStats | None = None, budget: BufferBudget | None = None
    ) -> None:
        self._clock = clock
        self._budget = budget or BufferBudget(DEFAULT_BUDGET_BYTES, clock)
        self._logs = logs
        stats = stats or ServerStats()
        self._stats = stats.of(READ_RANGE)
        self._slow = stats.slow

    def handlers(self) -> Mapping[str, Handler]:
        return {READ_RANGE: self.serve}

    async def serve(self, stream: Stream) -> None:
        request = read_request(pb.ReadRangeRequest, await receive_request(stream))
        try:
            wanted = self._check(request)
        except SERVICE_ERRORS as error:
            raise self._logs.stream_error(error) from None
        with self._budget.open(stream) as own:
            await self._send(wanted, stream, own)

    def _check(self, request: pb.ReadRangeRequest) -> _Range:
        message_bytes = check_size(
            request.max_message_bytes, "max_message_bytes", DEFAULT_MESSAGE_BYTES, MAX_MESSAGE_BYTES
        )
        replica = self._logs.find_named(request.topic, request.topic_id, request.partition)
        leader_epoch = epoch_given(request.leader_epoch, request.HasField("leader_epoch"))
        replica.check_serves(leader_epoch, from_follower=request.from_follower)
        end = request.end if request.HasField("end") else None
        if end is None or end > replica.high_watermark:
            # A stale watermark must not be taken for the committed end, nor offsets beyond it for lost.
            _check_watermark_known(replica)
            end = replica.high_watermark if end is None else end
        if not replica.log_start <= request.start <= replica.high_watermark:
            raise not_readable(replica, request.start)
        if not request.start <= end <= replica.high_watermark:
            raise not_readable(replica, end)
        topic = request.topic or self._logs.name_of(request.topic_id)
        return _Range(
            replica, topic, request.partition, leader_epoch, request.start, end, message_bytes, request.from_follower
        )

    async def _send(self, wanted: _Range, stream: Stream, own: StreamBudget) -> None:
        """Send the range, and read the next message while one is being sent, if memory allows."""
        if wanted.start == wanted.end:
            await stream.send(_message(wanted, wanted.start, Batches([], wanted.start)))
            return
        async with asyncio.TaskGroup() as group:
            position = wanted.start
            reading = group.create_task(self._read_within(wanted, position, own), name="range-read")
            while position < wanted.end:
                found, claim = await reading
                if isinstance(found, Exception):
                    raise self._logs.stream_error(found)
                if found.next_offset < wanted.end:
                    following = self._read_within(wanted, found.next_offset, own)
                    reading = group.create_task(following, name="range-read")
                next_offset, size_bytes = found.next_offset, found.size_bytes
                message = _message(wanted, position, found)
                del found  # the message holds a copy
                async with own.sending(claim):
                    await stream.send(message)
                wanted.replica.traffic.gave_out(size_bytes, next_offset - position)
                position = next_offset

    async def _read_within(self, wanted: _Range, position: int, own: StreamBudget) -> tuple[Batches | Exception, Claim]:
        most = min(wanted.message_bytes, own.proven_bytes)
        claim = await own.take(min(most, _LEAST_BYTES), most)
        found = await self._read_timed(wanted, position, own.stream.peer, claim.size_bytes)
        # A single batch may exceed the claim.
        own.resize(claim, 0 if isinstance(found, Exception) else found.size_bytes)
        return found, claim

    async def _read_timed(self, wanted: _Range, position: int, peer: str, max_bytes: int) -> Batches | Exception:
        began_seconds = self._clock.monotonic_seconds()
        found = await self._read(wanted, position, max_bytes)
        seconds = self._clock.monotonic_seconds() - began_seconds
        if seconds >= self._slow.threshold_seconds:
            self._slow.note(
                self._stats.method, seconds, waited_for="reading", topic=wanted.topic, partition=wanted.partition,
                offset=position, peer=peer,
            )  # fmt: skip
        return found

    async def _read(self, wanted: _Range, position: int, max_bytes: int) -> Batches | Exception:
        """Return the batches from `position`, or the error that prevents reading them."""
        replica = wanted.replica
        try:
            replica.check_serves(wanted.leader_epoch, from_follower=wanted.from_follower)
            found = await replica.read(position, max_bytes)
            if not found.buffers:
                raise ReplicaError(
                    errors_pb2.OFFSET_NOT_AVAILABLE, f"offset {position} is temporarily unavailable: try again"
                )
        except OffsetOutOfRange:
            return not_readable(replica, position)
        except SERVICE_ERRORS as error:
            return error
        return found if found.next_offset <= wanted.end else cut_at(found, wanted.end)


def _check_watermark_known(replica: ServedReplica) -> None:
    if not replica.watermark_is_known:
        raise ReplicaError(
            errors_pb2.OFFSET_NOT_AVAILABLE,
            "this broker does not know the high watermark yet, because it became leader only now or is a "
            "follower: try again, or ask the leader",
        )


def cut_at(batches: Batches, end: int) -> Batches:
    """Drop the batches that begin at `end` or later. The last one kept may reach beyond `end`."""
    kept: list[bytes | memoryview] = []
    for buffer in batches.buffers:
        at = 0
        while at < len(buffer):
            bounds = batch_bounds(memoryview(buffer), at)
            if bounds.base_offset >= end:
                break
            at += bounds.total_bytes
        kept.append(memoryview(buffer)[:at])
        if at < len(buffer):
            break
    return Batches(kept, end)


def _message(wanted: _Range, start: int, batches: Batches) -> bytes:
    """Build the message by hand, so that batches are copied once."""
    fields = pb.ReadRangeResponse(
        start_offset=start,
        next_offset=batches.next_offset,
        high_watermark=wanted.replica.high_watermark,
        is_last=batches.next_offset >= wanted.end,
    )
    parts: list[Buffer] = [fields.SerializeToString(), field_head(_BATCHES, batches.size_bytes), *batches.buffers]
    return b"".join(parts)
