"""Brokers with real replicas, logs on simulated disks and real streams between them; and one controller, which decides
as the real one does but has no quorum, and tells each broker what was decided a little later."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

from support.fake_controllers import fail, until
from support.metadata_images import topic_id
from support.raft_nodes import make_runtime

from lograft.broker.hosting.replica_manager import ReplicaManager
from lograft.broker.node.broker_role import use_of
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.broker.replication.follower_client import FollowerClient, FollowerIdentity
from lograft.broker.replication.leader_server import LeaderServer
from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.controller.initial_records import begin_cluster
from lograft.metadata.decisions.brokers.fencing import fence, unfence
from lograft.metadata.decisions.brokers.registration import Registration, latest_epoch, register
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.alter_isr import Alteration, alter_partitions
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Partition,
    PartitionEpoch,
    PartitionKey,
)
from lograft.metadata.image.partition import Replica as Place
from lograft.metadata.image.records import (
    ConfigChanged,
    ConfigResource,
    Operation,
    PartitionChanged,
    Record,
    ResourceKind,
)
from lograft.metadata.image.records import TopicCreated as Created
from lograft.metadata.image.state_machine import MachineListener
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import AlterPartitionsResponse
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.status import detail_of
from lograft.runtime.rng import Rng
from lograft.storage.log.data_directory import DataDirectory, open_directory

CLUSTER = "test"
TOPIC = topic_id(1)
T = TypeVar("T")


class Follower:
    """A broker's copy of the image."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.index = 0
        self._listeners: list[MachineListener] = []

    def listen(self, listener: MachineListener) -> None:
        self._listeners.append(listener)

    async def wait_for(self, index: int) -> None:
        await until(lambda: self.index >= index)

    def take(self, records: tuple[Record, ...]) -> None:
        assert self.image.apply_operation(Operation(self.image.sequence, records))
        self.index += 1
        for listener in self._listeners:
            listener.applied(self.index, records)
            listener.advanced(self.index)


class Controller:
    """Has all that was ever decided; each broker has the beginning of it."""

    def __init__(self, rng: Rng) -> None:
        self.image = ClusterImage()
        self.operations: list[tuple[Record, ...]] = []
        self._rng = rng

    def submit(self, decision: Decision[T]) -> T:
        if decision.records:
            assert self.image.apply_operation(Operation(self.image.sequence, decision.records))
            self.operations.append(decision.records)
        return decision.answer

    async def publish(self, follower: Follower) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0.001, 0.02))
            while follower.index < len(self.operations) and self._rng.random() < 0.8:
                follower.take(self.operations[follower.index])

    def change(self, *records: Record) -> None:
        self.submit(Decision(records, None))

    def partition(self, number: int = 0) -> Partition:
        found = self.image.partition(TOPIC, number)
        assert found is not None
        return found

    def move_leader(self, number: int, leader: int) -> None:
        """As an election of one that is in sync does."""
        before = self.partition(number)
        assert leader in before.isr
        after = Partition(
            before.replicas,
            before.isr,
            BrokerId(leader),
            LeaderEpoch(before.leader_epoch + 1),
            PartitionEpoch(before.partition_epoch + 1),
        )
        self.change(PartitionChanged(TOPIC, number, after))


class Broker:
    """`cluster` for its replicas: what `ReplicaManager` asks of a membership."""

    def __init__(self, cluster: "Brokers", broker_id: int) -> None:
        self.broker_id = BrokerId(broker_id)
        self.follower = Follower()
        self.broker_epoch = BrokerEpoch(0)
        self.runtime = make_runtime(cluster.seed * 10 + broker_id, cluster.network, self.host)
        self.directory: DataDirectory | None = None
        self.replicas: ReplicaManager | None = None
        self._cluster = cluster

    @property
    def host(self) -> str:
        return f"b{self.broker_id}"

    @property
    def directory_id(self) -> UUID:
        assert self.directory is not None
        return self.directory.identity

    @property
    def image(self) -> ClusterImage:
        return self.follower.image

    async def until_registered(self) -> None:
        await until(lambda: self.broker_id in self.image.brokers)

    async def alter_partitions(self, alterations: Sequence[Alteration]) -> AlterPartitionsResponse:
        await asyncio.sleep(0.003)
        controller = self._cluster.controller
        answers = controller.submit(alter_partitions(controller.image, self.broker_id, self.broker_epoch, alterations))
        response = AlterPartitionsResponse(index=len(controller.operations))
        for answer in answers:
            result = response.results.add(topic_id=answer.topic_id.bytes, partition=answer.number)
            if isinstance(answer.outcome, Partition):
                result.partition_epoch = answer.outcome.partition_epoch
            else:
                result.error.CopyFrom(detail_of(answer.outcome))
        return response

    async def report_failures(self, directories: Sequence[UUID], corrupt: Sequence[PartitionKey], reason: str) -> int:
        controller = self._cluster.controller
        controller.submit(report_failures(controller.image, self.broker_id, self.broker_epoch, directories, corrupt))
        return len(controller.operations)

    async def prepare(self) -> None:
        """Register."""
        self.directory = await open_directory(self.runtime, "/data")
        controller = self._cluster.controller
        registration = Registration(
            self.broker_id, self.runtime.rng.uuid(), f"{self.host}:9092", None, (self.directory.identity,),
            "boot", None, 1, 1, f"{self.host}:9094", (use_of(self.directory),),
        )  # fmt: skip
        previous_epoch = latest_epoch(controller.image, self.broker_id)
        decision = register(controller.image, registration, previous_epoch=previous_epoch, is_old_alive=False)
        self.broker_epoch = controller.submit(decision)
        controller.submit(unfence(controller.image, self.broker_id, self.broker_epoch))

    async def run(self) -> None:
        assert self.directory is not None
        sink = FollowerClient(
            self.runtime,
            FollowerIdentity(CLUSTER, self.broker_id, lambda: self.broker_epoch, self._address_of),
        )
        self.replicas = ReplicaManager(self.runtime, self.broker_id, self, [self.directory], sink)
        source = LeaderServer(self.runtime, CLUSTER, self.broker_id, self.replicas, lambda: self.image)
        server = await self.runtime.network.serve(f"{self.host}:9094", source.handlers(), fail)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._cluster.controller.publish(self.follower))
                group.create_task(sink.run())
                group.create_task(self.replicas.run())
        finally:
            await server.stop()
            await self.directory.close()

    def _address_of(self, broker_id: BrokerId) -> str | None:
        broker = self.image.brokers.get(broker_id)
        return broker.nodes_address if broker is not None else None

    def replica(self, number: int = 0) -> Replica:
        if self.replicas is None:
            raise ReplicaError(errors_pb2.UNAVAILABLE, "not started")
        return self.replicas.get(TOPIC, number)


class Brokers:
    """1, 2 and 3, and a topic of which each has a replica."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Rng(seed)
        self.network = VirtualNetwork(self.rng.fork())
        self.controller = Controller(self.rng.fork())
        self.brokers = {number: Broker(self, number) for number in (1, 2, 3)}

    async def prepare(self, partitions: int, config: dict[str, str]) -> None:
        self.controller.submit(begin_cluster(self.controller.image, {}))
        for broker in self.brokers.values():
            await broker.prepare()
        resource = ConfigResource(ResourceKind.TOPIC, str(TOPIC))
        self.controller.change(
            Created(TOPIC, "topic"),
            *(ConfigChanged(resource, *item) for item in config.items()),
            *(PartitionChanged(TOPIC, number, self._new_partition(number)) for number in range(partitions)),
        )

    def _new_partition(self, number: int) -> Partition:
        order = [self.brokers[(number + at) % 3 + 1] for at in range(3)]
        places = tuple(Place(broker.broker_id, broker.directory_id) for broker in order)
        ids = tuple(place.broker_id for place in places)
        return Partition(places, ids, ids[0], LeaderEpoch(0), PartitionEpoch(0))

    def leader(self, number: int = 0) -> Broker:
        leader = self.controller.partition(number).leader
        assert leader is not None
        return self.brokers[leader]

    async def until_led(self, number: int = 0) -> Replica:
        """Its leader's replica, once it knows that it leads."""

        def leads() -> bool:
            partition = self.controller.partition(number)
            if partition.leader is None or not self._has(partition.leader, number):
                return False
            role = self.brokers[partition.leader].replica(number).role
            return isinstance(role, LeaderRole) and role.core.leader_epoch == partition.leader_epoch

        await until(leads)
        return self.leader(number).replica(number)

    async def until_in_sync(self, number: int = 0) -> None:
        """All three replicas have all there is."""

        def is_so() -> bool:
            replicas = [
                broker.replica(number) for broker in self.brokers.values() if self._has(broker.broker_id, number)
            ]
            ends = [(replica.log.stable_end, replica.log_end, replica.high_watermark) for replica in replicas]
            return (
                len(replicas) == 3
                and len(self.controller.partition(number).isr) == 3
                and len(set(ends)) == 1
                and ends[0][0] == ends[0][2]
            )

        await until(is_so)

    def _has(self, broker_id: int, number: int) -> bool:
        try:
            return self.brokers[broker_id].replica(number).log is not None
        except ReplicaError:
            return False

    def fence(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        self.controller.submit(fence(self.controller.image, broker.broker_id, broker.broker_epoch))

    def unfence(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        self.controller.submit(unfence(self.controller.image, broker.broker_id, broker.broker_epoch))

    async def contents(self, broker_id: int, number: int = 0) -> bytes:
        """All batches of a replica."""
        log = self.brokers[broker_id].replica(number).log
        content, offset = b"", log.start_offset
        while offset < log.end_offset:
            found = await log.read(offset, 1 << 20)
            content += b"".join(found.buffers)
            offset = found.next_offset
        return content


@asynccontextmanager
async def replicating(seed: int = 1, partitions: int = 1, **config: str) -> AsyncIterator[Brokers]:
    """Started; `config` of the topic, with _ for the dots."""
    brokers = Brokers(seed)
    await brokers.prepare(partitions, {key.replace("_", "."): value for key, value in config.items()})
    running = [asyncio.ensure_future(broker.run()) for broker in brokers.brokers.values()]
    try:
        for number in range(partitions):
            await brokers.until_led(number)
        yield brokers
    finally:
        for task in running:
            task.cancel()
        outcomes: list[Any] = await asyncio.gather(*running, return_exceptions=True)
        for outcome in outcomes:
            if not isinstance(outcome, asyncio.CancelledError):
                raise outcome
