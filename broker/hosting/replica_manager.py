"""All partitions of this broker. Their replicas follow the image.

manager = ReplicaManager(runtime, broker_id, membership, directories, sink)
group.create_task(manager.run())            # registers its own listener
await manager.until_recovered()
membership.session.set_wanted(Wanted.READY)
manager.get(topic_id, 0).begin_append(...)
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from lograft.broker.hosting.assigned_partitions import AssignedPartitions, Changes
from lograft.broker.hosting.failure_reports import FailureReports
from lograft.broker.hosting.log_directories import LogDirectories, LogDirectory, settle_strays
from lograft.broker.hosting.log_lifecycle import Corrupt, LogLifecycle, Open
from lograft.broker.hosting.maintenance import Maintenance, MaintenanceTimes
from lograft.broker.replica.context import ReplicaContext, ReplicaCounts
from lograft.broker.replica.interfaces import ReplicaFacts
from lograft.broker.replica.replica import Replica
from lograft.broker.replica.timers import ReplicaTimers
from lograft.broker.replica.traffic import Traffic
from lograft.broker.replication.interfaces import PartitionFollower
from lograft.broker.replication.isr_requests import IsrRequests
from lograft.metadata.config.effective_settings import cluster_setting
from lograft.metadata.decisions.partitions.alter_isr import Alteration
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, PartitionKey, TopicId
from lograft.metadata.image.records import Record
from lograft.metadata.image.state_machine import MachineListener
from lograft.metadata.membership.broker_session import ReplicaEnd
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import AlterPartitionsResponse
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import keep_cancellation, until_first
from lograft.runtime.world import Runtime
from lograft.storage.errors import CorruptLog
from lograft.storage.log.data_directory import DataDirectory

log = get_logger(__name__)

_LAST_REPORT_MS = 3000


class AllDirectoriesFailed(Exception):
    """Raised when every data directory has failed and the node must stop. The manager has tried to report the failure
    to the controller."""


class ImageFollower(Protocol):
    """Implemented by `metadata.follower.MetadataFollower`."""

    def listen(self, listener: MachineListener) -> None: ...

    async def wait_for(self, index: int) -> None: ...


class ClusterContact(Protocol):
    """The cluster as replicas use it. Implemented by `metadata.membership.ClusterMembership`."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def broker_epoch(self) -> BrokerEpoch: ...

    @property
    def follower(self) -> ImageFollower: ...

    async def until_registered(self) -> None: ...

    def alter_partitions(self, alterations: Sequence[Alteration]) -> Awaitable[AlterPartitionsResponse]: ...

    def report_failures(
        self, directories: Sequence[UUID], corrupt: Sequence[PartitionKey], reason: str
    ) -> Awaitable[int]: ...


class ReplicaManager(MachineListener):
    """Acts only on images that have this process's own registration. Earlier images describe the time of a previous
    process, and later ones that of its successor."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: BrokerId,
        cluster: ClusterContact,
        directories: Sequence[DataDirectory],
        sink: PartitionFollower,
        times: MaintenanceTimes | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self._cluster = cluster
        self._runtime = runtime
        self._directories = LogDirectories(runtime, directories)
        self._alarms = ReplicaTimers(runtime.clock)
        self._isr_requests = IsrRequests(cluster.alter_partitions)
        self._reports = FailureReports(runtime, cluster.report_failures, cluster.follower.wait_for, self._reported)
        self._wanted = AssignedPartitions(broker_id, lambda: cluster.image)
        self._changes = Changes()
        self.traffic = traffic or Traffic()
        self.counts = ReplicaCounts()
        context = ReplicaContext(
            clock=runtime.clock,
            alarms=self._alarms,
            sink=sink,
            failures=self,
            brokers=self._brokers,
            ask_for_isr=self._isr_requests.ask,
            role_changed=self._role_changed,
            watermark_goes_back=self._watermark_goes_back,
            traffic=self.traffic,
            counts=self.counts,
        )
        self._logs = LogLifecycle(self._wanted, self._directories, context, self._spawn, self._reports)
        self._upkeep = Maintenance(
            runtime.clock,
            self._directories,
            self._logs,
            lambda: int(cluster_setting(cluster.image, "log.cleaner.io.max.bytes.per.second")),
            times or MaintenanceTimes(),
        )
        self._group: asyncio.TaskGroup | None = None
        self._role_listeners: list[Callable[[PartitionKey], None]] = []
        self._unused: dict[LogDirectory, DiskFailed] = {}  # directories without a note of this epoch, until reported
        self._has_reported = asyncio.Event()
        self._is_recovered = asyncio.Event()
        self._is_last_reported = asyncio.Event()

    # -- for services and streams

    def get(self, topic_id: TopicId, number: int) -> Replica:
        """Return the replica. Raise `ReplicaError`, with the reason, if there is none."""
        replica = self._logs.replicas.get((topic_id, number))
        if replica is None:
            raise self._why_not(topic_id, number)
        return replica

    def find(self, key: PartitionKey) -> Replica | None:
        return self._logs.replicas.get(key)

    def listen_to_roles(self, listener: Callable[[PartitionKey], None]) -> None:
        """Call `listener` when this broker begins or ceases to lead a partition. The listener must not block."""
        self._role_listeners.append(listener)

    def hosted(self) -> Iterator[Replica]:
        """Return all open replicas."""
        return iter(self._logs.replicas.values())

    def facts(self) -> Iterator[ReplicaFacts]:
        return (replica.facts() for replica in list(self._logs.replicas.values()))

    def _why_not(self, topic_id: TopicId, number: int) -> ReplicaError:
        image, own = self._cluster.image, self._wanted.broker_id
        topic, partition = image.topics.get(topic_id), image.partition(topic_id, number)
        if topic is None:
            return ReplicaError(
                errors_pb2.UNKNOWN_TOPIC_ID,
                f"topic {topic_id} was deleted, or this broker does not know it yet: look it up again",
            )
        if partition is None:
            return ReplicaError(
                errors_pb2.UNKNOWN_PARTITION,
                f"{topic.name} has {len(topic.partitions)} partitions: it has no partition {number}",
            )
        leader, epoch = partition.leader, partition.leader_epoch
        if leader == own or (leader is None and own in partition.replica_ids):
            message = f"{topic.name}-{number} is not open yet on broker {own}: try again"
            return ReplicaError(errors_pb2.UNAVAILABLE, message, leader_id=leader, leader_epoch=epoch)
        code = errors_pb2.LEADER_NOT_AVAILABLE if leader is None else errors_pb2.NOT_LEADER
        state = "has no leader at the moment" if leader is None else f"is led by broker {leader}"
        return ReplicaError(code, f"{topic.name}-{number} {state}", leader_id=leader, leader_epoch=epoch)

    def log_ends(self) -> Iterator[ReplicaEnd]:
        """Yield the log ends of partitions without a leader, which decide an unclean election. A log counts only in the
        directory that the metadata name."""
        if not self._wanted.may_act:
            return
        own = self._wanted.broker_id
        for topic_id, number, partition in self._cluster.image.leaderless():
            key = (topic_id, number)
            match self._logs.state_of(key):
                case Open(directory=directory, replica=replica) if directory.identity == partition.directory_of(own):
                    if (end := replica.end_report()) is not None:
                        yield end
                case Corrupt(directory=place, is_surveyed=True, remains=left) if (
                    place.identity == partition.directory_of(own)
                ):
                    if left is not None:
                        epoch, end_offset = LeaderEpoch(left.last_epoch), left.end_offset
                        yield ReplicaEnd(topic_id, number, epoch, end_offset, is_damaged=True)
                    else:  # if no other replica has any records, start over with an empty log
                        yield ReplicaEnd(topic_id, number, LeaderEpoch(-1), 0, is_damaged=True)

    @property
    def is_recovered(self) -> bool:
        """Return whether every log found at the start is open, or known to be unusable."""
        return self._is_recovered.is_set()

    async def until_recovered(self) -> None:
        """Return when `is_recovered`."""
        await self._is_recovered.wait()

    # -- life cycle

    async def run(self) -> None:
        """Run until cancelled; then the directories may be closed. Raise `AllDirectoriesFailed` if none is left."""
        await self._cluster.until_registered()
        self._unused = await self._directories.note_used(self._cluster.broker_epoch)
        await self._directories.load()
        await keep_cancellation(self._directories.purge())
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._alarms.run(), name="alarms")
                group.create_task(self._isr_requests.run(), name="isr-requests")
                group.create_task(self._reports.run(), name="failure-reports")
                for directory, error in self._unused.items():
                    self._logs.directory_failed(directory, error)
                try:
                    await self._recover()
                    group.create_task(self._upkeep.run(), name="upkeep")
                    await self._until_all_failed()
                finally:
                    self._end_roles()  # and start no further steps
        except asyncio.CancelledError:
            await self._upkeep.note_watermarks()
            raise

    async def _recover(self) -> None:
        began_ms = self._runtime.clock.monotonic_ms()
        await keep_cancellation(settle_strays(self._directories, self._cluster.image, self._wanted.broker_id))
        self._wanted.registered(self._cluster.broker_epoch)
        self._cluster.follower.listen(self)
        self._look_at_all()
        await self._logs.settled()
        self._directories.forget_missing()
        await until_first(self._until_unused_reported(), self._directories.all_failed.wait())
        if self._unused:
            return  # all directories have failed
        elapsed_ms = self._runtime.clock.monotonic_ms() - began_ms
        log.info("logs_recovered", logs=len(self._logs.replicas), elapsed_ms=elapsed_ms)
        self._is_recovered.set()

    async def _until_unused_reported(self) -> None:
        """Wait until the controller has removed the directories that do not note this epoch. A ready broker confirms
        its registered directories, and in the next epoch such a directory would be taken for an old copy."""
        while self._unused:
            self._has_reported.clear()
            await self._has_reported.wait()

    def _end_roles(self) -> None:
        self._wanted.ended()
        for key in self._logs.known():
            self._logs.look_at(key)

    async def _until_all_failed(self) -> None:
        """Wait until all directories have failed, then raise. Report first if possible: otherwise the cluster would
        notice only when the session expires."""
        await self._directories.all_failed.wait()
        await until_first(self._is_last_reported.wait(), self._runtime.clock.sleep_ms(_LAST_REPORT_MS))
        raise AllDirectoriesFailed(
            "every data directory has failed: see the log for the causes, and repair or replace the disks"
        )

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        assert self._group is not None, "started only while running"
        return self._group.create_task(coroutine, name=name)

    # -- the image

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        self._changes.note(records, self._wanted.broker_id)

    def restored(self, index: int) -> None:
        self._changes.is_all = True

    def advanced(self, index: int) -> None:
        """Apply all changes up to this index at once, and skip intermediate states."""
        changes, self._changes = self._changes, Changes()
        self._wanted.forget(changes)
        if changes.is_all or changes.topics:
            self.traffic.forget_all_but(self._cluster.image.topics)
        if changes.is_all:
            self._look_at_all()
            return
        of_topics = [key for key in self._logs.known() if key[0] in changes.topics] if changes.topics else []
        for key in dict.fromkeys((*changes.keys, *of_topics)):
            self._logs.look_at(key)
        for broker_id in changes.brokers:
            self._propose_with(broker_id)

    def _propose_with(self, broker_id: BrokerId) -> None:
        """Reconsider the ISRs of partitions led here: a follower may have become eligible."""
        for topic_id, number, partition in self._cluster.image.hosted_by(broker_id):
            if partition.leader == self._wanted.broker_id and broker_id not in partition.isr:
                replica = self._logs.replicas.get((topic_id, number))
                if replica is not None:
                    replica.propose()

    def _look_at_all(self) -> None:
        hosted = [(topic_id, number) for topic_id, number, _ in self._cluster.image.hosted_by(self._wanted.broker_id)]
        for key in dict.fromkeys((*hosted, *self._logs.known())):
            self._logs.look_at(key)

    def _brokers(self) -> Mapping[BrokerId, Broker]:
        return self._cluster.image.brokers

    # -- notifications from replicas

    def _role_changed(self, key: PartitionKey) -> None:
        for listener in self._role_listeners:
            listener(key)

    def found_corrupt(self, key: PartitionKey, error: CorruptLog) -> None:
        self._logs.found_corrupt(key, error)

    def disk_failed(self, key: PartitionKey, error: DiskFailed) -> None:
        self._logs.disk_failed(key, error)

    async def _watermark_goes_back(self, key: PartitionKey, high_watermark: int) -> None:
        state = self._logs.state_of(key)
        if state is not None:
            await state.directory.lower_watermark(state.name, high_watermark)

    def _reported(self, directory_ids: Sequence[UUID], corrupt: Sequence[PartitionKey]) -> None:
        self._logs.reported(directory_ids, corrupt)
        for directory in list(self._unused):
            if directory.identity in directory_ids:
                del self._unused[directory]
        self._has_reported.set()
        if not self._directories.healthy:
            self._is_last_reported.set()
