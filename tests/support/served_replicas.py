"""Replicas as the services of a broker see them, in memory, and in the hands of a test.

replicas = FakeReplicas()
orders = replicas.add(1, 0)              # partition 0 of topic_id(1), led by this broker
orders.append(batch("a", "b"))           # committed; `orders.is_held = True` keeps the watermark where it is
orders.commit()
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from support.metadata_images import topic_id

from lograft.broker.replica.interfaces import Acks, Appended, FoundOffset, OffsetKind, OffsetSpec, ReplicaFacts
from lograft.broker.replica.traffic import PartitionTraffic, Traffic
from lograft.broker.replication.log_matching import reader_parts_at
from lograft.metadata.image.partition import TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.batch.codec import decode_records, encode_batch, parse_header, stamp
from lograft.storage.errors import OffsetOutOfRange
from lograft.storage.log.admission import Admitted
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.log_reader import Batches
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry

DIRECTORY = UUID(int=77)
NOW_MS = 1_767_225_600_000  # when the virtual calendar starts


def batch(*values: str | bytes | None, size: int = 0, **fields: int) -> bytes:
    """One batch of these values; or of one value of `size` zeros."""
    content = [value.encode() if isinstance(value, str) else value for value in values] or [bytes(size)]
    return encode_batch(content, timestamps=NOW_MS, **fields)  # type: ignore[arg-type]


def values_of(batches: bytes) -> list[bytes | None]:
    """Of all records in batches that follow one another."""
    values: list[bytes | None] = []
    view = memoryview(batches)
    while len(view):
        size = parse_header(view).total_bytes
        values += [record.value for record in decode_records(view[:size])]
        view = view[size:]
    return values


@dataclass
class Log:
    """What of a log is compared."""

    start_offset: int
    end_offset: int
    epochs: EpochCache


class FakePending:
    """Settled by the test, or by its replica's `commit`."""

    def __init__(self, appended: Appended, next_offset: int) -> None:
        self.appended = appended
        self.next_offset = next_offset
        self.error: Exception | None = None
        self._is_done = False
        self._callbacks: list[Callable[[], None]] = []

    def settle(self, error: Exception | None = None) -> None:
        if not self._is_done:
            self.error, self._is_done = error, True
            for callback in self._callbacks:
                callback()

    def done(self) -> bool:
        return self._is_done

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        if self._is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def result(self) -> Appended:
        assert self._is_done
        if self.error is not None:
            raise self.error
        return self.appended

    async def outcome(self) -> Appended:
        known = asyncio.get_running_loop().create_future()
        self.add_done_callback(lambda: known.done() or known.set_result(None))  # type: ignore[arg-type]
        await known
        return self.result()


class FakeReplica:
    """Leads its partition unless `refusal` is set; then it follows, in sync if `is_in_sync`. Appends are committed at
    once unless `is_held`."""

    def __init__(self, config: LogConfig | None = None, leader_epoch: int = 5) -> None:
        self.traffic = PartitionTraffic()
        self.log_config = config or LogConfig()
        self.leader_epoch = leader_epoch
        self.high_watermark = 0
        self.watermark_is_known = True
        self.log_start = 0
        self.log_end = 0
        self.cleaned_below = 0
        self.epochs = EpochCache([EpochEntry(leader_epoch, 0)])
        self.stored: list[tuple[int, int, bytes]] = []  # [base, next) and the batch
        self.refusal: Exception | None = None
        self.is_in_sync = False
        self.is_internal = False
        self.append_error: Exception | None = None
        self.is_held = False
        self.disk_is_held = False  # a batch is stored only when it is committed
        self.pending: list[FakePending] = []
        self.timeouts_ms: list[int] = []
        self.acks: list[Acks] = []
        self.waiters: dict[object, tuple[int, Callable[[], None]]] = {}
        self.reads: list[tuple[int, int]] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.found = FoundOffset(None)
        self.answers_barriers = True
        self.barriers = 0  # that were asked for
        self.barrier_held = False  # until `pass_barrier`
        self._barrier = asyncio.Event()

    def facts(self, topic_id: TopicId, number: int) -> ReplicaFacts:
        return ReplicaFacts(
            topic_id,
            number,
            is_leader=self.refusal is None,
            leader_epoch=self.leader_epoch,
            log_start=self.log_start,
            log_end=self.log_end,
            high_watermark=self.high_watermark if self.watermark_is_known else None,
            size_bytes=sum(len(content) for _, _, content in self.stored),
            directory_id=DIRECTORY,
        )

    # -- what a test does

    def append(self, *batches: bytes) -> None:
        """As a leader does; committed unless `is_held`."""
        for each in batches:
            self._store(parse_header(each).record_count, each)
        if not self.is_held:
            self.commit()

    def commit(self, watermark: int | None = None) -> None:
        """Move the watermark to there, or to the end; all that it passes is acknowledged, and readers are woken."""
        self.high_watermark = self.log_end if watermark is None else watermark
        for pending in [each for each in self.pending if each.next_offset <= self.high_watermark]:
            self.pending.remove(pending)
            pending.settle()
        for key, (offset, wake) in list(self.waiters.items()):
            if offset < self.high_watermark and self.waiters.pop(key, None):  # type: ignore[arg-type]
                wake()

    def pass_barrier(self) -> None:
        self.barrier_held = False
        self._barrier.set()

    def lose(self, refusal: Exception) -> None:
        """It does not lead any more."""
        self.refusal = refusal
        self.pass_barrier()
        for key, (_, wake) in list(self.waiters.items()):
            if self.waiters.pop(key, None):
                wake()

    @property
    def values(self) -> list[bytes | None]:
        return values_of(b"".join(each for _, _, each in self.stored))

    # -- what services do

    def check_leads(self, leader_epoch: int | None) -> None:
        if self.refusal is not None:
            raise self.refusal
        if leader_epoch is not None and leader_epoch < self.leader_epoch:
            raise ReplicaError(
                errors_pb2.FENCED_LEADER_EPOCH, f"epoch {leader_epoch} is old", leader_epoch=self.leader_epoch
            )

    @property
    def is_leader(self) -> bool:
        return self.refusal is None

    async def confirm_leads(self, leader_epoch: int, timeout_ms: int) -> bool:
        self.check_leads(leader_epoch)
        if self.append_error is not None:
            raise self.append_error
        self.barriers += 1
        if self.barrier_held:
            await self._barrier.wait()
        self.check_leads(leader_epoch)
        return self.answers_barriers

    def check_serves(self, leader_epoch: int | None, *, from_follower: bool) -> None:
        if not (from_follower and self.is_in_sync):
            self.check_leads(leader_epoch)

    def reader_parts_at(self, last_epoch: int, offset: int) -> int | None:
        return reader_parts_at(Log(self.log_start, self.log_end, self.epochs), last_epoch, offset)

    def begin_append(
        self,
        batch: Admitted,
        *,
        acks: Acks,
        leader_epoch: int | None,
        timeout_ms: int,
        when_stored: Callable[[], None] | None = None,
    ) -> FakePending:
        self.check_leads(leader_epoch)
        if self.append_error is not None:
            raise self.append_error
        self.timeouts_ms.append(timeout_ms)
        self.acks.append(acks)
        base_offset = self.log_end
        self._store(batch.header.record_count, batch.batch)
        append_time = batch.header.max_timestamp if self.log_config.append_time else None
        pending = FakePending(Appended(base_offset, append_time, self.log_start), self.log_end)
        if acks is Acks.NONE:
            pending.settle()
        else:
            self.pending.append(pending)
        if when_stored is not None and self.disk_is_held:
            pending.add_done_callback(when_stored)
        elif when_stored is not None:
            when_stored()
        if not self.is_held:
            self.commit()
        return pending

    def _store(self, record_count: int, content: bytes | bytearray | memoryview) -> None:
        base_offset, self.log_end = self.log_end, self.log_end + record_count
        self.stored.append((base_offset, self.log_end, stamp(content, base_offset, self.leader_epoch)))

    async def room(self) -> None:
        await self.has_room.wait()

    async def read(self, offset: int, max_bytes: int) -> Batches:
        self.reads.append((offset, max_bytes))
        await self.may_read.wait()
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRange(offset, self.log_start, self.log_end)
        buffers: list[bytes | memoryview] = []
        size, reached = 0, offset
        for _, next_offset, content in self.stored:
            if next_offset <= offset:
                continue
            if next_offset > self.high_watermark or (buffers and size + len(content) > max_bytes):
                break
            buffers.append(content)
            size, reached = size + len(content), next_offset
        return Batches(buffers, reached)

    async def read_stored(self, offset: int, max_bytes: int) -> Batches:
        return await self.read(offset, max_bytes)

    def when_readable(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        key = object()
        if not (self.is_leader or self.is_in_sync) or offset < self.high_watermark:
            wake()
        else:
            self.waiters[key] = (offset, wake)
        return lambda: self.waiters.pop(key, None) and None

    async def offsets(self, spec: OffsetSpec) -> FoundOffset:
        if spec.kind is OffsetKind.EARLIEST:
            return FoundOffset(self.log_start)
        if not self.watermark_is_known:
            raise ReplicaError(errors_pb2.OFFSET_NOT_AVAILABLE, "not known yet")
        return FoundOffset(self.high_watermark) if spec.kind is OffsetKind.LATEST else self.found


class FakeReplicas:
    """Of this broker. Those it does not have, it does not know."""

    def __init__(self) -> None:
        self._replicas: dict[tuple[TopicId, int], FakeReplica] = {}

    def add(self, topic: int, number: int, config: LogConfig | None = None) -> FakeReplica:
        replica = self._replicas[topic_id(topic), number] = FakeReplica(config)
        return replica

    @property
    def traffic(self) -> Traffic:
        """As its replicas have it by now."""
        traffic = Traffic()
        for key, replica in self._replicas.items():
            traffic.of(key).add(replica.traffic)
        return traffic

    def facts(self) -> Iterator[ReplicaFacts]:
        for (topic, number), replica in self._replicas.items():
            yield replica.facts(topic, number)

    def get(self, topic_id: TopicId, number: int) -> FakeReplica:
        replica = self._replicas.get((topic_id, number))
        if replica is None:
            raise ReplicaError(errors_pb2.UNKNOWN_TOPIC_ID, f"there is no topic {topic_id}")
        return replica
