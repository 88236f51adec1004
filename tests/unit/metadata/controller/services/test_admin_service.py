"""What administrators ask of a controller: each item has its result, and what concerns all fails the call."""

import asyncio
from typing import Any

import pytest
from support.metadata_images import brokers
from support.metadata_quorum import MetadataCluster
from support.raft_nodes import virtual
from support.served_admin import World, altering, errors, moving, new, orders, partition_of, reference, resource

from lograft.metadata.controller.services import admin_service
from lograft.metadata.controller.services.admin_items import MAX_IN_FLIGHT, MAX_IN_FLIGHT_OF_REQUEST
from lograft.metadata.decisions.decision import Decide, Decision
from lograft.metadata.image.records import BrokerRegistered
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import read_detail
from lograft.runtime.network import StreamError

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
    assert [record.name for record in created] == [f"t{number}" for number in range(500)]


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


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(0, 29), (1500, 1.2), (300_000, 299)])
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
    for host in cluster.living:  # type: ignore[assignment]
        await host.stop()


def _registering(registered: Any) -> Decide[None]:
    return lambda image: Decision((BrokerRegistered(registered),), None)
