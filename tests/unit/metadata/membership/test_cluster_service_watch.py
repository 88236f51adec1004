"""Each change of the cluster is told to who watches: at once, nothing besides, and from wherever it was."""

import asyncio
from itertools import count

import pytest
from support.metadata_images import ACTIVE, FENCED, broker, partition, topic_id
from support.raft_nodes import virtual
from support.watched_nodes import (
    BILLS,
    OFFSETS,
    ORDERS,
    USUAL,
    Node,
    Watch,
    all_of,
    config,
    is_alive_only,
    names,
    refusal,
)

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import (
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
from lograft.proto import cluster_pb2 as pb
from lograft.proto import errors_pb2
from lograft.proto.methods import WATCH_CLUSTER
from lograft.runtime.rng import Rng

# -- watch


@virtual
async def test_a_watch_begins_with_everything() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    change = await watch.next()
    assert change.description == all_of(node)
    assert change.metadata_index == 1


@virtual
async def test_an_index_of_another_cluster_is_not_gone_on_from() -> None:
    for cluster_id in ("", "test-cluster"):
        known = await (await Node(*USUAL).watch(from_index=1, cluster_id=cluster_id)).next()
        assert not known.HasField("description")
    for index in (1, 1000):
        node = Node(*USUAL)
        change = await (await node.watch(from_index=index, cluster_id="another")).next()
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


@virtual
async def test_a_watcher_hears_that_nothing_new_is_placed_on_a_broker() -> None:
    node = Node(*USUAL)
    watch = await node.watch()
    assert not (await watch.next()).description.brokers[1].is_cordoned
    node.commit(ConfigChanged(ConfigResource(ResourceKind.BROKER, "2"), "placement.enable", "false"))
    assert [(each.id, each.is_cordoned) for each in (await watch.news()).brokers] == [(2, True)]


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
