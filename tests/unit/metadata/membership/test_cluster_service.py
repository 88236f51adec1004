"""What the cluster consists of, as any node tells it; as it is now, where that is asked for."""

import asyncio
from dataclasses import replace
from typing import Any

from support.metadata_images import FENCED, broker, brokers, partition, replica, topic_id
from support.raft_nodes import virtual
from support.watched_nodes import BILLS, ORDERS, USUAL, Node, all_of, names, refusal

from lograft.clients.admin.model.codec import read_cluster
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import (
    BrokerRegistered,
    BrokerStateChanged,
    PartitionChanged,
    TopicCreated,
    TopicDeleted,
)
from lograft.metadata.membership.cluster_codec import TopicChoice, describe_cluster
from lograft.proto import cluster_pb2 as pb
from lograft.proto import errors_pb2
from lograft.proto.methods import DESCRIBE_CLUSTER
from lograft.raft.errors import ReadLost
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import call

# -- describe


@virtual
async def test_a_description_has_all_there_is_to_know() -> None:
    node = Node(*USUAL)
    node.commit(
        BrokerRegistered(replace(broker(2, rack="b"), version="1.2.3")),
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
    assert two.version == "1.2.3"
    assert not one.HasField("version"), "of a version that does not report it"
    assert [each.version for each in read_cluster(description).brokers] == [None, "1.2.3", None]
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
