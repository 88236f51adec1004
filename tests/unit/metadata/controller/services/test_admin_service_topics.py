"""Topics are created, given partitions and deleted, each with a result of its own."""

from uuid import UUID

import pytest
from support.metadata_images import ids, replica, topic_id
from support.raft_nodes import virtual
from support.served_admin import World, error_name, errors, new, orders, reference

from lograft.metadata.decisions.topics.disk_room import DiskRoom
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.proto import admin_pb2 as pb

# -- create


@virtual
async def test_topics_are_created() -> None:
    world = World()
    request = pb.CreateTopicsRequest(
        topics=[
            new("a", 1, partitions=2, replication_factor=3, configs={"retention.ms": "5"}),
            new("b", 2, assignments=[pb.ReplicaAssignment(broker_ids=[2, 1])]),
            new("c"),
        ]
    )
    a, b, c = (await world.ask(request)).results
    assert errors([a, b, c]) == [None, None, None]
    assert (a.name, a.topic_id, a.partitions, a.replication_factor) == ("a", topic_id(1).bytes, 2, 3)
    assert not a.already_existed
    assert world.image.config_of(ConfigResource(ResourceKind.TOPIC, str(topic_id(1)))) == {"retention.ms": "5"}
    assert (b.partitions, b.replication_factor) == (1, 2)
    assert world.image.topics[topic_id(2)].partitions[0].replica_ids == ids(2, 1)
    made = world.image.topic("c")
    assert made is not None
    assert c.topic_id == made.topic_id.bytes
    assert UUID(bytes=c.topic_id).version == 4
    assert (c.partitions, c.replication_factor) == (1, 3)
    assert len(world.controller.operations) == 3


@virtual
async def test_all_that_is_asked_is_decided_by_which_disks_are_full() -> None:
    world = World(orders())
    world.room = DiskRoom({replica(1): False, replica(2): False})
    [created] = (await world.ask(pb.CreateTopicsRequest(topics=[new("a", 11, replication_factor=3)]))).results
    item = pb.CreatePartitionsRequest.Item(topic=reference("orders"), total=9)
    [added] = (await world.ask(pb.CreatePartitionsRequest(items=[item]))).results
    assert errors([created, added]) == ["DISK_FULL"] * 2
    assert world.image == world.before


@virtual
async def test_a_creation_that_is_repeated_gets_the_topic_that_is_there() -> None:
    world = World()
    request = pb.CreateTopicsRequest(topics=[new("a", 1, partitions=2)])
    first = (await world.ask(request)).results[0]
    second = (await world.ask(request)).results[0]
    assert second.already_existed
    second.already_existed = False
    assert first == second
    assert len(world.controller.operations) == 1


@virtual
async def test_items_that_are_refused_do_not_touch_the_others() -> None:
    world = World(orders())
    request = pb.CreateTopicsRequest(
        topics=[
            new("a", 11),
            new("orders", 12),
            new("no/good", 13),
            new("b", 14, partitions=-1),
            new("c", 15, replication_factor=-1),
            new("d", 16, replication_factor=4),
            new("e", 17, configs={"no.such.key": "1"}),
            pb.NewTopic(name="f", topic_id=b"short"),
            new("g", 18, assignments=[pb.ReplicaAssignment(broker_ids=[-1])]),
            new("a", 19),
            new("z", 20),
        ]
    )
    results = (await world.ask(request)).results
    assert errors(results) == [
        None, "TOPIC_ALREADY_EXISTS", "INVALID_TOPIC", "INVALID_PARTITIONS", "INVALID_REPLICAS", "NOT_ENOUGH_BROKERS",
        "INVALID_CONFIG", "INVALID_REQUEST", "INVALID_REPLICAS", "TOPIC_ALREADY_EXISTS", None,
    ]  # fmt: skip
    assert [(result.name, result.topic_id) for result in results] == [
        (item.name, item.topic_id) for item in request.topics
    ]
    assert results[5].error.retriable
    assert sorted(world.image.topic_ids) == ["a", "bills", "orders", "z"]


# -- delete


@virtual
async def test_topics_are_deleted_by_name_by_id_or_by_both() -> None:
    for given in (reference("orders"), reference("", 1), reference("orders", 1)):
        world = World(orders())
        (result,) = (await world.ask(pb.DeleteTopicsRequest(topics=[given]))).results
        assert (error_name(result), result.name, result.topic_id) == (None, "orders", topic_id(1).bytes)
        assert sorted(world.image.topic_ids) == ["bills"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (reference("nothing"), "UNKNOWN_TOPIC"),
        (reference("", 99), "UNKNOWN_TOPIC_ID"),
        (reference("orders", 99), "UNKNOWN_TOPIC_ID"),
        (reference("orders", 2), "INVALID_REQUEST"),
        (reference(), "INVALID_REQUEST"),
        (pb.TopicReference(topic_id=b"abc"), "INVALID_REQUEST"),
    ],
)
@virtual
async def test_a_topic_that_is_not_there_is_not_deleted(given: pb.TopicReference, error: str) -> None:
    world = World(orders())
    (result,) = (await world.ask(pb.DeleteTopicsRequest(topics=[given]))).results
    assert (error_name(result), result.name, result.topic_id) == (error, given.name, given.topic_id)
    assert result.error.message
    assert world.is_unchanged


@virtual
async def test_a_deletion_by_id_can_be_repeated_and_spares_the_topic_of_the_same_name() -> None:
    world = World(orders())
    by_id = pb.DeleteTopicsRequest(topics=[reference("orders", 1)])
    assert errors((await world.ask(by_id)).results) == [None]
    assert errors((await world.ask(pb.CreateTopicsRequest(topics=[new("orders", 9)]))).results) == [None]
    assert errors((await world.ask(by_id)).results) == [None]
    assert world.image.topic_ids["orders"] == topic_id(9)


@virtual
async def test_a_topic_named_twice_is_deleted_once() -> None:
    world = World(orders())
    request = pb.DeleteTopicsRequest(topics=[reference("orders"), reference("orders")])
    assert errors((await world.ask(request)).results) == [None, "UNKNOWN_TOPIC"]


# -- partitions


@virtual
async def test_partitions_are_added() -> None:
    world = World(orders())
    items = [
        pb.CreatePartitionsRequest.Item(topic=reference("orders"), total=4),
        pb.CreatePartitionsRequest.Item(
            topic=reference("", 2), total=2, assignments=[pb.ReplicaAssignment(broker_ids=[2, 3])]
        ),
        pb.CreatePartitionsRequest.Item(topic=reference("bills"), total=1),
        pb.CreatePartitionsRequest.Item(topic=reference("nothing"), total=2),
        pb.CreatePartitionsRequest.Item(topic=reference("orders"), total=-3),
        pb.CreatePartitionsRequest.Item(topic=reference("orders"), total=4),
    ]
    results = (await world.ask(pb.CreatePartitionsRequest(items=items))).results
    assert errors(results) == [None, None, "INVALID_PARTITIONS", "UNKNOWN_TOPIC", "INVALID_PARTITIONS", None]
    assert [(result.name, result.partitions) for result in results[:2]] == [("orders", 4), ("bills", 2)]
    assert results[1].topic_id == topic_id(2).bytes
    assert len(world.image.topics[topic_id(1)].partitions) == 4
    assert world.image.topics[topic_id(2)].partitions[1].replica_ids == ids(2, 3)
