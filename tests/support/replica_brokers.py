"""Brokers with real replicas on simulated disks, one metadata log that decides as the controller does, and followers
that are fed without a network.

metadata = Metadata()
brokers = await start_brokers(metadata, 3)
topic = metadata.create("orders", partition(1, 2, 3))
replica = await brokers[1].leads(topic)
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import UUID

from support.metadata_images import partition, topic_id
from support.virtual_log import ROOT, Machine, admitted, make_batch

from lograft.broker.hosting.maintenance import MaintenanceTimes
from lograft.broker.hosting.replica_manager import ReplicaManager
from lograft.broker.node.broker_role import use_of
from lograft.broker.replica.append_waiters import AppendWaiter
from lograft.broker.replica.follower_role import FollowerRole
from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.broker.replication.interfaces import Feed, Followed, ResetTo
from lograft.broker.replication.leader_core import Subscriber
from lograft.broker.replication.log_matching import TruncateTo
from lograft.metadata.controller.initial_records import FEATURE_LEVEL
from lograft.metadata.decisions.brokers.fencing import fence, unfence
from lograft.metadata.decisions.brokers.registration import DirectoryUse, Registration, latest_epoch, register
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.alter_isr import Alteration, alter_partitions
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Partition, TopicId
from lograft.metadata.image.partition import Replica as Place
from lograft.metadata.image.records import (
    ConfigChanged,
    ConfigResource,
    FeatureLevelChanged,
    Operation,
    PartitionChanged,
    Record,
    ResourceKind,
    TopicCreated,
)
from lograft.metadata.image.state_machine import MachineListener
from lograft.proto.controller_pb2 import AlterPartitionsResponse
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.rpc.status import detail_of
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime
from lograft.storage.errors import DirectoryFailed, DiskFull, FrameMismatch
from lograft.storage.log.data_directory import FAILED_FILE, DataDirectory, DirectoryOwner, open_directory
from lograft.storage.log.replica_frame import ReplicaFrame
from lograft.storage.state.used_epoch import read_use

TIMEOUT_MS = 5000


async def until(condition: Callable[[], Any], what: str = "it", seconds: float = 30) -> None:
    """Wait for a condition, in virtual time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (virtual time costs nothing)
            await asyncio.sleep(0.002)
    assert condition(), what


# -- the metadata


class Metadata:
    """The committed image, and the brokers that follow it: at once, unless their view is held."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.history: list[tuple[Record, ...]] = []
        self.views: dict[int, View] = {}
        self._topics = count(1)
        self.commit(FeatureLevelChanged(FEATURE_LEVEL))

    @property
    def index(self) -> int:
        return len(self.history)

    def commit(self, *records: Record) -> int:
        """One operation; the index by which it is in every image."""
        if records:
            assert self.image.apply_operation(Operation(self.image.sequence, records))
            self.history.append(records)
            for view in self.views.values():
                view.catch_up()
        return self.index

    def carry_out(self, decision: Decision[Any]) -> int:
        return self.commit(*decision.records)

    # -- in few words

    def create(self, name: str, *partitions: Partition, **config: str) -> TopicId:
        """`flush_mode="os"` for `flush.mode`."""
        created = topic_id(next(self._topics))
        changes = [PartitionChanged(created, number, each) for number, each in enumerate(partitions)]
        resource = ConfigResource(ResourceKind.TOPIC, str(created))
        settings = [ConfigChanged(resource, key.replace("_", "."), value) for key, value in config.items()]
        self.commit(TopicCreated(created, name), *changes, *settings)
        return created

    def configure(self, topic: TopicId | None, key: str, value: str | None) -> None:
        kind = ResourceKind.CLUSTER if topic is None else ResourceKind.TOPIC
        self.commit(ConfigChanged(ConfigResource(kind, "" if topic is None else str(topic)), key, value))

    def put(self, topic: TopicId, partition: Partition, number: int = 0) -> None:
        self.commit(PartitionChanged(topic, number, partition))

    def partition(self, topic: TopicId, number: int = 0) -> Partition:
        found = self.image.partition(topic, number)
        assert found is not None
        return found

    def fence(self, broker_id: int) -> None:
        own = BrokerId(broker_id)
        self.carry_out(fence(self.image, own, self.image.brokers[own].epoch))


class View:
    """What one broker's process sees of the metadata, and how it speaks to the controller (`replicas.Cluster`).

    `alter` and `report`, if set, are asked in the controller's place.
    """

    def __init__(self, metadata: Metadata, broker_id: BrokerId) -> None:
        self.image = ClusterImage()
        self.index = 0
        self.broker_epoch = BrokerEpoch(0)
        self.is_held = False
        self.asked: list[Alteration] = []
        self.reports: list[tuple[list[UUID], list[tuple[TopicId, int]]]] = []
        self.alter: Callable[[Sequence[Alteration]], Any] | None = None
        self.report: Callable[[], Any] | None = None
        self.is_registered = asyncio.Event()
        self._metadata = metadata
        self._broker_id = broker_id
        self._listeners: list[MachineListener] = []
        self._news = asyncio.Event()

    @property
    def follower(self) -> "View":
        return self

    def listen(self, listener: MachineListener) -> None:
        self._listeners.append(listener)

    async def wait_for(self, index: int) -> None:
        while self.index < index:
            await self._news.wait()

    async def until_registered(self) -> None:
        await self.is_registered.wait()

    def hold(self) -> None:
        """Nothing more is seen until `release`."""
        self.is_held = True

    def release(self) -> None:
        self.is_held = False
        self.catch_up()

    def catch_up(self) -> None:
        if self.is_held or self.index == self._metadata.index:
            return
        for records in self._metadata.history[self.index :]:
            self.image.apply_operation(Operation(self.image.sequence, records))
            self.index += 1
            for listener in self._listeners:
                listener.applied(self.index, records)
        for listener in self._listeners:
            listener.advanced(self.index)
        self._news.set()
        self._news = asyncio.Event()

    async def alter_partitions(self, alterations: Sequence[Alteration]) -> AlterPartitionsResponse:
        self.asked.extend(alterations)
        await asyncio.sleep(0.003)
        if self.alter is not None:
            answer: AlterPartitionsResponse = await self.alter(alterations)
            return answer
        return self.carry_out(alterations)

    def carry_out(self, alterations: Sequence[Alteration]) -> AlterPartitionsResponse:
        decision = alter_partitions(self._metadata.image, self._broker_id, self.broker_epoch, alterations)
        response = AlterPartitionsResponse(index=self._metadata.carry_out(decision))
        for altered in decision.answer:
            result = response.results.add(topic_id=altered.topic_id.bytes, partition=altered.number)
            if isinstance(altered.outcome, ControllerError):
                result.error.CopyFrom(detail_of(altered.outcome))
            else:
                result.partition_epoch = altered.outcome.partition_epoch
        return response

    async def report_failures(
        self, directories: Sequence[UUID], corrupt: Sequence[tuple[TopicId, int]], reason: str
    ) -> int:
        self.reports.append((list(directories), list(corrupt)))
        await asyncio.sleep(0.003)
        if self.report is not None:
            await self.report()
        return self._metadata.carry_out(
            report_failures(self._metadata.image, self._broker_id, self.broker_epoch, directories, corrupt)
        )


# -- followers that are fed by hand


class _Listener:
    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.error: ReplicaError | None = None

    def has_news(self) -> None:
        self.news.set()

    def ended(self, error: ReplicaError) -> None:
        assert self.error is None, "told twice"
        self.error = error
        self.news.set()


class Pump:
    """A `ReplicationSink` that takes what it follows straight from the leaders' replicas. Nothing moves while it is
    `stopped`."""

    def __init__(self, own: "TestBroker") -> None:
        self._own = own
        self._tasks: dict[Followed, asyncio.Task[None]] = {}
        self._bells: dict[Followed, _Listener] = {}
        self._numbers = count(1)
        self._is_running = asyncio.Event()
        self._is_running.set()
        self.log: list[str] = []  # what was told to subscribers

    def stop(self) -> None:
        self._is_running.clear()

    def start(self) -> None:
        self._is_running.set()

    @property
    def followed(self) -> list[Followed]:
        return list(self._tasks)

    @property
    def bells(self) -> "list[_Listener]":
        return list(self._bells.values())

    def follow(self, followed: Followed) -> None:
        assert followed not in self._tasks
        followed.stream = self
        self._bells[followed] = _Listener()
        self._tasks[followed] = asyncio.ensure_future(self._pump(followed))

    def unfollow(self, followed: Followed) -> None:
        followed.stream = None
        self._tasks.pop(followed).cancel()
        del self._bells[followed]

    def has_acknowledgement(self, followed: Followed) -> None:
        self._bells[followed].news.set()

    def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _pump(self, followed: Followed) -> None:
        while True:
            if followed.lacks_room:
                with suppress(ReplicaError, KeyError):
                    leader = self._own.peers[followed.leader_id].manager.get(followed.topic_id, followed.number)
                    leader.has_no_room(self._own.broker_id, followed.leader_epoch)
            await followed.settle()
            number = next(self._numbers)
            request = followed.subscribe(number)
            bell = self._bells[followed]
            bell.news, bell.error = asyncio.Event(), None
            subscriber = Subscriber(self._own.broker_id, self._own.view.broker_epoch, followed.directory_id, number)
            try:
                await self._is_running.wait()
                leader = self._own.peers[followed.leader_id].manager.get(followed.topic_id, followed.number)
                answer = await leader.subscribe(subscriber, request, bell)
            except (ReplicaError, KeyError):
                followed.unsubscribed(number)
                await asyncio.sleep(0.01)
                continue
            self.log.append(type(answer).__name__)
            match answer:
                case TruncateTo():
                    await followed.truncate(number, answer)
                case ResetTo():
                    await followed.reset(number, answer)
                case _:
                    await self._feed(followed, number, answer, bell)

    async def _feed(self, followed: Followed, number: int, feed: Feed, bell: _Listener) -> None:
        followed.matched(number, feed.high_watermark, feed.log_start, feed.tombstones_removed_below, feed.cleaned_below)
        end = self._own.manager.get(followed.topic_id, followed.number).log_end
        try:
            while bell.error is None:
                bell.news.clear()
                frame = await feed.read(end, self._own.fed_bytes)
                await asyncio.sleep(0.001)
                await self._is_running.wait()
                if frame is not None:
                    assert not isinstance(frame, ResetTo)
                    whole = ReplicaFrame(frame.start, frame.end, b"".join(frame.buffers), frame.epochs)
                    followed.append(number, whole, feed.high_watermark, feed.log_start)
                    end = frame.end
                    bell.news.set()
                else:
                    followed.heard(number, feed.high_watermark, feed.log_start)
                if feed.barrier and followed.answers_barriers(number):
                    feed.barrier_answered(followed.leader_epoch, feed.tell_barrier())
                acknowledgement = followed.acknowledgement()
                if acknowledgement is not None:
                    feed.acknowledged(acknowledgement)
                await bell.news.wait()
        except (ReplicaError, FrameMismatch, DiskFull):
            await asyncio.sleep(0.01)
        finally:
            feed.close()
            followed.unsubscribed(number)


# -- brokers


class TestBroker:
    """One broker: its disk outlives its processes."""

    __test__ = False

    def __init__(
        self,
        broker_id: int,
        metadata: Metadata,
        peers: "dict[BrokerId, TestBroker]",
        disks: int = 1,
        seed: int | None = None,
    ) -> None:
        self.broker_id = BrokerId(broker_id)
        self.metadata = metadata
        self.peers = peers  # those that can be reached
        self.machine = Machine(seed=broker_id if seed is None else seed)
        self.paths = [f"{ROOT}/d{number}" for number in range(disks)]
        self.owner: DirectoryOwner | None = None  # None: whose the directories are is not looked at
        self.times = MaintenanceTimes()
        self.fed_bytes = 100_000  # with one frame, at most
        self.boots = 0
        self._incarnations = count(broker_id << 32)
        self._rng = Rng(broker_id)
        self.directories: list[DataDirectory] = []

    async def start(self, *, is_ready: bool = True) -> "TestBroker":
        """A new process: it registers, recovers, and is unfenced."""
        self.begin()
        await self.open_directories()
        self.register()
        self.run()
        if is_ready:
            await self.until_ready()
        return self

    def begin(self) -> None:
        machine = self.machine
        self.runtime = Runtime(
            machine.clock,
            self._rng.fork(),
            machine.files,
            None,  # type: ignore[arg-type]
            machine.blocking,
            machine.workers,
        )
        self.view = View(self.metadata, self.broker_id)
        self.view.catch_up()
        self.metadata.views[self.broker_id] = self.view
        self.sink = Pump(self)

    async def open_directories(self) -> None:
        """Those that have not failed."""
        self.directories = []
        for path in self.paths:
            with suppress(DirectoryFailed):
                self.directories.append(await open_directory(self.runtime, path, self.owner))

    def mend_disks(self) -> None:
        """Somebody has looked at them, when the machine was started again."""
        for path in self.paths:
            if self.machine.files.exists(f"{path}/{FAILED_FILE}"):
                self.machine.files.remove(f"{path}/{FAILED_FILE}")

    def register(self) -> None:
        identities = tuple(directory.identity for directory in self.directories)
        request = Registration(
            self.broker_id, UUID(int=next(self._incarnations)), f"broker-{self.broker_id}:9092", None, identities,
            f"boot-{self.boots}", None, FEATURE_LEVEL, FEATURE_LEVEL, None, tuple(map(self._use_of, self.directories)),
        )  # fmt: skip
        image = self.metadata.image
        previous_epoch = latest_epoch(image, self.broker_id)
        decision = register(image, request, previous_epoch=previous_epoch, is_old_alive=False)
        self.view.broker_epoch = decision.answer
        self.metadata.carry_out(decision)
        self.view.is_registered.set()

    def _use_of(self, directory: DataDirectory) -> DirectoryUse:
        """As a process that starts now would find it."""
        directory.use = read_use(self.machine.files, directory.path)
        return use_of(directory)

    def run(self) -> None:
        self.manager = ReplicaManager(self.runtime, self.broker_id, self.view, self.directories, self.sink, self.times)
        self.task = asyncio.ensure_future(self.manager.run())
        self.peers[self.broker_id] = self

    async def until_ready(self) -> None:
        await self.manager.until_recovered()
        self.metadata.carry_out(unfence(self.metadata.image, self.broker_id, self.view.broker_epoch))

    async def stop(self) -> None:
        """In good order."""
        self.metadata.fence(self.broker_id)
        self._gone()
        self.task.cancel()
        await asyncio.wait([self.task])
        self.sink.end()
        for directory in self.directories:
            await directory.close(self.view.broker_epoch)
        self.machine.boot()

    def kill(self, *, power_fails: bool = False) -> None:
        """The process is gone, and nobody is told."""
        self._gone()
        self.task.cancel()
        self.sink.end()
        self.boots += power_fails
        self.machine.crash(power_fails=power_fails)

    def _gone(self) -> None:
        self.peers.pop(self.broker_id, None)
        self.metadata.views.pop(self.broker_id, None)

    # -- in few words

    def replica(self, topic: TopicId, number: int = 0) -> Replica:
        return self.manager.get(topic, number)

    def has(self, topic: TopicId, number: int = 0) -> bool:
        try:
            self.replica(topic, number)
        except ReplicaError:
            return False
        return True

    async def opened(self, topic: TopicId, number: int = 0) -> Replica:
        await until(lambda: self.has(topic, number), "open")
        return self.replica(topic, number)

    async def leads(self, topic: TopicId, number: int = 0) -> Replica:
        await until(
            lambda: self.has(topic, number) and isinstance(self.replica(topic, number).role, LeaderRole), "leads"
        )
        return self.replica(topic, number)

    async def follows(self, topic: TopicId, number: int = 0) -> Replica:
        await until(
            lambda: self.has(topic, number) and isinstance(self.replica(topic, number).role, FollowerRole), "follows"
        )
        return self.replica(topic, number)


async def start_brokers(
    metadata: Metadata, broker_count: int, disks: int = 1, times: MaintenanceTimes | None = None
) -> dict[BrokerId, TestBroker]:
    """Brokers 1 to `broker_count`; by their ids."""
    peers: dict[BrokerId, TestBroker] = {}
    for number in range(1, broker_count + 1):
        broker = TestBroker(number, metadata, peers, disks)
        broker.times = times or broker.times
        await broker.start()
    return dict(peers)


def place(metadata: Metadata, *broker_ids: int, **fields: Any) -> Partition:
    """A partition with replicas in the first directories of these brokers; all in sync, unless told otherwise."""
    brokers = [metadata.image.brokers[BrokerId(number)] for number in broker_ids]
    return partition(*(Place(broker.broker_id, broker.directories[0]) for broker in brokers), **fields)


def append(
    replica: Replica,
    records: int = 1,
    *,
    acks: Acks = Acks.ALL,
    leader_epoch: int | None = None,
    timeout_ms: int = TIMEOUT_MS,
    when_stored: Callable[[], None] | None = None,
    **fields: Any,
) -> AppendWaiter:
    batch = admitted(make_batch(records, **fields))
    return replica.begin_append(
        batch, acks=acks, leader_epoch=leader_epoch, timeout_ms=timeout_ms, when_stored=when_stored
    )
