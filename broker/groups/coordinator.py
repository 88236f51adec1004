"""The groups that this broker coordinates: those in the partitions of `__consumer_offsets` that it leads."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lograft.broker.groups.offsets_partition import GroupContext, OffsetsPartition
from lograft.broker.groups.state import GroupError
from lograft.broker.replica.interfaces import ServedReplica
from lograft.broker.replica.timers import ReplicaTimers
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import PartitionKey, TopicId
from lograft.metadata.image.records import PartitionChanged, Record, TopicCreated, TopicDeleted
from lograft.metadata.image.state_machine import MachineListener
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.deadline import COORDINATOR_MS, answer_ms

log = get_logger(__name__)

_EXPIRY_MS = 60_000
_CREATION_MS = answer_ms(COORDINATOR_MS)


class OffsetsReplicas(Protocol):
    """The part of `ReplicaManager` that the coordinator uses."""

    def get(self, topic_id: TopicId, number: int) -> ServedReplica: ...

    def listen_to_roles(self, listener: Callable[[PartitionKey], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that coordinates a group. `partition`: of `__consumer_offsets`."""

    broker_id: int
    address: str
    partition: int
    leader_epoch: int


class GroupCoordinator(MachineListener):
    """Register it as a listener of the metadata follower, then call `run`.

    `create_topic` creates an internal topic, and returns once the image contains it. `catch_up` returns once the image
    contains everything committed before the call."""

    def __init__(
        self,
        clock: Clock,
        image: Callable[[], ClusterImage],
        replicas: OffsetsReplicas,
        create_topic: Callable[[str], Awaitable[None]],
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._image = image
        self._replicas = replicas
        self._create_topic = create_topic
        self._catch_up = catch_up
        self._alarms = ReplicaTimers(clock)
        self._context = GroupContext(clock, self._alarms, image)
        self._partitions: dict[int, OffsetsPartition] = {}
        self._creating = asyncio.Lock()
        self._have_topics_changed = False
        self._to_load: asyncio.Queue[OffsetsPartition] = asyncio.Queue()
        replicas.listen_to_roles(self._role_changed)

    # -- for the service

    @property
    def partitions(self) -> Mapping[int, OffsetsPartition]:
        """The partitions led here, loaded or not, by number."""
        return self._partitions

    def partition_of(self, group: str) -> OffsetsPartition:
        """Return the group's partition. Raise `GroupError` if this broker does not coordinate the group, or has not
        loaded it yet."""
        number = self._number_of(group)
        partition = self._partitions.get(number)
        if partition is None:
            raise self._led_elsewhere(number)
        partition.check_serves()
        return partition

    async def find(self, group: str, *, existing_only: bool = False) -> Coordinator:
        """Return the group's coordinator, on any broker. Create the internal topic if it does not exist yet.

        With `existing_only`, create nothing, and raise GROUP_NOT_FOUND if the cluster has never had a group.
        """
        if self._image().topic(CONSUMER_OFFSETS) is None:
            await (self._check_exists(group) if existing_only else self._create())
        number = self._number_of(group)
        topic = self._image().topic(CONSUMER_OFFSETS)
        assert topic is not None
        partition = topic.partitions[number]
        leader = self._image().brokers.get(partition.leader) if partition.leader is not None else None
        if leader is None:
            raise GroupError(
                errors_pb2.LEADER_NOT_AVAILABLE, f"{CONSUMER_OFFSETS}-{number} has no leader at the moment: try again"
            )
        return Coordinator(leader.broker_id, leader.address, number, partition.leader_epoch)

    def _number_of(self, group: str) -> int:
        topic = self._image().topic(CONSUMER_OFFSETS)
        if topic is None:
            raise GroupError(
                errors_pb2.NOT_COORDINATOR, "the coordinator of the group is not known yet: look it up first"
            )
        return zlib.crc32(group.encode()) % len(topic.partitions)

    def _led_elsewhere(self, number: int) -> GroupError:
        topic = self._image().topic(CONSUMER_OFFSETS)
        partition = topic.partitions[number] if topic is not None else None
        leader_id = partition.leader if partition is not None else None
        name = f"{CONSUMER_OFFSETS}-{number}"
        message = (
            f"broker {leader_id} coordinates the groups of {name}: retry there, or look the coordinator up again"
            if leader_id is not None
            else f"{name} has no leader at the moment: try again"
        )
        return GroupError(
            errors_pb2.NOT_COORDINATOR,
            message,
            leader_id=leader_id,
            leader_epoch=partition.leader_epoch if partition is not None else None,
        )

    async def _create(self) -> None:
        try:
            async with asyncio.timeout(_CREATION_MS / 1000), self._creating:
                if self._image().topic(CONSUMER_OFFSETS) is None:
                    await self._create_topic(CONSUMER_OFFSETS)
        except TimeoutError:
            raise ControllerError(
                errors_pb2.UNAVAILABLE, f"no controller created {CONSUMER_OFFSETS} within {_CREATION_MS} ms: try again"
            ) from None

    async def _check_exists(self, group: str) -> None:
        """Raise unless the internal topic exists. Catch up first: this broker's image may be stale."""
        try:
            async with asyncio.timeout(_CREATION_MS / 1000):
                await self._catch_up()
        except TimeoutError:
            raise ControllerError(
                errors_pb2.UNAVAILABLE,
                f"no controller answered within {_CREATION_MS} ms whether any group exists: try again",
            ) from None
        if self._image().topic(CONSUMER_OFFSETS) is None:
            raise GroupError(errors_pb2.GROUP_NOT_FOUND, f"there is no group {group!r}")

    # -- what this broker leads

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._alarms.run(), name="group-alarms")
                group.create_task(self._expire(), name="group-expiry")
                while True:
                    partition = await self._to_load.get()
                    group.create_task(self._load(partition), name="group-load")
        finally:
            for partition in self._partitions.values():
                partition.close()

    async def _load(self, partition: OffsetsPartition) -> None:
        try:
            await partition.load()
        except SERVICE_ERRORS as error:
            # This broker has lost leadership, or cannot read the log. The next leader loads the groups.
            log.info("groups_not_loaded", partition=partition.number, reason=str(error))

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep_ms(_EXPIRY_MS)
            for partition in list(self._partitions.values()):
                partition.expire()

    def _role_changed(self, key: PartitionKey) -> None:
        topic_id, number = key
        topic = self._image().topics.get(topic_id)
        if topic is None or topic.name != CONSUMER_OFFSETS:
            return
        before = self._partitions.pop(number, None)
        if before is not None:
            before.close()
        replica = self._replica(key)
        if replica is not None and replica.is_leader:
            partition = OffsetsPartition(self._context, replica, number, replica.leader_epoch)
            self._partitions[number] = partition
            self._to_load.put_nowait(partition)

    def _replica(self, key: PartitionKey) -> ServedReplica | None:
        try:
            return self._replicas.get(*key)
        except ReplicaError:
            return None  # the replica is being removed

    # -- the image

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        self._have_topics_changed |= any(_changes_topics(record) for record in records)

    def restored(self, index: int) -> None:
        self._have_topics_changed = True

    def advanced(self, index: int) -> None:
        if self._have_topics_changed:
            self._have_topics_changed = False
            for partition in list(self._partitions.values()):
                partition.topics_changed()


def _changes_topics(record: Record) -> bool:
    match record:
        case TopicCreated() | TopicDeleted():
            return True
        case PartitionChanged(partition=partition):
            return partition.partition_epoch == 0  # a new one
    return False
