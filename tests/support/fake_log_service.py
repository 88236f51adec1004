"""Brokers that do what a test says, in virtual time: real metadata services, and logs that are lists in memory.

cluster = FakeCluster()
cluster.create_topic("orders", [1, 2])           # two partitions, led by brokers 1 and 2
producer = Producer(cluster.bootstrap, runtime=cluster.client)
cluster.move_leader("orders", 0, 3)
cluster.kill(1)
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from support.metadata_images import broker as registered
from support.metadata_images import partition, topic_id
from support.raft_nodes import make_runtime
from support.served_replicas import Log as ComparedLog

from lograft.broker.replication.log_matching import reader_parts_at
from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.image.partition import TopicId
from lograft.metadata.image.record_codec import encode_operation
from lograft.metadata.image.records import (
    BrokerRegistered,
    Operation,
    PartitionChanged,
    Record,
    TopicCreated,
    TopicDeleted,
)
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.metadata.membership.cluster_service import ClusterService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.errors import error_detail
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.proto.methods import FETCH, INIT_PRODUCER, LIST_OFFSETS, PRODUCE
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler, Server, Stream
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime
from lograft.storage.batch.codec import decode_records, parse_header, stamp
from lograft.storage.batch.header import BatchHeader
from lograft.storage.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer
from lograft.storage.state.epoch_cache import EpochCache
from lograft.storage.state.producer_state import ProducerState

CLIENT = "client"
_ALIVE_S = 0.4


class Refused(Exception):
    """What a client is told."""

    def __init__(self, detail: ErrorDetail) -> None:
        super().__init__(detail.message)
        self.detail = detail


def refused(code: errors_pb2.ErrorCode, message: str = "so it is", **others: int | str) -> Refused:
    return Refused(error_detail(code, message, **others))  # type: ignore[arg-type]


@dataclass
class FakeLog:
    """One partition. Everything that is appended is committed, and every broker that leads it has it all."""

    leader: int | None
    epoch: int = 0
    start: int = 0
    in_sync: tuple[int, ...] = ()  # those who serve readers beside the leader
    changes: int = 0
    batches: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    producers: ProducerState = field(default_factory=ProducerState)

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset if self.batches else self.start

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for _, batch in self.batches for record in decode_records(batch)]

    def append(self, batch: bytes) -> int:
        header = parse_header(batch)
        try:
            known = self.producers.check(header)
        except UnknownProducer as error:
            raise refused(errors_pb2.UNKNOWN_PRODUCER_ID, str(error)) from None
        except InvalidProducerEpoch as error:
            raise refused(errors_pb2.INVALID_PRODUCER_EPOCH, str(error)) from None
        except OutOfOrderSequence as error:
            raise refused(errors_pb2.OUT_OF_ORDER_SEQUENCE, str(error)) from None
        if known is not None:
            return known.base_offset
        stamped = stamp(batch, self.end, self.epoch)
        header = parse_header(stamped)
        self.batches.append((header, stamped))
        self.producers.update(header, 0)
        return header.base_offset

    def check(self, offset: int) -> None:
        if not self.start <= offset <= self.end:
            message = f"{offset} is not between {self.start} and {self.end}"
            raise refused(errors_pb2.OFFSET_OUT_OF_RANGE, message, valid_start=self.start, valid_end=self.end)

    def check_past(self, offset: int, last_epoch: int) -> None:
        """What was read before `offset` is still there."""
        epochs = EpochCache()
        for header, _ in self.batches:
            epochs.assign(max(header.leader_epoch, 0), header.base_offset)
        parting = reader_parts_at(ComparedLog(self.start, self.end, epochs), last_epoch, offset)
        if parting is not None:
            raise refused(errors_pb2.LOG_TRUNCATED, valid_start=self.start, valid_end=parting)

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        parts: list[bytes] = []
        for header, batch in self.batches:
            if header.next_offset <= offset:
                continue
            if parts and sum(map(len, parts)) + len(batch) > max_bytes:
                break
            parts.append(batch)
            offset = header.next_offset
        return b"".join(parts), offset


class FakeCluster:
    """Brokers 1 to `count`, at `broker-N:9092` of a virtual network; or in the real world that `runtime` is, at
    `addresses`: then nothing can be killed or cut off."""

    def __init__(
        self,
        count: int = 3,
        *,
        seed: int = 1,
        runtime: Runtime | None = None,
        addresses: Mapping[int, str] | None = None,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        self.network = VirtualNetwork(Rng(seed))
        self.cluster_id = "test"  # of brokers that are started from now on
        self.runtime = runtime
        self.client = runtime or make_runtime(seed, self.network, CLIENT)
        self.addresses = dict(addresses or {number: f"broker-{number}:9092" for number in range(1, count + 1)})
        self.logs: dict[tuple[TopicId, int], FakeLog] = {}
        self.brokers: dict[int, FakeBroker] = {}
        self.changed = asyncio.Event()  # a log is longer, or led by another; then another takes its place
        self.topics: dict[str, TopicId] = {}
        # What becomes of batches on a broker's way to readers.
        self.spoil: Callable[[int, bytes], bytes] = lambda number, batches: batches
        self.more_handlers: Callable[[int], Mapping[str, Handler]] = lambda number: {}  # of a broker
        self.controller_id: int | None = 1  # the active one, as brokers know it
        self._topic_count = 0
        self._producer_ids = 1000
        self._history: list[tuple[Record, ...]] = []
        self.commit(
            *(
                BrokerRegistered(replace(registered(number), address=at, rack=(racks or {}).get(number)))
                for number, at in self.addresses.items()
            )
        )

    @property
    def bootstrap(self) -> list[str]:
        return list(self.addresses.values())

    async def start(self, *numbers: int) -> None:
        """All brokers, or these."""
        for number in numbers or self.addresses:
            self.brokers[number] = FakeBroker(self, number)
            await self.brokers[number].start(self._history)

    # -- metadata

    def commit(self, *records: Record) -> None:
        self._history.append(records)
        for each in self.brokers.values():
            each.catch_up(self._history)
        self.tell()

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def create_topic(self, name: str, leaders: Sequence[int]) -> None:
        self._topic_count += 1
        new_id = self.topics[name] = topic_id(self._topic_count)
        for number, leader in enumerate(leaders):
            self.logs[new_id, number] = FakeLog(leader)
        changes = [PartitionChanged(new_id, number, partition(leader)) for number, leader in enumerate(leaders)]
        self.commit(TopicCreated(new_id, name), *changes)

    def add_partition(self, name: str, leader: int) -> None:
        number = sum(key[0] == self.topics[name] for key in self.logs)
        self.logs[self.topics[name], number] = FakeLog(leader)
        self.commit(PartitionChanged(self.topics[name], number, partition(leader)))

    def set_isr(self, name: str, number: int, *isr: int) -> None:
        """Of a partition that has a leader; who is in it serves readers."""
        log = self.log(name, number)
        log.in_sync, log.changes = isr, log.changes + 1
        changed = partition(*isr, leader=log.leader, leader_epoch=log.epoch, partition_epoch=log.epoch + log.changes)
        self.commit(PartitionChanged(self.topics[name], number, changed))

    def delete_topic(self, name: str) -> None:
        gone = self.topics.pop(name)
        for key in [key for key in self.logs if key[0] == gone]:
            del self.logs[key]
        self.commit(TopicDeleted(gone))

    def log(self, name: str, number: int = 0) -> FakeLog:
        return self.logs[self.topics[name], number]

    def move_leader(self, name: str, number: int, leader: int | None, *, tells: bool = True) -> None:
        """`tells`: the metadata says so, too; else only the logs know."""
        log = self.log(name, number)
        log.leader, log.epoch = leader, log.epoch + 1
        if tells:
            replicas = [leader] if leader is not None else [1]
            isr = [leader] if leader is not None else []
            moved = partition(*replicas, isr=isr, leader_epoch=log.epoch, partition_epoch=log.epoch + log.changes)
            self.commit(PartitionChanged(self.topics[name], number, moved))
        self.tell()

    def next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    async def stop(self) -> None:
        for each in self.brokers.values():
            await each.stop()

    # -- faults

    def kill(self, number: int) -> None:
        self.network.crash(f"broker-{number}")
        self.brokers.pop(number)

    def cut_off(self, number: int) -> None:
        """As SIGSTOP does: connections stay, and nothing comes."""
        self.network.cut(f"broker-{number}", CLIENT)
        self.network.cut(CLIENT, f"broker-{number}")

    def heal(self) -> None:
        self.network.heal_all()


class FakeBroker:
    """`before_append` and `after_append` are asked for each batch, and may raise `Refused`, or `Lost` to break the
    stream. `is_behind`: it hears of no more changes; `is_alone`: and no controller can be asked for them."""

    def __init__(self, cluster: FakeCluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.is_behind = False
        self.is_alone = False
        self.before_append: Callable[[pb.ProduceRequest.Item], None] = lambda item: None
        self.after_append: Callable[[pb.ProduceRequest.Item], None] = lambda item: None
        self.requests: list[pb.ProduceRequest] = []
        self.fetches: list[pb.FetchRequest] = []
        self.streams: list[str] = []  # the methods of those that were opened
        self.answers = asyncio.Event()  # cleared: appends are not answered
        self.answers.set()
        self._machine = MetadataMachine()
        self._server: Server
        self._runtime = cluster.runtime or make_runtime(number, cluster.network, f"broker-{number}")
        self._service = ClusterService(
            self._runtime, self._machine, cluster.cluster_id, self._committed_index, lambda: cluster.controller_id
        )

    async def start(self, history: Sequence[tuple[Record, ...]]) -> None:
        self.catch_up(history)
        address = self.cluster.addresses[self.number]
        self._server = await self._runtime.network.serve(address, self._handlers(), _panic)

    async def stop(self) -> None:
        await self._server.stop()

    def catch_up(self, history: Sequence[tuple[Record, ...]]) -> None:
        if self.is_behind or self.is_alone:
            return
        for index in range(self._machine.index, len(history)):
            operation = Operation(self._machine.image.sequence, history[index])
            self._machine.apply(index + 1, encode_operation(operation))
            self._machine.committed(index + 1)

    def forget_changes(self) -> None:
        """As after a snapshot: whoever watches is told all anew."""
        self._service.restored(self._machine.index)

    async def _committed_index(self) -> int:
        if self.is_alone:
            await asyncio.Event().wait()
        self.is_behind = False
        self.catch_up(self.cluster._history)
        return self._machine.index

    def _handlers(self) -> Mapping[str, Handler]:
        return {
            **self._service.handlers(),
            PRODUCE: self._serve_produce,
            FETCH: self._serve_fetch,
            LIST_OFFSETS: unary(self._list_offsets, pb.ListOffsetsRequest),
            INIT_PRODUCER: unary(self._init_producer, pb.InitProducerRequest),
            **self.cluster.more_handlers(self.number),
        }

    def _find(self, topic: bytes, number: int) -> FakeLog | None:
        return next((log for key, log in self.cluster.logs.items() if (key[0].bytes, key[1]) == (topic, number)), None)

    def _led(self, topic: bytes, number: int, epoch: int | None) -> FakeLog:
        """The partition, if this broker leads it, in that epoch."""
        log = self._find(topic, number)
        if log is None:
            raise refused(errors_pb2.UNKNOWN_TOPIC_ID)
        hint: dict[str, int | str] = {"leader_epoch": log.epoch}
        if log.leader is not None:
            hint |= {"leader_id": log.leader, "leader_address": self.cluster.addresses[log.leader]}
        if log.leader != self.number:
            raise refused(errors_pb2.NOT_LEADER, **hint)  # type: ignore[arg-type]
        if epoch is not None and epoch < log.epoch:
            raise refused(errors_pb2.FENCED_LEADER_EPOCH, **hint)  # type: ignore[arg-type]
        if epoch is not None and epoch > log.epoch:
            raise refused(errors_pb2.UNKNOWN_LEADER_EPOCH)
        return log

    def _served(self, add: pb.FetchRequest.Add) -> FakeLog:
        log = self._find(add.topic_id, add.partition)
        if add.from_follower and log is not None and self.number in log.in_sync and add.leader_epoch == log.epoch:
            return log
        return self._led(add.topic_id, add.partition, add.leader_epoch)

    # -- unary calls

    async def _init_producer(self, _: pb.InitProducerRequest) -> pb.InitProducerResponse:
        return pb.InitProducerResponse(producer_id=self.cluster.next_producer_id(), producer_epoch=0)

    async def _list_offsets(self, request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        response = pb.ListOffsetsResponse()
        for item in request.items:
            result = response.results.add()
            try:
                log = self._led(item.topic_id, item.partition, item.leader_epoch)
            except Refused as refusal:
                result.error.CopyFrom(refusal.detail)
                continue
            if item.kind == pb.ListOffsetsRequest.EARLIEST:
                result.offset = log.start
            elif item.kind == pb.ListOffsetsRequest.LATEST:
                result.offset = log.end
            else:
                found = [header for header, _ in log.batches if header.max_timestamp >= item.timestamp]
                if found:
                    result.offset = found[0].base_offset
        return response

    # -- produce

    async def _serve_produce(self, stream: Stream) -> None:
        self.streams.append(PRODUCE)
        waiting: list[pb.ProduceResponse] = []
        async with asyncio.TaskGroup() as group:
            alive = group.create_task(self._keep_alive(stream, waiting))
            while (data := await stream.receive()) is not None:
                request = pb.ProduceRequest.FromString(data)
                self.requests.append(request)
                response = pb.ProduceResponse(results=[self._append(item) for item in request.items])
                self.cluster.tell()
                if request.acks != pb.ACKS_NONE:
                    waiting.append(response)
            alive.cancel()

    async def _keep_alive(self, stream: Stream, waiting: list[pb.ProduceResponse]) -> None:
        """Answers what there is, every few milliseconds; or says that it lives."""
        since = 0
        while True:
            await asyncio.sleep(0.002)
            since += 2
            if waiting and self.answers.is_set():
                answer, since = waiting.pop(0), 0
                await stream.send(answer.SerializeToString())
            elif since > _ALIVE_S * 1000:
                since = 0
                await stream.send(b"")

    def _append(self, item: pb.ProduceRequest.Item) -> pb.ProduceResponse.Result:
        try:
            log = self._led(item.topic_id, item.partition, item.leader_epoch)
            self.before_append(item)
            offset = log.append(item.batch)
            self.after_append(item)
        except Refused as refusal:
            return pb.ProduceResponse.Result(number=item.number, error=refusal.detail)
        return pb.ProduceResponse.Result(number=item.number, base_offset=offset)

    # -- fetch

    async def _serve_fetch(self, stream: Stream) -> None:
        self.streams.append(FETCH)
        fetching: dict[int, _Fetched] = {}
        credit = [0]
        async with asyncio.TaskGroup() as group:
            pushing = group.create_task(self._push(stream, fetching, credit))
            while (data := await stream.receive()) is not None:
                request = pb.FetchRequest.FromString(data)
                self.fetches.append(request)
                for handle in request.remove:
                    fetching.pop(handle, None)
                for add in request.add:
                    fetching[add.handle] = _Fetched(add, add.offset)
                credit[0] += request.credit_bytes
                self.cluster.tell()
            pushing.cancel()

    async def _push(self, stream: Stream, fetching: "dict[int, _Fetched]", credit: list[int]) -> None:
        while True:
            changed = self.cluster.changed
            response = pb.FetchResponse(data=self._read_all(fetching, credit))
            await stream.send(response.SerializeToString())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ALIVE_S):
                    await changed.wait()

    def _read_all(self, fetching: "dict[int, _Fetched]", credit: list[int]) -> Iterator[pb.FetchResponse.Data]:
        for handle, fetched in list(fetching.items()):
            add = fetched.add
            try:
                log = self._served(add)
                if add.HasField("last_epoch") and fetched.offset == add.offset:
                    log.check_past(add.offset, add.last_epoch)
                log.check(fetched.offset)
                if credit[0] <= 0 and fetched.offset < log.end:
                    continue
                batches, fetched.offset = log.read(fetched.offset, add.max_bytes)
            except Refused as refusal:
                del fetching[handle]
                yield pb.FetchResponse.Data(handle=handle, error=refusal.detail)
                continue
            credit[0] -= len(batches)
            yield pb.FetchResponse.Data(
                handle=handle,
                batches=self.cluster.spoil(self.number, batches),
                next_offset=fetched.offset,
                high_watermark=log.end,
                log_start=log.start,
            )


@dataclass
class _Fetched:
    add: pb.FetchRequest.Add
    offset: int


def _panic(error: BaseException) -> None:
    raise AssertionError("a handler broke") from error
