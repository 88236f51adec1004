"""Where a reader goes: to a follower in sync in its own rack, if the leader is elsewhere."""

from collections.abc import Mapping

import pytest

from lograft.clients.cluster.cluster_view import ClusterView
from lograft.clients.consumer.reading.fetcher import intact_source, near_follower
from lograft.proto import cluster_pb2 as pb

ORDERS = b"o" * 16
RACKS = {1: "a", 2: "b", 3: "b", 4: None}


def view_of(*isrs: tuple[int, ...], leader: int | None = 1, racks: Mapping[int, str | None] = RACKS) -> ClusterView:
    view = ClusterView()
    partitions = [
        pb.Partition(number=number, leader=leader, leader_epoch=1, partition_epoch=1, isr=isr)
        for number, isr in enumerate(isrs)
    ]
    brokers = [pb.Broker(id=number, address=f"b{number}:1", rack=rack) for number, rack in racks.items()]
    topic = pb.Topic(id=ORDERS, name="orders", partitions=partitions)
    view.take_description(pb.ClusterDescription(metadata_index=1, brokers=brokers, topics=[topic]), ["orders"])
    return view


def test_a_follower_in_the_readers_rack_is_near() -> None:
    assert near_follower(view_of((1, 2)), ORDERS, 0, "b") == 2


def test_partitions_take_turns_among_several() -> None:
    view = view_of((1, 2, 3), (1, 3, 2), (1, 2, 3))
    assert [near_follower(view, ORDERS, number, "b") for number in range(3)] == [2, 3, 2]


@pytest.mark.parametrize(
    ("isr", "leader", "rack"),
    [
        pytest.param((1, 2), 1, None, id="a reader that is nowhere"),
        pytest.param((1, 2), 1, "a", id="the leader is near"),
        pytest.param((1, 4), 1, "b", id="nobody near is in sync"),
        pytest.param((1, 2, 4), 1, "c", id="nobody is near"),
        pytest.param((1, 2), None, "b", id="nobody leads"),
    ],
)
def test_else_the_leader_is_asked(isr: tuple[int, ...], leader: int | None, rack: str | None) -> None:
    assert near_follower(view_of(isr, leader=leader), ORDERS, 0, rack) is None


def test_of_a_partition_that_is_not_known_nobody_is_near() -> None:
    assert near_follower(view_of((1, 2)), ORDERS, 7, "b") is None


def test_who_is_in_sync_goes_by_partition_epoch_and_racks_change_with_brokers() -> None:
    view = view_of((1, 2))

    def tell(index: int, epoch: int, *isr: int, rack: str | None = "b") -> None:
        told = pb.Partition(number=0, leader=1, leader_epoch=1, partition_epoch=epoch, isr=isr)
        topic = pb.Topic(id=ORDERS, name="orders", partitions=[told])
        brokers = [pb.Broker(id=2, address="b2:1", rack=rack)]
        view.take_change(pb.ClusterChange(metadata_index=index, topics=[topic], brokers=brokers), ["orders"])

    tell(2, 3, 1)
    assert view.in_sync(ORDERS, 0) == (1,)
    tell(3, 2, 1, 2)
    assert view.in_sync(ORDERS, 0) == (1,), "an older epoch"
    tell(4, 4, 1, 2, rack=None)
    assert view.in_sync(ORDERS, 0) == (1, 2)
    assert near_follower(view, ORDERS, 0, "b") is None, "it is not there any more"


@pytest.mark.parametrize(("preferred", "damaged", "chosen"), [
    (None, {1: 5.0}, 2),
    (None, {2: 5.0}, None),
    (3, {2: 5.0}, 3),
    (3, {3: 5.0}, None),
    (None, {1: 5.0, 2: 6.0}, 3),
    (None, {1: 5.0, 2: 6.0, 3: 7.0}, None),
    (None, {1: 8.0, 2: 6.0, 3: 7.0}, 2),
    (3, {1: 7.0, 2: 7.0, 3: 7.0}, 3),
])  # fmt: skip
def test_damaged_records_are_asked_of_whoever_gave_none_or_longest_ago(
    preferred: int | None, damaged: dict[int, float], chosen: int | None
) -> None:
    assert intact_source(view_of((1, 2, 3)), ORDERS, 0, preferred, damaged) == chosen


def test_who_is_not_in_sync_is_not_asked_for_damaged_records() -> None:
    assert intact_source(view_of((1,)), ORDERS, 0, None, {1: 5.0}) is None
    assert intact_source(view_of((2, 3), leader=None), ORDERS, 0, None, {1: 5.0}) is None
