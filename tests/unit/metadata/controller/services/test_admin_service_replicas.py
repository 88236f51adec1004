"""Where replicas are and which of them leads, as an administrator asks for it; and brokers that are forgotten."""

from typing import Any

import pytest
from support.metadata_images import FENCED, broker, brokers, epoch_of, ids, image_with, partition, topic_id
from support.raft_nodes import virtual
from support.served_admin import World, error_name, errors, moving, orders, partition_of, reference

from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, LeaderEpoch
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

# -- reassignments


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
    monkeypatch.setattr("lograft.metadata.decisions.bulk_change.MAX_PARTS_IN_ONE_OPERATION", 6)
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
    monkeypatch.setattr("lograft.metadata.decisions.bulk_change.MAX_PARTS_IN_ONE_OPERATION", 6)
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
