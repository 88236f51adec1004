"""What the cluster consists of, and each change of it, as any node tells it."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
from support.metadata_images import ACTIVE, FENCED, broker, brokers, partition, replica, topic_id
from support.raft_nodes import make_runtime, virtual

from lograft.chaos.virtual_network import VirtualNetwork
from lograft.metadata.calling import call
from lograft.metadata.cluster_codec import TopicChoice, describe_cluster
from lograft.metadata.cluster_service import ClusterService
from lograft.metadata.errors import ControllerError
from lograft.metadata.image import ClusterImage
from lograft.metadata.image_snapshot import encode_snapshot
from lograft.metadata.machine import MetadataMachine
from lograft.metadata.partition import BrokerId
from lograft.metadata.record_codec import encode_operation
from lograft.metadata.records import (
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    ConfigChanged,
    ConfigResource,
    Operation,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)
from lograft.metadata.stream_errors import to_controller_error
from lograft.proto import cluster_pb2 as pb
from lograft.proto import errors_pb2
from lograft.proto.methods import DESCRIBE_CLUSTER, WATCH_CLUSTER
from lograft.raft.errors import ReadLost
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
    return caught.value if isinstance(caught.value, ControllerError) else to_controller_error(caught.value)


def names(topics: Any) -> list[str]:
    return [topic.name for topic in topics]


# -- describe


@virtual
async def test_a_description_has_all_there_is_to_know() -> None:
    node = Node(*USUAL)
    node.commit(
        BrokerStateChanged(BrokerId(3), broker(3).epoch, FENCED),
        PartitionChanged(
            ORDERS,
            1,
            partition(
                2, 3, 1, isr=[2], elr=[replica(3)], target=[2, 1], adding=[1], leader_epoch=4, partition_epoch=9,
                unclean_epoch=3,
            ),
        ),
        PartitionChanged(BILLS, 0, partition(3, 1, isr=[], leader=None, elr=[3], leader_epoch=1, partition_epoch=1)),
    )  # fmt: skip
    description = await node.describe()
    assert description.cluster_id == "test-cluster"
    assert description.controller_id == 2
    assert description.metadata_index == 2
    one, two, three = description.brokers
    assert (one.id, one.address, one.rack, one.epoch) == (1, "broker-1:9092", "a", 101)
    assert one.directories == [directory.bytes for directory in broker(1).directories]
    assert (one.state, two.state, three.state) == (pb.Broker.ACTIVE, pb.Broker.ACTIVE, pb.Broker.FENCED)
    assert not three.HasField("rack")
    bills, orders = description.topics
    assert (bills.name, orders.name, orders.id, orders.is_internal) == ("bills", "orders", ORDERS.bytes, False)
    assert orders.configs == {"retention.ms": "1000"}
    assert [each.number for each in orders.partitions] == [0, 1]
    moving = orders.partitions[1]
    assert (moving.leader, moving.leader_epoch, moving.partition_epoch, moving.unclean_epoch) == (2, 4, 9, 3)
    assert (moving.replicas, moving.isr, moving.elr) == ([2, 3, 1], [2], [3])
    assert (moving.adding, moving.removing) == ([1], [3])
    offline = bills.partitions[0]
    assert not offline.HasField("leader")
    assert not offline.HasField("unclean_epoch")
    assert offline.isr == []


@virtual
async def test_internal_topics_show_when_they_are_asked_for() -> None:
    assert names((await Node(*USUAL).describe()).topics) == ["bills", "orders"]
    everything = await Node(*USUAL).describe(include_internal=True)
    assert names(everything.topics) == ["__consumer_offsets", "bills", "orders"]
    assert everything.topics[0].is_internal
    named = await Node(*USUAL).describe(topics=["__consumer_offsets"])
    assert names(named.topics) == ["__consumer_offsets"]


@virtual
async def test_a_topic_that_there_is_none_of_is_an_answer_with_an_error() -> None:
    description = await Node(*USUAL).describe(topics=["orders", "nothing", "orders"])
    orders, nothing = description.topics
    assert orders.id == ORDERS.bytes
    assert (nothing.name, nothing.id, nothing.error.code) == ("nothing", b"", errors_pb2.UNKNOWN_TOPIC)
    assert "'nothing'" in nothing.error.message
    assert len(description.brokers) == 3


@virtual
async def test_a_node_that_knows_nothing_yet_does_not_say_that_there_is_nothing() -> None:
    assert (await refusal(Node().describe())).code == errors_pb2.UNAVAILABLE
    assert (await refusal((await Node().watch()).next())).code == errors_pb2.UNAVAILABLE


@virtual
async def test_too_many_names_are_refused() -> None:
    error = await refusal(Node(*USUAL).describe(topics=[f"t{number}" for number in range(10_001)]))
    assert error.code == errors_pb2.INVALID_REQUEST
    assert "10000" in error.message


@virtual
async def test_a_second_description_is_not_of_the_past() -> None:
    """What many ask for is made once; but not for longer than it is true."""
    node = Node(*USUAL)
    connection = await node.connect()

    async def ask() -> pb.ClusterDescription:
        return await call(connection, DESCRIBE_CLUSTER, pb.DescribeRequest(), pb.ClusterDescription)

    assert (await ask()) == (await ask()) == all_of(node)
    node.commit(TopicDeleted(BILLS))
    assert names((await ask()).topics) == ["orders"]
    node.controller_id = 3
    assert (await ask()).controller_id == 3


# -- linearizable


@virtual
async def test_a_linearizable_description_waits_for_what_was_committed_elsewhere() -> None:
    node = Node(*USUAL)

    async def read_index() -> int:
        return 3

    node.read_index = read_index
    described = asyncio.ensure_future(node.describe(linearizable=True))
    await asyncio.sleep(1)
    node.commit(TopicDeleted(BILLS))
    await asyncio.sleep(1)
    assert not described.done()
    node.commit_no_operation()
    description = await described
    assert description.metadata_index == 3
    assert names(description.topics) == ["orders"]


@virtual
async def test_without_linearizable_nobody_is_asked() -> None:
    node = Node(*USUAL)

    async def read_index() -> int:
        raise AssertionError

    node.read_index = read_index
    assert names((await node.describe()).topics) == ["bills", "orders"]


@virtual
async def test_a_question_that_is_lost_is_asked_again() -> None:
    node = Node(*USUAL)
    fates: list[Any] = [ReadLost("elected"), ControllerError(errors_pb2.NOT_CONTROLLER, "moved"), None, 1]

    async def read_index() -> int:
        fate = fates.pop(0)
        if fate is None:
            await asyncio.Event().wait()
        if isinstance(fate, Exception):
            raise fate
        return int(fate)

    node.read_index = read_index
    assert (await node.describe(linearizable=True)).metadata_index == 1
    assert fates == []


@virtual
async def test_without_a_quorum_a_linearizable_description_ends_with_an_error() -> None:
    node = Node(*USUAL)

    async def read_index() -> int:
        raise ReadLost("no leader")

    node.read_index = read_index
    loop = asyncio.get_running_loop()
    began = loop.time()
    error = await refusal(node.describe(linearizable=True))
    assert error.code == errors_pb2.UNAVAILABLE
    assert 4.9 < loop.time() - began < 5.5


@virtual
async def test_a_node_that_does_not_catch_up_ends_a_linearizable_description_with_an_error() -> None:
    node = Node(*USUAL)

    async def read_index() -> int:
        return 1000

    node.read_index = read_index
    assert (await refusal(node.describe(linearizable=True))).code == errors_pb2.UNAVAILABLE


# -- watch


@virtual
async def test_a_watch_begins_with_everything() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    change = await watch.next()
    assert change.description == all_of(node)
    assert change.metadata_index == 1


CHANGES: dict[str, tuple[tuple[Record, ...], pb.ClusterChange]] = {
    "a partition": (
        (PartitionChanged(ORDERS, 1, partition(2, 3, 1, isr=[3], leader_epoch=1, partition_epoch=1)),),
        pb.ClusterChange(
            topics=[
                pb.Topic(
                    id=ORDERS.bytes,
                    name="orders",
                    configs={"retention.ms": "1000"},
                    partitions=[
                        pb.Partition(number=1, leader=3, leader_epoch=1, partition_epoch=1, replicas=[2, 3, 1], isr=[3])
                    ],
                )
            ]
        ),
    ),
    "a topic's configuration": (
        (config(1, "retention.ms", None), config(1, "segment.bytes", "2")),
        pb.ClusterChange(topics=[pb.Topic(id=ORDERS.bytes, name="orders", configs={"segment.bytes": "2"})]),
    ),
    "a new topic": (
        (TopicCreated(topic_id(9), "new"), PartitionChanged(topic_id(9), 0, partition(1))),
        pb.ClusterChange(
            topics=[
                pb.Topic(
                    id=topic_id(9).bytes,
                    name="new",
                    partitions=[
                        pb.Partition(number=0, leader=1, leader_epoch=0, partition_epoch=0, replicas=[1], isr=[1])
                    ],
                )
            ]
        ),
    ),
    "a topic that is deleted": (
        (TopicDeleted(BILLS),),
        pb.ClusterChange(deleted_topics=[BILLS.bytes]),
    ),
    "a broker that is gone": (
        (BrokerRegistered(broker(4)), BrokerUnregistered(BrokerId(4))),
        pb.ClusterChange(removed_brokers=[4]),
    ),
    "a broker's state": (
        (BrokerStateChanged(BrokerId(3), broker(3).epoch, FENCED),),
        pb.ClusterChange(
            brokers=[
                pb.Broker(
                    id=3,
                    address="broker-3:9092",
                    state=pb.Broker.FENCED,
                    epoch=103,
                    directories=[each.bytes for each in broker(3).directories],
                )
            ]
        ),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
@virtual
async def test_a_change_is_told_at_once_and_nothing_besides(what: str) -> None:
    records, expected = CHANGES[what]
    node = Node(*USUAL)
    watch = await node.watch()
    await watch.next()
    began = asyncio.get_running_loop().time()
    node.commit(*records)
    change = await watch.next()
    assert asyncio.get_running_loop().time() - began < 0.05
    expected.metadata_index = 2
    assert change == expected
    assert watch.knows(all_of(node))


@virtual
async def test_many_changes_at_once_are_told_once_as_they_are_in_the_end() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    await watch.next()
    for epoch in range(1, 6):
        changed = partition(1, 2, 3, isr=[1, 2], partition_epoch=epoch)
        node.commit(PartitionChanged(ORDERS, 0, changed))
    node.commit(BrokerRegistered(broker(5)))
    change = await watch.next()
    assert change.metadata_index == 7
    assert [each.partition_epoch for topic in change.topics for each in topic.partitions] == [5]
    assert [each.id for each in change.brokers] == [5]


@virtual
async def test_something_is_sent_every_half_second() -> None:
    node = Node(*USUAL)
    loop = asyncio.get_running_loop()
    watch = await node.watch()
    await watch.next()
    before = loop.time()
    for _ in range(5):
        assert is_alive_only(await watch.next())
        assert 0.4 < loop.time() - before < 0.6
        before = loop.time()


@virtual
async def test_what_does_not_concern_watchers_is_not_told_but_counted() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    await watch.next()
    node.commit(ProducerIdsAllocated(1000))
    node.commit(ConfigChanged(ConfigResource(ResourceKind.CLUSTER), "num.partitions", "3"))
    node.commit_no_operation()
    change = await watch.next()
    assert is_alive_only(change)
    assert change.metadata_index == 4


@virtual
async def test_a_watcher_of_some_topics_hears_of_those_alone() -> None:
    node = Node(*USUAL)
    watch = await node.watch(topics=["bills", "later"])
    description = (await watch.next()).description
    assert [(topic.name, topic.error.code) for topic in description.topics] == [
        ("bills", errors_pb2.NONE),
        ("later", errors_pb2.UNKNOWN_TOPIC),
    ]
    node.commit(PartitionChanged(ORDERS, 0, partition(1, 2, 3, isr=[1], partition_epoch=1)))
    assert is_alive_only(await watch.next())
    node.commit(TopicCreated(topic_id(9), "later"), PartitionChanged(topic_id(9), 0, partition(1)))
    assert names((await watch.news()).topics) == ["later"]
    node.commit(TopicDeleted(BILLS))
    assert (await watch.news()).deleted_topics == [BILLS.bytes]


@virtual
async def test_internal_topics_are_watched_when_they_are_asked_for() -> None:
    node = Node(*USUAL)
    some, every = await node.watch(), None
    await some.next()
    node.commit(PartitionChanged(OFFSETS, 0, partition(1, 2, isr=[1], partition_epoch=1)))
    assert is_alive_only(await some.next())

    node = Node(*USUAL)
    every = await node.watch(include_internal=True)
    assert (await every.next()).description == all_of(node, internal=True)
    node.commit(PartitionChanged(OFFSETS, 0, partition(1, 2, isr=[1], partition_epoch=1)))
    assert names((await every.next()).topics) == ["__consumer_offsets"]


@virtual
async def test_a_new_active_controller_is_told() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    assert (await watch.next()).description.controller_id == 2
    node.controller_id = None
    assert is_alive_only(await watch.next())
    node.controller_id = 3
    assert (await watch.next()).controller_id == 3
    assert is_alive_only(await watch.next())


# -- going on


@virtual
async def test_a_watch_goes_on_where_another_ended() -> None:
    node = Node(*USUAL)
    node.commit(TopicDeleted(BILLS))
    node.commit(BrokerRegistered(broker(5)))
    watch = await node.watch(from_index=2)
    change = await watch.next()
    assert not change.HasField("description")
    assert change.controller_id == 2
    assert ([each.id for each in change.brokers], list(change.deleted_topics)) == ([5], [])


@virtual
async def test_a_watch_from_before_what_is_remembered_begins_with_everything() -> None:
    node = Node(*USUAL)  # the service begins here, and knows of nothing before
    node.commit(TopicDeleted(BILLS))
    watch = await node.watch(from_index=0)
    assert (await watch.next()).description == all_of(node)


@virtual
async def test_a_watch_from_ahead_of_this_node_is_told_nothing_old() -> None:
    node = Node(*USUAL)
    watch = await node.watch(from_index=3)
    first = await watch.next()
    assert first == pb.ClusterChange(metadata_index=3, controller_id=2)
    node.commit(TopicDeleted(BILLS))
    node.commit_no_operation()
    assert (await watch.next()) == pb.ClusterChange(metadata_index=3)
    node.commit(BrokerRegistered(broker(5)))
    change = await watch.news()
    assert (change.metadata_index, [each.id for each in change.brokers]) == (4, [5])
    assert not change.deleted_topics


@virtual
async def test_after_a_snapshot_everything_is_told_anew() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    await watch.next()
    other = node.machine.image.copy()
    assert other.apply_operation(Operation(other.sequence, (TopicDeleted(BILLS),)))
    node.restore(10, other)
    change = await watch.next()
    assert change.metadata_index == 10
    assert change.description == all_of(node)
    assert names(change.description.topics) == ["orders"]


@virtual
async def test_a_slow_watcher_is_told_everything_anew_once_too_much_was_missed() -> None:
    node = Node(*USUAL, max_remembered_records=10)
    watch = await node.watch()
    await watch.next()
    for epoch in range(1, 12):
        node.commit(PartitionChanged(ORDERS, 0, partition(1, 2, 3, isr=[1, 2], partition_epoch=epoch)))
    change = await watch.next()
    assert change.description == all_of(node)
    assert change.metadata_index == 12


@virtual
async def test_watchers_that_are_behind_by_different_amounts_each_hear_what_they_miss() -> None:
    node = Node(*USUAL)
    connection = await node.connect()
    node.commit(BrokerRegistered(broker(5)))
    node.commit(BrokerRegistered(broker(6)))

    async def told(from_index: int) -> list[int]:
        stream = connection.open(WATCH_CLUSTER)
        await stream.send(pb.WatchRequest(from_index=from_index).SerializeToString())
        await stream.half_close()
        return sorted(each.id for each in (await Watch(stream).next()).brokers)

    assert [await told(1), await told(2), await told(3), await told(1)] == [[5, 6], [6], [], [5, 6]]


@virtual
async def test_a_negative_index_is_refused() -> None:
    watch = await Node(*USUAL).watch(from_index=-1)
    assert (await refusal(watch.next())).code == errors_pb2.INVALID_REQUEST


@pytest.mark.parametrize("seed", range(10))
@virtual
async def test_whoever_follows_a_watch_knows_the_cluster(seed: int) -> None:
    """Whatever happens between two messages."""
    rng = Rng(seed)
    node = Node(*USUAL, max_remembered_records=30)
    watch = await node.watch()
    ids = count(100)
    for _ in range(100):
        for _ in range(rng.randrange(8)):
            node.commit(*something(rng, node.machine.image, ids))
        if rng.random() < 0.05:
            node.restore(node.machine.index + 5, node.machine.image)
        if rng.random() < 0.5:
            await watch.next()
        if rng.random() < 0.2:
            await watch.until(node.machine.index)
            assert watch.knows(all_of(node))
    await watch.until(node.machine.index)
    assert watch.knows(all_of(node))


def something(rng: Rng, image: ClusterImage, ids: "count[int]") -> list[Record]:
    """An operation that the image takes. Names are few, so that topics come back as others."""
    name = rng.choice(["a", "b", "c", "d"])
    topic = image.topic(name)
    kind = rng.randrange(4)
    if kind == 0:
        return [BrokerStateChanged(BrokerId(2), broker(2).epoch, rng.choice([ACTIVE, FENCED]))]
    if topic is None:
        new = topic_id(next(ids))
        return [TopicCreated(new, name), PartitionChanged(new, 0, partition(1, 2))]
    if kind == 1:
        return [TopicDeleted(topic.topic_id)]
    if kind == 2:
        resource = ConfigResource(ResourceKind.TOPIC, str(topic.topic_id))
        return [ConfigChanged(resource, "retention.ms", rng.choice(["1", "2", None]))]
    number = rng.randrange(len(topic.partitions) + 1)
    before = topic.partitions.get(number)
    epoch = before.partition_epoch + 1 if before is not None else 0
    return [PartitionChanged(topic.topic_id, number, partition(1, 2, 3, partition_epoch=epoch))]


# -- size


def test_a_large_cluster_is_described_in_one_message_that_fits() -> None:
    image = ClusterImage()
    for each in brokers(5):
        image.apply(BrokerRegistered(each))
    for number in range(1, 1001):
        image.apply(TopicCreated(topic_id(number), f"a-topic-with-a-name-of-some-length-{number}"))
        for at in range(10):
            image.apply(PartitionChanged(topic_id(number), at, partition(1, 2, 3)))
    description = describe_cluster(image, 1, TopicChoice(), "test-cluster", 1)
    assert sum(len(topic.partitions) for topic in description.topics) == 10_000
    assert len(description.SerializeToString()) < 1024 * 1024


@virtual
async def test_a_watcher_hears_that_nothing_new_is_placed_on_a_broker() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    assert not (await watch.next()).description.brokers[1].is_cordoned
    node.commit(ConfigChanged(ConfigResource(ResourceKind.BROKER, "2"), "placement.enable", "false"))
    assert [(each.id, each.is_cordoned) for each in (await watch.news()).brokers] == [(2, True)]
