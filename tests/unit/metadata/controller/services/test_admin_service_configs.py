"""Configurations of topics, brokers and the cluster are altered and described; all of an item, or nothing."""

import pytest
from support.raft_nodes import virtual
from support.served_admin import World, altering, errors, orders, resource

from lograft.proto import admin_pb2 as pb


@virtual
async def test_configurations_are_altered_and_described() -> None:
    world = World(orders())
    items = [
        altering(resource(name="orders"), ("retention.ms", "60000"), ("segment.bytes", None)),
        altering(resource(pb.ConfigResource.CLUSTER), ("segment.ms", "70000")),
        altering(resource(pb.ConfigResource.BROKER, "2"), ("log.level", "debug")),
    ]
    results = (await world.ask(pb.AlterConfigsRequest(items=items))).results
    assert errors(results) == [None, None, None]
    assert results[0].resource == resource(name="orders", number=1)
    assert [[(change.key, change.value) for change in result.changes] for result in results] == [
        [("retention.ms", "60000")], [("segment.ms", "70000")], [("log.level", "debug")],
    ]  # fmt: skip
    described = await world.ask(
        pb.DescribeConfigsRequest(
            items=[
                pb.DescribeConfigsRequest.Item(resource=resource(number=1), keys=["segment.ms", "retention.ms"]),
                pb.DescribeConfigsRequest.Item(resource=resource(pb.ConfigResource.BROKER, "2")),
                pb.DescribeConfigsRequest.Item(resource=resource(name="bills")),
            ]
        )
    )
    topic, node, other = described.results
    assert topic.resource == resource(name="orders", number=1)
    assert [(value.key, value.value, value.source) for value in topic.values] == [
        ("retention.ms", "60000", pb.ConfigValue.TOPIC),
        ("segment.ms", "70000", pb.ConfigValue.CLUSTER),
    ]
    assert topic.values[0].default_value == "604800000"
    assert all(value.description and value.kind and value.accepts for value in topic.values)
    assert [value.setting for value in topic.values if value.HasField("setting")] == ["60000"]
    assert [(value.key, value.value, value.source) for value in node.values] == [
        ("log.level", "debug", pb.ConfigValue.BROKER),
        ("placement.enable", "true", pb.ConfigValue.DEFAULT),
        ("slow.request.ms", "1000", pb.ConfigValue.DEFAULT),
    ]
    values = {value.key: value for value in other.values}
    assert list(values) == sorted(values)
    assert len(values) > 10
    assert values["retention.ms"].source == pb.ConfigValue.DEFAULT
    assert values["min.insync.replicas"].value == "2"


@virtual
async def test_all_changes_of_an_item_are_made_or_none() -> None:
    world = World(orders())
    items = [altering(resource(name="orders"), ("retention.ms", "60000"), ("segment.bytes", "many"))]
    results = (await world.ask(pb.AlterConfigsRequest(items=items))).results
    assert errors(results) == ["INVALID_CONFIG"]
    assert results[0].resource == resource(name="orders")
    assert world.is_unchanged


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (resource(name="nothing"), "UNKNOWN_TOPIC"),
        (resource(number=9), "UNKNOWN_TOPIC_ID"),
        (resource(name="orders", number=9), "UNKNOWN_TOPIC_ID"),
        (resource(name="orders", number=2), "INVALID_REQUEST"),
        (resource(), "INVALID_REQUEST"),
        (resource(pb.ConfigResource.BROKER, "9"), "UNKNOWN_BROKER"),
        (resource(pb.ConfigResource.BROKER, "x"), "UNKNOWN_BROKER"),
        (resource(pb.ConfigResource.BROKER, "2", number=1), "INVALID_REQUEST"),
        (resource(pb.ConfigResource.CLUSTER, "name"), "INVALID_REQUEST"),
        (resource(pb.ConfigResource.UNSPECIFIED, "orders"), "INVALID_REQUEST"),
        (resource(77, "orders"), "INVALID_REQUEST"),
        (pb.ConfigResource(kind=pb.ConfigResource.TOPIC, topic_id=b"abc"), "INVALID_REQUEST"),
    ],
)
@virtual
async def test_a_resource_that_makes_no_sense_is_refused(target: pb.ConfigResource, error: str) -> None:
    world = World(orders())
    altered = await world.ask(pb.AlterConfigsRequest(items=[altering(target)]))
    described = await world.ask(pb.DescribeConfigsRequest(items=[pb.DescribeConfigsRequest.Item(resource=target)]))
    assert errors([*altered.results, *described.results]) == [error, error]
    assert altered.results[0].resource == described.results[0].resource == target


@virtual
async def test_a_key_that_is_there_twice_is_refused() -> None:
    world = World(orders())
    item = altering(resource(name="orders"), ("retention.ms", "1"), ("retention.ms", None))
    results = (await world.ask(pb.AlterConfigsRequest(items=[item]))).results
    assert errors(results) == ["INVALID_REQUEST"]
    assert world.is_unchanged
