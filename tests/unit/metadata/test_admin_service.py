"""What administrators ask of a controller: each item has its result, and what concerns all fails the call."""

import asyncio
from typing import Any, TypeVar
from uuid import UUID

import pytest
from support.metadata_images import (
    FENCED,
    broker,
    brokers,
    epoch_of,
    ids,
    image_with,
    partition,
    topic_id,
)
from support.metadata_quorum import MetadataCluster
from support.raft_nodes import make_runtime, virtual

from lograft.chaos.virtual_network import VirtualNetwork
from lograft.metadata import admin_service
from lograft.metadata.active_controller import Committed
from lograft.metadata.admin_items import MAX_IN_FLIGHT, MAX_IN_FLIGHT_OF_REQUEST, Submitter
from lograft.metadata.admin_service import AdminService
from lograft.metadata.calling import call
from lograft.metadata.decision import Decide, Decision
from lograft.metadata.errors import ControllerError
from lograft.metadata.image import ClusterImage
from lograft.metadata.log_ends import LogEnd, LogEnds
from lograft.metadata.partition import BrokerId, LeaderEpoch
from lograft.metadata.records import BrokerRegistered, ConfigResource, Operation, ResourceKind
from lograft.metadata.stream_errors import read_detail
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.runtime.network import Connection, StreamError
from lograft.runtime.rng import Rng

T = TypeVar("T")

CONTROLLERS = {1: "c1:9093", 2: "c2:9093", 3: "c3:9093"}


class Controller:
    """Decides at once on what is to come, and commits after a millisecond. `fates`: with which errors what is asked
    comes to nothing, by when it is asked, from 0. `is_stuck`: nothing is ever committed."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.operations: list[Operation] = []
        self.asked = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.fates: dict[int, ControllerError] = {}
        self.is_stuck = False

    async def submit(self, decide: Decide[T]) -> Committed[T]:
        fate = self.fates.get(self.asked)
        self.asked += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if fate is None:
                return await self._carry_out(decide)
            await asyncio.sleep(0.001)
            raise fate
        finally:
            self.in_flight -= 1

    async def _carry_out(self, decide: Decide[T]) -> Committed[T]:
        decision = None
        try:
            decision = decide(self.image)
            if decision.records:
                operation = Operation(self.image.sequence, decision.records)
                assert self.image.apply_operation(operation)
                self.operations.append(operation)
        finally:
            if self.is_stuck:
                await asyncio.Event().wait()
            await asyncio.sleep(0.001)
        return Committed(decision.answer, len(self.operations))


class World:
    """A service on a controller, and a connection to it."""

    def __init__(self, image: ClusterImage | None = None, controller: Submitter | None = None) -> None:
        self.image = image if image is not None else image_with(*brokers(3))
        self.before = self.image.copy()
        self.controller = Controller(self.image)
        self.log_ends: LogEnds = {}
        self.network = VirtualNetwork(Rng(5))
        self.runtime = make_runtime(7, self.network, "controller")
        self.service = AdminService(self.runtime, controller or self.controller, CONTROLLERS, lambda: self.log_ends)
        self._connection: Connection | None = None

    async def ask(self, request: Any) -> Any:
        """The answer to a request of any kind."""
        if self._connection is None:

            def panic(error: BaseException) -> None:
                raise AssertionError("a handler failed") from error

            await self.runtime.network.serve("controller:1", self.service.handlers(), panic)
            self._connection = await self.network.host("client").connect("controller:1")
        name = type(request).__name__.removesuffix("Request")
        return await call(self._connection, f"/lograft.v1.Admin/{name}", request, getattr(pb, f"{name}Response"))

    async def refused(self, request: Any) -> ControllerError:
        with pytest.raises(ControllerError) as caught:
            await self.ask(request)
        return caught.value

    @property
    def is_unchanged(self) -> bool:
        return self.image == self.before


def error_name(result: Any) -> str | None:
    return errors_pb2.ErrorCode.Name(result.error.code) if result.HasField("error") else None


def errors(results: Any) -> list[str | None]:
    return [error_name(result) for result in results]


def new(name: str, number: int | None = None, **fields: Any) -> pb.NewTopic:
    return pb.NewTopic(name=name, topic_id=topic_id(number).bytes if number is not None else b"", **fields)


def reference(name: str = "", number: int | None = None) -> pb.TopicReference:
    return pb.TopicReference(name=name, topic_id=topic_id(number).bytes if number is not None else b"")


def partition_of(number: int, name: str = "", topic: int | None = None) -> pb.PartitionReference:
    return pb.PartitionReference(topic=reference(name, topic), partition=number)


def orders() -> ClusterImage:
    """Topic `orders` has id 1, `bills` id 2."""
    topics = {"orders": [partition(1, 2, 3), partition(2, 3, 1)], "bills": [partition(3, 1)]}
    return image_with(*brokers(3), topics=topics)


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


# -- configuration


def resource(kind: Any = pb.ConfigResource.TOPIC, name: str = "", number: int | None = None) -> pb.ConfigResource:
    return pb.ConfigResource(kind=kind, name=name, topic_id=topic_id(number).bytes if number is not None else b"")


def altering(target: pb.ConfigResource, *changes: tuple[str, str | None]) -> pb.AlterConfigsRequest.Item:
    made = [pb.AlterConfigsRequest.Change(key=key, value=value) for key, value in changes]
    return pb.AlterConfigsRequest.Item(resource=target, changes=made)


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


# -- reassignments


def moving(target: pb.PartitionReference, *replicas: int, cancel: bool = False) -> pb.AlterReassignmentsRequest.Item:
    return pb.AlterReassignmentsRequest.Item(partition=target, replicas=replicas, cancel=cancel)


@virtual
async def test_reassignments_begin_in_one_operation_and_are_listed() -> None:
    topics = {"orders": [partition(1, 2), partition(2, 3)], "bills": [partition(3, 1)]}
    world = World(image_with(*brokers(4), topics=topics))
    items = [
        moving(partition_of(0, "orders"), 1, 4),
        moving(partition_of(9, "orders"), 1, 4),
        moving(partition_of(0, "nothing"), 1),
        moving(partition_of(0, topic=2), 4, 1),
        moving(partition_of(1, "orders"), 77),
        moving(partition_of(1, "orders", 2), 1),
    ]
    results = (await world.ask(pb.AlterReassignmentsRequest(items=items))).results
    assert errors(results) == [
        None, "UNKNOWN_PARTITION", "UNKNOWN_TOPIC", None, "UNKNOWN_BROKER", "INVALID_REQUEST",
    ]  # fmt: skip
    assert results[0].partition == partition_of(0, "orders", 1)
    assert results[1].partition == items[1].partition
    assert results[3].partition == partition_of(0, "bills", 2)
    assert len(world.controller.operations) == 1
    everything = await world.ask(pb.ListReassignmentsRequest())
    one, two = everything.reassignments
    assert one == pb.Reassignment(
        partition=partition_of(0, "orders", 1), replicas=[1, 2, 4], target=[1, 4], adding=[4], removing=[2]
    )
    assert two.partition == partition_of(0, "bills", 2)
    some = await world.ask(pb.ListReassignmentsRequest(topics=[reference("bills"), reference("x"), reference("", 9)]))
    assert list(some.reassignments) == [two]
    assert [(each.topic, error_name(each)) for each in some.errors] == [
        (reference("x"), "UNKNOWN_TOPIC"),
        (reference("", 9), "UNKNOWN_TOPIC_ID"),
    ]


@virtual
async def test_a_reassignment_is_cancelled() -> None:
    topics = {"orders": [partition(1, 2, 3, isr=[1, 2], target=[1, 3], adding=[3]), partition(1, 2)]}
    world = World(image_with(*brokers(3), topics=topics))
    items = [moving(partition_of(0, "orders"), cancel=True), moving(partition_of(1, "orders"), cancel=True)]
    assert errors((await world.ask(pb.AlterReassignmentsRequest(items=items))).results) == [None, "NO_REASSIGNMENT"]
    assert world.image.topics[topic_id(1)].partitions[0].replica_ids == ids(1, 2)
    both = pb.AlterReassignmentsRequest(items=[moving(partition_of(0, "orders"), 1, 2, cancel=True)])
    assert errors((await world.ask(both)).results) == ["INVALID_REQUEST"]


@virtual
async def test_one_partition_twice_in_a_reassignment_is_refused() -> None:
    world = World(orders())
    items = [moving(partition_of(0, "orders"), 1), moving(partition_of(0, topic=1), 2)]
    assert (await world.refused(pb.AlterReassignmentsRequest(items=items))).code == errors_pb2.INVALID_REQUEST
    assert world.is_unchanged


# -- elections


def away() -> ClusterImage:
    """Partition 0 is led by another than the preferred leader, 1 by nobody, 2 as it should be; of 3 the preferred
    leader is away."""
    topics = {
        "orders": [
            partition(1, 2, leader=2, leader_epoch=4),
            partition(3, 2, isr=[], leader=None, elr=[3], leader_epoch=7),
            partition(2, 1),
            partition(3, 1, isr=[1]),
        ]
    }
    return image_with(broker(1), broker(2), broker(3, state=FENCED), topics=topics)


@virtual
async def test_preferred_leaders_are_elected_where_listed() -> None:
    world = World(away())
    listed = [partition_of(number, "orders") for number in (0, 2, 3)]
    request = pb.ElectLeadersRequest(
        kind=pb.ElectLeadersRequest.PREFERRED, partitions=[*listed, partition_of(9, "orders"), partition_of(0, "x")]
    )
    results = (await world.ask(request)).results
    assert errors(results) == [
        None, "ELECTION_NOT_NEEDED", "PREFERRED_LEADER_NOT_AVAILABLE", "UNKNOWN_PARTITION", "UNKNOWN_TOPIC",
    ]  # fmt: skip
    assert results[0].partition == partition_of(0, "orders", 1)
    assert (results[0].leader, results[0].leader_epoch) == (1, 5)
    assert (results[1].leader, results[2].leader) == (2, 1)
    assert not results[3].HasField("leader")
    assert world.image.topics[topic_id(1)].partitions[0].leader == 1


@virtual
async def test_preferred_leaders_are_elected_wherever_that_is_needed() -> None:
    world = World(away())
    request = pb.ElectLeadersRequest(kind=pb.ElectLeadersRequest.PREFERRED, all_partitions=True)
    results = (await world.ask(request)).results
    assert {(result.partition.partition, error_name(result)) for result in results} == {
        (0, None), (1, "PREFERRED_LEADER_NOT_AVAILABLE"), (3, "PREFERRED_LEADER_NOT_AVAILABLE"),
    }  # fmt: skip
    by_number = {result.partition.partition: result for result in results}
    assert (by_number[0].leader, by_number[0].leader_epoch) == (1, 5)
    assert not by_number[1].HasField("leader")


@virtual
async def test_an_unclean_election_takes_the_longest_log_that_brokers_told_of() -> None:
    world = World(away())
    request = pb.ElectLeadersRequest(kind=pb.ElectLeadersRequest.UNCLEAN, partitions=[partition_of(1, "orders")])
    assert errors((await world.ask(request)).results) == ["ELIGIBLE_LEADER_NOT_AVAILABLE"]
    world.log_ends = {(topic_id(1), 1): {BrokerId(2): LogEnd(epoch_of(2), LeaderEpoch(6), 100)}}
    (result,) = (await world.ask(request)).results
    assert (error_name(result), result.leader, result.leader_epoch) == (None, 2, 8)
    assert world.image.topics[topic_id(1)].partitions[1].unclean_epoch == 8


@virtual
async def test_one_election_after_the_other_until_all_that_needed_one_had_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many fit in one operation."""
    monkeypatch.setattr("lograft.metadata.each_partition.MAX_PARTS_IN_ONE_OPERATION", 6)
    topics = {"orders": [partition(1, 2, leader=2) for _ in range(11)]}
    world = World(image_with(*brokers(2), topics=topics))
    request = pb.ElectLeadersRequest(kind=pb.ElectLeadersRequest.PREFERRED, all_partitions=True)
    results = (await world.ask(request)).results
    assert sorted(result.partition.partition for result in results) == list(range(11))
    assert {(result.leader, error_name(result)) for result in results} == {(1, None)}
    assert len(world.controller.operations) == 6


@virtual
async def test_elections_that_are_half_done_when_the_controller_moves_are_not_said_to_be_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lograft.metadata.each_partition.MAX_PARTS_IN_ONE_OPERATION", 6)
    topics = {"orders": [partition(1, 2, leader=2) for _ in range(11)]}
    world = World(image_with(*brokers(2), topics=topics))
    world.controller.fates[1] = ControllerError(errors_pb2.NOT_CONTROLLER, "node 2 is", leader_id=2)
    request = pb.ElectLeadersRequest(kind=pb.ElectLeadersRequest.PREFERRED, all_partitions=True)
    assert (await world.refused(request)).code == errors_pb2.CONTROLLER_MOVED


@pytest.mark.parametrize(
    "fields",
    [
        {"all_partitions": True},
        {"kind": 9, "all_partitions": True},
        {"kind": pb.ElectLeadersRequest.PREFERRED},
        {"kind": pb.ElectLeadersRequest.PREFERRED, "all_partitions": True, "partitions": [partition_of(0, "orders")]},
    ],
)
@virtual
async def test_an_election_that_is_not_clear_is_refused(fields: dict[str, Any]) -> None:
    world = World(away())
    assert (await world.refused(pb.ElectLeadersRequest(**fields))).code == errors_pb2.INVALID_REQUEST
    assert world.is_unchanged


# -- brokers


@virtual
async def test_a_broker_is_forgotten() -> None:
    world = World(image_with(broker(1), broker(2, state=FENCED)))
    assert (await world.refused(pb.UnregisterBrokerRequest(broker_id=1))).code == errors_pb2.BROKER_IN_USE
    assert (await world.refused(pb.UnregisterBrokerRequest(broker_id=-1))).code == errors_pb2.UNKNOWN_BROKER
    assert world.is_unchanged
    await world.ask(pb.UnregisterBrokerRequest(broker_id=2))
    assert list(world.image.brokers) == [1]


# -- only to see


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            pb.CreateTopicsRequest(topics=[new("a", 8), new("a", 9), new("orders")]),
            [None] + 2 * ["TOPIC_ALREADY_EXISTS"],
        ),
        (pb.DeleteTopicsRequest(topics=[reference("orders"), reference("orders")]), [None, "UNKNOWN_TOPIC"]),
        (
            pb.CreatePartitionsRequest(
                items=[
                    pb.CreatePartitionsRequest.Item(topic=reference("orders"), total=5),
                    pb.CreatePartitionsRequest.Item(topic=reference("orders"), total=4),
                ]
            ),
            [None, "INVALID_PARTITIONS"],
        ),
        (
            pb.AlterConfigsRequest(
                items=[
                    altering(resource(name="orders"), ("retention.ms", "1")),
                    altering(resource(name="orders"), ("retention.ms", "x")),
                ]
            ),
            [None, "INVALID_CONFIG"],
        ),
        (
            pb.AlterReassignmentsRequest(
                items=[moving(partition_of(0, "orders"), 1), moving(partition_of(0, "bills"), cancel=True)]
            ),
            [None, "NO_REASSIGNMENT"],
        ),
    ],
)
@virtual
async def test_what_is_only_to_be_seen_changes_nothing_and_is_answered_as_if_it_had(
    request_: Any, expected: list[str | None]
) -> None:
    world = World(orders())
    seen_only = type(request_)()
    seen_only.CopyFrom(request_)
    seen_only.validate_only = True
    seen = await world.ask(seen_only)
    assert errors(seen.results) == expected
    assert world.is_unchanged
    assert world.controller.operations == []
    done = await world.ask(request_)
    assert done == seen
    assert not world.is_unchanged


@virtual
async def test_what_is_only_to_be_seen_is_based_on_what_is_committed() -> None:
    """Not on what this node, which was the controller yesterday, happens to know."""
    world = World(orders())
    world.controller.fates = {
        number: ControllerError(errors_pb2.NOT_CONTROLLER, "node 3 is", leader_id=3) for number in range(10)
    }
    for request in (
        pb.CreateTopicsRequest(topics=[new("a")], validate_only=True),
        pb.AlterReassignmentsRequest(items=[moving(partition_of(0, "orders"), 1)], validate_only=True),
        pb.ListReassignmentsRequest(),
        pb.DescribeConfigsRequest(items=[pb.DescribeConfigsRequest.Item(resource=resource(name="orders"))]),
    ):
        assert (await world.refused(request)).code == errors_pb2.NOT_CONTROLLER


# -- what concerns all items


def many(count: int) -> pb.CreateTopicsRequest:
    return pb.CreateTopicsRequest(topics=[new(f"t{number}", 100 + number) for number in range(count)])


@virtual
async def test_items_go_to_the_quorum_together_but_not_all_at_once() -> None:
    world = World()
    response = await world.ask(many(500))
    assert errors(response.results) == [None] * 500
    assert [result.name for result in response.results] == [f"t{number}" for number in range(500)]
    assert world.controller.most_in_flight == MAX_IN_FLIGHT_OF_REQUEST
    created = [operation.records[0] for operation in world.controller.operations]
    assert [record.name for record in created] == [f"t{number}" for number in range(500)]  # type: ignore[union-attr]


@virtual
async def test_all_requests_together_leave_room_for_others() -> None:
    world = World()

    async def create(first: int) -> None:
        topics = [new(f"t{number}", 1000 + number) for number in range(first, first + 100)]
        assert errors((await world.ask(pb.CreateTopicsRequest(topics=topics))).results) == [None] * 100

    await world.ask(many(1))  # connects
    async with asyncio.TaskGroup() as group:
        for each in range(10):
            group.create_task(create(1000 * (each + 1)))
    assert world.controller.most_in_flight == MAX_IN_FLIGHT


NOT_CONTROLLER = ControllerError(errors_pb2.NOT_CONTROLLER, "node 2 is", leader_id=2)
UNAVAILABLE = ControllerError(errors_pb2.UNAVAILABLE, "later")
MOVED = ControllerError(errors_pb2.CONTROLLER_MOVED, "who knows")


@pytest.mark.parametrize(
    ("fates", "code"),
    [
        ({0: NOT_CONTROLLER, 1: NOT_CONTROLLER, 2: NOT_CONTROLLER}, errors_pb2.NOT_CONTROLLER),
        ({0: UNAVAILABLE, 1: UNAVAILABLE, 2: UNAVAILABLE}, errors_pb2.UNAVAILABLE),
        ({0: NOT_CONTROLLER, 1: MOVED, 2: NOT_CONTROLLER}, errors_pb2.CONTROLLER_MOVED),
        # One was carried out: it would be wrong to say that nothing was done.
        ({1: NOT_CONTROLLER, 2: NOT_CONTROLLER}, errors_pb2.CONTROLLER_MOVED),
        ({2: UNAVAILABLE}, errors_pb2.CONTROLLER_MOVED),
    ],
)
@virtual
async def test_what_concerns_all_items_fails_the_call(fates: dict[int, ControllerError], code: int) -> None:
    world = World()
    world.controller.fates = fates
    error = await world.refused(many(3))
    assert error.code == code


@virtual
async def test_what_changed_nothing_does_not_make_a_failure_uncertain() -> None:
    world = World(orders())
    world.controller.fates = {2: NOT_CONTROLLER}
    request = pb.CreateTopicsRequest(topics=[new("orders", 1), new("bills", 9), new("c", 10)])
    assert (await world.refused(request)).code == errors_pb2.NOT_CONTROLLER
    world.controller.asked = 0
    items = [pb.DescribeConfigsRequest.Item(resource=resource(name="orders"))] * 3
    assert (await world.refused(pb.DescribeConfigsRequest(items=items))).code == errors_pb2.NOT_CONTROLLER


@virtual
async def test_after_a_failure_no_more_items_are_begun() -> None:
    world = World()
    world.controller.fates = dict.fromkeys(range(1000), NOT_CONTROLLER)
    await world.refused(many(1000))
    assert world.controller.asked == MAX_IN_FLIGHT_OF_REQUEST


@virtual
async def test_who_is_not_active_says_where_the_active_one_is() -> None:
    world = World()
    world.controller.fates = {0: NOT_CONTROLLER}
    await world.runtime.network.serve("controller:2", world.service.handlers(), lambda error: None)
    stream = (await world.network.host("client").connect("controller:2")).open(methods.CREATE_TOPICS)
    await stream.send(many(1).SerializeToString())
    await stream.half_close()
    with pytest.raises(StreamError) as caught:
        await stream.receive()
    detail = read_detail(caught.value)
    assert detail is not None
    assert (detail.code, detail.leader_id, detail.leader_address, detail.retriable) == (
        errors_pb2.NOT_CONTROLLER, 2, "c2:9093", True,
    )  # fmt: skip


# -- time and size


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(0, 30), (1500, 1.5), (300_000, 300)])
@virtual
async def test_a_call_ends_when_its_time_is_over(timeout_ms: int, seconds: float) -> None:
    world = World()
    world.controller.is_stuck = True
    loop = asyncio.get_running_loop()
    began = loop.time()
    request = many(3)
    request.timeout_ms = timeout_ms
    error = await world.refused(request)
    assert error.code == errors_pb2.TIMED_OUT
    assert error.outcome_unknown
    assert seconds <= loop.time() - began < seconds + 0.1
    assert world.controller.in_flight == 0


@pytest.mark.parametrize("timeout_ms", [-1, 300_001])
@virtual
async def test_a_timeout_that_makes_no_sense_is_refused(timeout_ms: int) -> None:
    world = World()
    request = many(1)
    request.timeout_ms = timeout_ms
    assert (await world.refused(request)).code == errors_pb2.INVALID_REQUEST
    assert world.is_unchanged


@pytest.mark.parametrize(
    "request_",
    [
        pb.CreateTopicsRequest(topics=[new("a")] * 10_001),
        pb.DeleteTopicsRequest(topics=[reference("a")] * 10_001),
        pb.CreatePartitionsRequest(items=[pb.CreatePartitionsRequest.Item()] * 10_001),
        pb.DescribeConfigsRequest(items=[pb.DescribeConfigsRequest.Item()] * 10_001),
        pb.AlterConfigsRequest(items=[altering(resource())] * 10_001),
        pb.AlterReassignmentsRequest(items=[moving(partition_of(0, "a"))] * 10_001),
        pb.ListReassignmentsRequest(topics=[reference("a")] * 10_001),
        pb.ElectLeadersRequest(kind=pb.ElectLeadersRequest.UNCLEAN, partitions=[partition_of(0, "a")] * 10_001),
    ],
    ids=lambda request: type(request).__name__,
)
@virtual
async def test_too_many_items_are_refused(request_: Any) -> None:
    world = World()
    error = await world.refused(request_)
    assert error.code == errors_pb2.INVALID_REQUEST
    assert "10000" in error.message
    assert world.controller.asked == 0


@virtual
async def test_no_items_are_no_error() -> None:
    assert list((await World().ask(pb.CreateTopicsRequest())).results) == []


# -- bugs


@virtual
async def test_a_decision_that_fails_by_a_bug_is_refused_and_the_node_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the same request would kill one controller after the other."""

    def fail(*arguments: Any) -> Any:
        raise AssertionError("a bug")

    world = World(orders())
    monkeypatch.setattr(admin_service, "decide_delete", fail)
    for validate_only in (False, True):
        request = pb.DeleteTopicsRequest(topics=[reference("orders")], validate_only=validate_only)
        results = (await world.ask(request)).results
        assert errors(results) == ["INTERNAL"]
        assert not results[0].error.retriable
    assert errors((await world.ask(many(1))).results) == [None]


# -- on a real quorum


@virtual
async def test_topics_are_created_through_a_quorum_and_standbys_say_where_to_go() -> None:
    cluster = MetadataCluster(3)
    await cluster.initialise([1, 2, 3])
    for host in cluster.hosts.values():
        await host.start()
    leader = cluster[(await cluster.leader()).node_id]
    for each in brokers(3):
        await leader.controller.submit(_registering(each))
    world = World(controller=leader.controller)
    assert errors((await world.ask(many(100))).results) == [None] * 100
    standby = next(host for host in cluster.living if host is not leader)
    error = await World(controller=cluster[standby.node_id].controller).refused(many(1))
    assert (error.code, error.leader_id) == (errors_pb2.NOT_CONTROLLER, leader.node_id)
    for host in cluster.living:
        await host.stop()


def _registering(registered: Any) -> Decide[None]:
    return lambda image: Decision((BrokerRegistered(registered),), None)
