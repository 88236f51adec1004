"""One node that tells of its cluster, and watchers that keep what they were told."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.metadata_images import brokers, partition, topic_id
from support.raft_nodes import make_runtime

from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.record_codec import encode_operation
from lograft.metadata.image.records import (
    BrokerRegistered,
    ConfigChanged,
    ConfigResource,
    Operation,
    PartitionChanged,
    Record,
    ResourceKind,
    TopicCreated,
)
from lograft.metadata.image.snapshot import encode_snapshot
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.metadata.membership.cluster_codec import TopicChoice, describe_cluster
from lograft.metadata.membership.cluster_service import ClusterService
from lograft.proto import cluster_pb2 as pb
from lograft.proto.methods import DESCRIBE_CLUSTER, WATCH_CLUSTER
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_controller_error
from lograft.rpc.unary import call
from lograft.runtime.network import Connection, Stream, StreamError
from lograft.runtime.rng import Rng

ORDERS, BILLS, OFFSETS = topic_id(1), topic_id(2), topic_id(3)


def config(number: int, key: str, value: str | None) -> ConfigChanged:
    return ConfigChanged(ConfigResource(ResourceKind.TOPIC, str(topic_id(number))), key, value)


USUAL: tuple[Record, ...] = (
    *(BrokerRegistered(each) for each in brokers(3, racks=("a", "b", None))),
    TopicCreated(ORDERS, "orders"),
    config(1, "retention.ms", "1000"),
    PartitionChanged(ORDERS, 0, partition(1, 2, 3)),
    PartitionChanged(ORDERS, 1, partition(2, 3, 1)),
    TopicCreated(BILLS, "bills"),
    PartitionChanged(BILLS, 0, partition(3, 1)),
    TopicCreated(OFFSETS, "__consumer_offsets"),
    PartitionChanged(OFFSETS, 0, partition(1, 2)),
)


class Node:
    """One node of a cluster: a machine that the test drives, and the service on it."""

    def __init__(self, *records: Record, max_remembered_records: int = 1000) -> None:
        self.network = VirtualNetwork(Rng(3))
        self.machine = MetadataMachine()
        self.controller_id: int | None = 2
        self.read_index: Callable[[], Awaitable[int]] = self._own_index
        if records:
            self.commit(*records)
        runtime = make_runtime(1, self.network, "node")
        self.service = ClusterService(
            runtime,
            self.machine,
            "test-cluster",
            lambda: self.read_index(),
            lambda: self.controller_id,
            max_remembered_records=max_remembered_records,
        )
        self.runtime = runtime

    async def _own_index(self) -> int:
        return self.machine.index

    def commit(self, *records: Record) -> None:
        """One operation."""
        index = self.machine.index + 1
        self.machine.apply(index, encode_operation(Operation(self.machine.image.sequence, records)))
        self.machine.committed(index)

    def commit_no_operation(self) -> None:
        self.machine.committed(self.machine.index + 1)

    def restore(self, index: int, image: ClusterImage) -> None:
        self.machine.restore(index.to_bytes(8, "big") + encode_snapshot(image))

    async def connect(self) -> Connection:
        def panic(error: BaseException) -> None:
            raise AssertionError("the handler failed") from error

        await self.runtime.network.serve("node:1", self.service.handlers(), panic)
        return await self.network.host("client").connect("node:1")

    async def describe(self, **request: Any) -> pb.ClusterDescription:
        return await call(await self.connect(), DESCRIBE_CLUSTER, pb.DescribeRequest(**request), pb.ClusterDescription)

    async def watch(self, **request: Any) -> "Watch":
        stream = (await self.connect()).open(WATCH_CLUSTER)
        await stream.send(pb.WatchRequest(**request).SerializeToString())
        await stream.half_close()
        return Watch(stream)


class Watch:
    """A watcher that keeps what it was told."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.topics: dict[bytes, pb.Topic] = {}
        self.brokers: dict[int, pb.Broker] = {}
        self.index = 0

    async def next(self) -> pb.ClusterChange:
        data = await self._stream.receive()
        assert data is not None
        change = pb.ClusterChange.FromString(data)
        assert change.metadata_index >= self.index, "goes back"
        self.index = change.metadata_index
        self._take(change)
        return change

    async def news(self) -> pb.ClusterChange:
        """The next that is more than a sign of life."""
        while is_alive_only(change := await self.next()):
            pass
        return change

    async def until(self, index: int) -> None:
        while self.index < index:
            await self.next()

    def _take(self, change: pb.ClusterChange) -> None:
        if change.HasField("description"):
            self.topics = {topic.id: topic for topic in change.description.topics if not topic.HasField("error")}
            self.brokers = {each.id: each for each in change.description.brokers}
        for each in change.brokers:
            self.brokers[each.id] = each
        for broker_id in change.removed_brokers:
            self.brokers.pop(broker_id, None)
        for topic in change.topics:
            known = {each.number: each for each in self.topics[topic.id].partitions} if topic.id in self.topics else {}
            known.update({each.number: each for each in topic.partitions})
            whole = pb.Topic(id=topic.id, name=topic.name, is_internal=topic.is_internal, configs=topic.configs)
            whole.partitions.extend(known[number] for number in sorted(known))
            self.topics[topic.id] = whole
        for deleted in change.deleted_topics:
            self.topics.pop(deleted, None)

    def knows(self, description: pb.ClusterDescription) -> bool:
        return self.topics == {topic.id: topic for topic in description.topics} and self.brokers == {
            each.id: each for each in description.brokers
        }


def is_alive_only(change: pb.ClusterChange) -> bool:
    return change == pb.ClusterChange(metadata_index=change.metadata_index)


def all_of(node: Node, *, internal: bool = False) -> pb.ClusterDescription:
    choice = TopicChoice(include_internal=internal)
    return describe_cluster(node.machine.image, node.machine.index, choice, "test-cluster", node.controller_id)


async def refusal(outcome: Awaitable[Any]) -> ControllerError:
    with pytest.raises((ControllerError, StreamError)) as caught:
        await outcome
    return caught.value if isinstance(caught.value, ControllerError) else to_controller_error(caught.value)  # type: ignore[arg-type]


def names(topics: Any) -> list[str]:
    return [topic.name for topic in topics]
