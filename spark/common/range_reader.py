"""Reads ranges of offsets completely, from leaders or followers, and follows leadership changes."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.consumer.reading.fetched_partition import MOST_REFETCHES
from lograft.clients.consumer.reading.fetcher import intact_source, near_follower
from lograft.clients.errors import (
    ConnectionLost,
    CorruptBatch,
    LograftError,
    OffsetOutOfRange,
    TimedOut,
    UnknownTopicId,
    error_of_stream,
)
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import READ_RANGE
from lograft.proto.wire_format import Buffer, WireError, cut_out
from lograft.runtime.network import ConnectFailed, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.retry import ExponentialWait
from lograft.storage.batch.codec import Record, decode_records, iterate_batches, validate_batch
from lograft.storage.batch.header import check_crc
from lograft.storage.errors import InvalidBatch

log = get_logger(__name__)

MESSAGE_BYTES = 2 * 1024 * 1024
SILENCE_MS = 10_000
"""A broker that sends nothing for this long may be stopped, so the read is retried. A leader that does not know a
range's end may no longer be the leader, so it is retried for this long."""

_BATCHES = pb.ReadRangeResponse.BATCHES_FIELD_NUMBER
_FIRST_RETRY_MS = 20
_LAST_RETRY_MS = 500


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """[start, end) of a partition of a topic identified by its id."""

    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def count(self) -> int:
        """The number of offsets; there may be fewer records."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"{self.name} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class RangePart:
    """Complete batches, as stored, that cover [start, next_offset) of a range; the first and the last may extend beyond
    it."""

    batches: Buffer
    start: int
    next_offset: int


class RangeReader:
    """`patience_ms`: how long a read may make no progress before it fails. `rack`: prefer followers in this rack.
    `spreads`: spread reads over all in-sync replicas."""

    def __init__(
        self, cluster: ClusterClient, *, patience_ms: int, rack: str | None = None, spreads: bool = False
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._patience_ms = patience_ms
        self._rack = rack
        self._spreads = spreads

    async def read(self, wanted: OffsetRange) -> AsyncGenerator[RangePart, None]:
        """Yield all parts of the range, in order. Raise `OffsetOutOfRange`, with the existing offsets, if some of it no
        longer exists; `UnknownTopicId` if the topic was deleted; `TimedOut` if no broker serves it in time;
        `CorruptBatch` if no in-sync replica has it intact."""
        async with self._cluster.within(self._patience_ms, f"nothing could be learnt of topic {wanted.topic!r}"):
            await self._find(wanted)
        backoff = ExponentialWait(self._cluster.runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)
        position, progress_ms = wanted.start, self._clock.monotonic_ms()
        leader_only, short_since_ms = False, None
        damaged = _Damaged()
        while position < wanted.end:
            try:
                async with aclosing(self._read_from(wanted, position, leader_only, damaged)) as parts:
                    async for part in parts:
                        damaged.refetches = 0
                        yield part
                        position, progress_ms = part.next_offset, self._clock.monotonic_ms()
                        backoff.succeeded()
                        leader_only, short_since_ms = False, None
                return
            except _NotAsStored as error:
                damaged.note(wanted, error, self._clock.monotonic_ms())
                leader_only = False
                await self._clock.sleep_ms(backoff.next_ms())
                continue
            except ConnectFailed as error:
                reason = str(error)
            except LograftError as error:
                if _ends_early(error, wanted):
                    short_since_ms = self._clock.monotonic_ms() if short_since_ms is None else short_since_ms
                    if self._clock.monotonic_ms() - short_since_ms >= SILENCE_MS:
                        raise
                elif not error.retriable:
                    raise
                if self._is_gone(wanted):
                    raise _another_topic(wanted) from None
                self._cluster.hinted(wanted.topic_id, wanted.partition, error)
                reason = str(error)
            leader_only = True
            if self._clock.monotonic_ms() - progress_ms >= self._patience_ms:
                raise TimedOut(f"{wanted} came to nothing at {position} for {self._patience_ms} ms: {reason}")
            await self._clock.sleep_ms(backoff.next_ms())

    async def _find(self, wanted: OffsetRange) -> None:
        topic = await self._cluster.topic_with(wanted.topic, wanted.topic_id, wanted.partition)
        if topic.id != wanted.topic_id:
            raise _another_topic(wanted)

    def _is_gone(self, wanted: OffsetRange) -> bool:
        return self._cluster.view.leader(wanted.topic_id, wanted.partition) is None

    async def _read_from(
        self, wanted: OffsetRange, position: int, leader_only: bool, damaged: "_Damaged"
    ) -> AsyncGenerator[RangePart, None]:
        """Yield the parts that one broker serves."""
        leader = self._cluster.view.leader(wanted.topic_id, wanted.partition)
        if leader is None:
            raise _another_topic(wanted)
        follower = None if leader_only else self._follower(wanted, damaged)
        broker_id = leader.broker_id if follower is None else follower
        if broker_id is None:
            raise ConnectionLost(f"nobody leads {wanted.name} at the moment")
        request = pb.ReadRangeRequest(
            topic_id=wanted.topic_id,
            partition=wanted.partition,
            leader_epoch=leader.epoch,
            start=position,
            end=wanted.end,
            max_message_bytes=MESSAGE_BYTES,
            from_follower=follower is not None,
        )
        stream = (await self._cluster.connect(broker_id)).open(READ_RANGE)
        try:
            await stream.send(request.SerializeToString())
            await stream.half_close()
            while True:
                answer, batches = await self._receive(stream)
                if answer.start_offset != position:
                    raise ConnectionLost(f"broker {broker_id} gave {answer.start_offset} of a range, not {position}")
                if answer.next_offset <= position:
                    raise ConnectionLost(f"broker {broker_id} gave nothing of a range at {position}")
                _check_intact(batches, broker_id, position)
                position = answer.next_offset
                yield RangePart(batches, answer.start_offset, answer.next_offset)
                if position >= wanted.end:
                    return
        except StreamError as error:
            raise error_of_stream(error) from None
        finally:
            stream.reset()

    async def _receive(self, stream: Stream) -> tuple[pb.ReadRangeResponse, Buffer]:
        """Return the fields of an answer, and its batches without the copy that the generated code would make."""
        try:
            async with asyncio.timeout(SILENCE_MS / 1000):
                data = await stream.receive()
        except TimeoutError:
            raise TimedOut(f"{stream.peer} gave nothing for {SILENCE_MS} ms") from None
        if data is None:
            raise ConnectionLost(f"{stream.peer} ended a range before its end")
        try:
            fields, batches = cut_out(memoryview(data), _BATCHES)
            return pb.ReadRangeResponse.FromString(fields), batches[0] if batches else b""
        except (DecodeError, WireError) as error:
            raise ConnectionLost(f"{stream.peer} gave what is no part of a range: {error}") from None

    def _follower(self, wanted: OffsetRange, damaged: "_Damaged") -> int | None:
        view = self._cluster.view
        if damaged.at_ms:
            preferred = near_follower(view, wanted.topic_id, wanted.partition, self._rack)
            return intact_source(view, wanted.topic_id, wanted.partition, preferred, damaged.at_ms)
        near = near_follower(view, wanted.topic_id, wanted.partition, self._rack)
        if near is not None or not self._spreads:
            return near
        in_sync = [each for each in sorted(view.in_sync(wanted.topic_id, wanted.partition)) if each in view.addresses]
        if not in_sync:
            return None
        # Spread the ranges of one partition by their start.
        chosen = in_sync[hash((wanted.partition, wanted.start)) % len(in_sync)]
        leader = view.leader(wanted.topic_id, wanted.partition)
        return None if leader is not None and leader.broker_id == chosen else chosen


class _NotAsStored(Exception):
    """From `offset` on, broker `broker_id` sent bytes that were damaged after they were stored, on disk or in
    transit."""

    def __init__(self, broker_id: int, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.broker_id = broker_id
        self.offset = offset


@dataclass(slots=True)
class _Damaged:
    """When each broker last sent damaged records of a range, and how often the next records were refetched."""

    at_ms: dict[int, float] = field(default_factory=dict)
    refetches: int = 0

    def note(self, wanted: OffsetRange, error: _NotAsStored, now_ms: float) -> None:
        """Count a refetch. Raise `CorruptBatch` after `MOST_REFETCHES`."""
        if self.refetches == MOST_REFETCHES:
            raise CorruptBatch(
                f"{wanted.name} cannot be read from offset {error.offset} on: {error}. It was fetched {MOST_REFETCHES} "
                "times more, from other replicas where there are any in sync: `lograft verify replicas "
                f"{wanted.topic}` names the damaged ones; leave these offsets out to read the others"
            ) from error
        self.refetches += 1
        self.at_ms[error.broker_id] = now_ms
        log.warning(
            "damaged_records_fetched_again", topic=wanted.topic, partition=wanted.partition, offset=error.offset,
            broker=error.broker_id, times=self.refetches,
        )  # fmt: skip


def _check_intact(batches: Buffer, broker_id: int, offset: int) -> None:
    """Raise `_NotAsStored` unless the CRC of each batch is correct."""
    try:
        for at, header in iterate_batches(batches):
            check_crc(batches, at, header)
            offset = header.next_offset
    except InvalidBatch as error:
        raise _NotAsStored(broker_id, offset, str(error)) from error


def _ends_early(error: LograftError, wanted: OffsetRange) -> bool:
    """Return True if only the end of the range is missing. It existed when the range was planned, but a leader that was
    replaced and does not know it yet may lack it. If it stays missing, it is lost."""
    if not isinstance(error, OffsetOutOfRange) or error.valid_start is None or error.valid_end is None:
        return False
    return error.valid_start <= wanted.start and error.valid_end < wanted.end


def _another_topic(wanted: OffsetRange) -> UnknownTopicId:
    return UnknownTopicId(f"topic {wanted.topic!r} is not the one that was looked at: it was deleted, or recreated")


def records_of(parts: Iterable[RangePart]) -> Iterator[Record]:
    """Decode the records of the range one by one; only for the connector's own, few records."""
    for part in parts:
        view = memoryview(part.batches)
        for at, header in iterate_batches(view):
            validate_batch(view, at)
            for record in decode_records(view[at : at + header.total_bytes]):
                if part.start <= record.offset < part.next_offset:
                    yield record
