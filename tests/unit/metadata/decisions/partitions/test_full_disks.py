"""Full disks: leaders leave them, leadership does not go back to them, and nothing new is placed on them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.metadata_images import (
    FENCED,
    SHUTTING_DOWN,
    apply,
    broker,
    brokers,
    directory,
    epoch_of,
    ids,
    image_with,
    partition,
    replica,
    topic_id,
)

from lograft.metadata.decisions.partitions.elect_leaders import elect_preferred, rebalance_leaders
from lograft.metadata.decisions.partitions.full_disks import leave_full_disks
from lograft.metadata.decisions.partitions.reassignment import Reassignment, reassign
from lograft.metadata.decisions.topics.add_partitions import AddPartitions, add_partitions
from lograft.metadata.decisions.topics.create_topic import CreateTopic, create_topic
from lograft.metadata.decisions.topics.disk_room import DiskRoom
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS, create_internal_topic
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

TOPIC = topic_id(1)
LED = partition(1, 2, 3, leader_epoch=4, partition_epoch=7)


def full(*broker_ids: int, critical: tuple[int, ...] = (), number: int = 0) -> DiskRoom:
    """The directory of that number is full on each of these brokers, and on those that are `critical`."""
    at = {replica(broker_id, number): False for broker_id in broker_ids}
    return DiskRoom({**at, **{replica(broker_id, number): True for broker_id in critical}})


def cluster(*partitions: Partition, name: str = "orders", **config: str) -> ClusterImage:
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return image_with(*brokers(4), topics={name: partitions}, topic_configs={name: keys})


def first(image: ClusterImage) -> Partition:
    return image.topics[TOPIC].partitions[0]


# -- leaders leave


@pytest.mark.parametrize(
    ("what", "before", "room", "leader"),
    [
        ("room everywhere", LED, full(), 1),
        ("a follower is full", LED, full(2), 1),
        ("the leader is full", LED, full(1), 2),
        ("so is the next", partition(1, 2, 3, 4), full(1, 2), 1),
        ("so is the next, and two can take records", LED, full(1, 3), 1),
        ("so is the next of four in sync, and three are needed", partition(1, 2, 3, 4), full(1), 2),
        ("too few others are in sync", partition(1, 2, 3, isr=[1, 2]), full(1), 1),
        ("enough others are in sync", partition(1, 2, 3, 4, isr=[1, 2, 3]), full(1), 1),
        ("all are full", LED, full(1, 2, 3), 1),
        ("the only replica", partition(1), full(1), 1),
        ("another directory of the leader is full", LED, full(1, number=1), 1),
        ("one that is not in sync has room", partition(1, 2, 3, 4, isr=[1, 2]), full(1, 2), 1),
        ("a reassignment will remove the next", partition(1, 2, 3, 4, target=[1, 4, 3], adding=[4]), full(1), 4),
        ("there is no leader", partition(1, 2, 3, isr=[], leader=None, elr=[1]), full(1), None),
    ],
)
def test_leadership_goes_to_a_replica_in_sync_that_has_room(
    what: str, before: Partition, room: DiskRoom, leader: int | None
) -> None:
    image = cluster(before)
    decision = leave_full_disks(image, room)
    after = first(apply(image, decision))
    assert after.leader == leader, what
    is_moved = leader != before.leader
    assert decision.answer == len(decision.records) == is_moved
    assert (after.leader_epoch, after.partition_epoch) == (
        before.leader_epoch + is_moved, before.partition_epoch + is_moved,
    )  # fmt: skip
    assert (after.isr, after.elr, after.replicas) == (before.isr, before.elr, before.replicas)


def test_the_minimum_decides_how_many_others_must_have_room() -> None:
    for minimum, leader in (("1", 2), ("2", 1)):
        image = cluster(partition(1, 2), min_insync_replicas=minimum)
        assert first(apply(image, leave_full_disks(image, full(1)))).leader == leader


def test_leadership_does_not_go_to_who_is_about_to_leave() -> None:
    going = broker(2, state=SHUTTING_DOWN)
    image = image_with(
        broker(1), going, broker(3), broker(4), topics={"orders": [partition(1, 2, 3, 4, isr=[1, 2, 3])]}
    )
    assert leave_full_disks(image, full(1)).records == (), "only one that stays has room, and three are needed"
    image = image_with(
        broker(1), going, broker(3), topics={"orders": [LED]}, cluster_config={"min.insync.replicas": "1"}
    )
    assert first(apply(image, leave_full_disks(image, full(1)))).leader == 3


@pytest.mark.parametrize(("room", "leader"), [(full(1), 1), (full(critical=(1,)), 2), (full(2, critical=(1,)), 2)])
def test_an_internal_topic_stays_while_the_reserve_takes_its_records(room: DiskRoom, leader: int) -> None:
    image = cluster(LED, name=CONSUMER_OFFSETS)
    assert first(apply(image, leave_full_disks(image, room))).leader == leader


def test_all_that_a_broker_led_leaves_in_one_operation_and_then_there_is_nothing_left() -> None:
    image = cluster(*[replace(LED, leader=BrokerId(1 + number % 3)) for number in range(30)])
    decision = leave_full_disks(image, full(1))
    assert decision.answer == 10
    after = apply(image, decision)
    assert 1 not in {each.leader for each in after.topics[TOPIC].partitions.values()}
    assert leave_full_disks(after, full(1)).records == ()


# -- and come back


def test_leadership_does_not_go_back_before_there_is_room() -> None:
    image = cluster(partition(1, 2, 3, leader=2))
    assert rebalance_leaders(image, room=full(1)).records == ()
    (asked,) = elect_preferred(image, [(TOPIC, 0)], full(1)).answer
    assert asked.error is not None
    assert asked.error.code == errors_pb2.PREFERRED_LEADER_NOT_AVAILABLE
    assert "make room there" in asked.error.message
    for room in (full(), full(3), full(1, number=1)):
        assert first(apply(image, rebalance_leaders(image, room=room))).leader == 1
        assert first(apply(image, elect_preferred(image, [(TOPIC, 0)], room))).leader == 1


# -- what is new


def create(
    image: ClusterImage, room: DiskRoom, replicas: int = 3, partitions: int = 8, **fields: object
) -> ClusterImage:
    request = CreateTopic("orders", TOPIC, partitions, replicas, **fields)  # type: ignore[arg-type]
    return apply(image, create_topic(image, request, Rng(1), room))


def test_new_partitions_go_to_brokers_with_room() -> None:
    image = create(image_with(*brokers(4)), full(2))
    for each in image.topics[TOPIC].partitions.values():
        assert sorted(each.replica_ids) == [1, 3, 4] == sorted(each.isr)
    more = add_partitions(image, AddPartitions(TOPIC, 12), Rng(2), full(3))
    for number in range(8, 12):
        added = apply(image, more).topics[TOPIC].partitions[number]
        assert sorted(added.replica_ids) == [1, 2, 4]


def test_new_replicas_go_to_directories_with_room() -> None:
    image = create(image_with(*brokers(3, directories=2)), full(1, 2, 3))
    for each in image.topics[TOPIC].partitions.values():
        assert each.isr == each.replica_ids
        assert [one.directory_id for one in each.replicas] == [directory(one.broker_id, 1) for one in each.replicas]


def test_room_comes_before_racks() -> None:
    image = create(image_with(*brokers(4, racks=("a", "b", "c"))), full(2))
    assert {tuple(sorted(each.replica_ids)) for each in image.topics[TOPIC].partitions.values()} == {(1, 3, 4)}


def test_if_too_few_have_room_the_rest_goes_to_full_disks_and_joins_later() -> None:
    image = create(image_with(*brokers(3)), full(2))
    partitions = image.topics[TOPIC].partitions.values()
    for each in partitions:
        assert sorted(each.replica_ids) == [1, 2, 3]
        assert sorted(each.isr) == [1, 3]
        assert each.leader == each.preferred_leader == each.replica_ids[0]
    assert sorted(each.leader for each in partitions if each.leader is not None) == [1, 1, 1, 1, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("room", "fields", "said"),
    [
        (full(1, 2), {}, "1 of them have room on their disks (3), and a write needs 2"),
        (full(1, 2, 3), {"replicas": 1}, "0 of them have room on their disks (none), and a write needs 1"),
        (full(1), {"configs": {"min.insync.replicas": "3"}}, "and a write needs 3"),
        (full(1, 2), {"partitions": None, "replicas": None, "assignments": [ids(1, 2, 3)]}, "brokers 1, 2, 3"),
    ],
)
def test_a_topic_that_could_take_no_records_is_refused(room: DiskRoom, fields: Mapping[str, object], said: str) -> None:
    with pytest.raises(ControllerError) as refused:
        create(image_with(*brokers(3)), room, **fields)  # type: ignore[arg-type]
    assert refused.value.code == errors_pb2.DISK_FULL
    for part in (said, "make room", "add brokers"):
        assert part in refused.value.message


def test_so_are_more_partitions() -> None:
    image = create(image_with(*brokers(3)), full())
    with pytest.raises(ControllerError) as refused:
        add_partitions(image, AddPartitions(TOPIC, 9), Rng(1), full(1, 2))
    assert refused.value.code == errors_pb2.DISK_FULL


def test_where_an_assignment_names_full_disks_the_first_with_room_leads() -> None:
    image = create(image_with(*brokers(3)), full(1), None, None, assignments=[ids(1, 2, 3)])  # type: ignore[arg-type]
    assert (first(image).leader, first(image).isr) == (2, (2, 3))


def test_brokers_that_are_away_do_not_count_as_full() -> None:
    image = image_with(broker(1), broker(2, state=FENCED), broker(3, state=FENCED))
    image = create(image, full(2), None, None, assignments=[ids(1, 2, 3)])  # type: ignore[arg-type]
    assert first(image).isr == (1,)


@pytest.mark.parametrize("room", [full(1, 2, 3), full(critical=(1, 2, 3))])
def test_an_internal_topic_is_created_wherever_it_can_be(room: DiskRoom) -> None:
    image = image_with(*brokers(3))
    made = create_internal_topic(image, BrokerId(1), epoch_of(1), CONSUMER_OFFSETS, TOPIC, Rng(1), room)
    assert sorted(first(apply(image, made)).isr) == [1, 2, 3]


# -- reassignments


def test_a_replica_is_not_added_where_it_could_not_catch_up() -> None:
    image = cluster(LED)
    (result,) = reassign(image, [Reassignment(TOPIC, 0, ids(1, 2, 4))], full(4)).answer
    assert result.error is not None
    assert result.error.code == errors_pb2.INVALID_REASSIGNMENT
    assert "broker 4 has no data directory with room" in result.error.message
    assert "make room" in result.error.message
    for room in (full(), full(1, 2, 3), full(4, number=1)):
        assert first(apply(image, reassign(image, [Reassignment(TOPIC, 0, ids(1, 2, 4))], room))).adding == (4,)


def test_a_replica_is_added_in_the_directory_with_room() -> None:
    image = image_with(*brokers(4, directories=2), topics={"orders": [LED]})
    after = first(apply(image, reassign(image, [Reassignment(TOPIC, 0, ids(1, 2, 4))], full(4))))
    assert after.directory_of(BrokerId(4)) == directory(4, 1)
