"""What a client knows of the cluster: told late and by many, it never goes back."""

from collections.abc import Sequence

import pytest

from lograft.clients.cluster.cluster_view import ClusterView, Leader
from lograft.clients.errors import WrongCluster
from lograft.proto import cluster_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail

A, B = b"a" * 16, b"b" * 16
BOTH = ("orders", "bills")


def topic(name: str, topic_id: bytes, leaders: Sequence[tuple[int | None, int]]) -> pb.Topic:
    """Leaders as (broker, epoch)."""
    partitions = [
        pb.Partition(number=number, leader=leader, leader_epoch=epoch) for number, (leader, epoch) in enumerate(leaders)
    ]
    return pb.Topic(id=topic_id, name=name, partitions=partitions)


def unknown(name: str) -> pb.Topic:
    return pb.Topic(name=name, error=ErrorDetail(message="no such topic"))


def description(index: int, *topics: pb.Topic, brokers: Sequence[int] = (1, 2)) -> pb.ClusterDescription:
    known = [pb.Broker(id=number, address=f"b{number}:1") for number in brokers]
    return pb.ClusterDescription(metadata_index=index, brokers=known, topics=topics)


def view_of(index: int, *topics: pb.Topic) -> ClusterView:
    view = ClusterView()
    view.take_description(description(index, *topics), BOTH)
    return view


def test_a_description_tells_brokers_topics_and_leaders() -> None:
    view = view_of(5, topic("orders", A, [(1, 3), (None, 4)]))
    assert view.index == 5
    assert view.addresses == {1: "b1:1", 2: "b2:1"}
    known = view.topic("orders")
    assert known is not None
    assert (known.id, known.partition_count) == (A, 2)
    assert [view.leader(A, number) for number in range(3)] == [Leader(1, 3), Leader(None, 4), None]
    assert view.leader(B, 0) is None


def test_an_older_description_changes_nothing() -> None:
    view = view_of(5, topic("orders", A, [(1, 3)]))
    view.take_description(description(4, brokers=[9]), BOTH)
    assert view.topic("orders") is not None
    assert 9 not in view.addresses


def test_a_newer_description_takes_the_place_of_all() -> None:
    view = view_of(5, topic("orders", A, [(1, 3)]))
    view.take_description(description(6, topic("bills", B, [(2, 0)]), brokers=[2]), BOTH)
    assert view.topic("orders") is None
    assert view.topic_of_id(A) is None
    assert view.leader(B, 0) == Leader(2, 0)
    assert view.addresses == {2: "b2:1"}


def test_changes_add_to_what_is_known() -> None:
    view = view_of(5, topic("orders", A, [(1, 3)]))
    changed = pb.Topic(id=A, name="orders", partitions=[pb.Partition(number=1, leader=2, leader_epoch=0)])
    moved = pb.Broker(id=1, address="elsewhere:1")
    view.take_change(pb.ClusterChange(metadata_index=6, topics=[changed], brokers=[moved], removed_brokers=[2]), BOTH)
    assert [view.leader(A, 0), view.leader(A, 1)] == [Leader(1, 3), Leader(2, 0)]
    assert view.addresses == {1: "elsewhere:1"}
    view.take_change(pb.ClusterChange(metadata_index=7, deleted_topics=[A, B]), BOTH)
    assert view.topic("orders") is None


def test_the_highest_leader_epoch_counts_whoever_tells_it() -> None:
    view = view_of(5, topic("orders", A, [(1, 3)]))
    assert view.take_hint(A, 0, leader_id=3, epoch=5, address="b3:1")
    assert view.leader(A, 0) == Leader(3, 5)
    assert view.addresses[3] == "b3:1"
    assert not view.take_hint(A, 0, leader_id=1, epoch=5, address=None), "no news"
    assert not view.take_hint(B, 0, leader_id=1, epoch=9, address=None), "not known"
    view.take_change(pb.ClusterChange(metadata_index=6, topics=[topic("orders", A, [(2, 4)])]), BOTH)
    assert view.leader(A, 0) == Leader(3, 5)
    view.take_change(pb.ClusterChange(metadata_index=7, topics=[topic("orders", A, [(None, 6)])]), BOTH)
    assert view.leader(A, 0) == Leader(None, 6)


def test_a_topic_created_anew_is_another() -> None:
    view = view_of(5, topic("orders", A, [(1, 3)]))
    view.take_change(pb.ClusterChange(metadata_index=6, topics=[topic("orders", B, [(2, 0)])]), BOTH)
    assert view.leader(A, 0) is None
    assert view.leader(B, 0) == Leader(2, 0)
    view.take_some(description(5, topic("orders", A, [(1, 3)])))
    known = view.topic("orders")
    assert known is not None
    assert known.id == B, "one who is behind tells of the old one"


def test_what_was_learnt_of_one_topic_is_not_undone_by_an_older_word_of_all() -> None:
    view = view_of(5)
    view.take_some(description(9, topic("orders", A, [(1, 0)])))
    view.take_description(description(7, unknown("orders")), BOTH)
    assert view.topic("orders") is not None
    view.take_some(description(12, unknown("orders")))
    assert view.topic("orders") is None


def test_changes_of_a_topic_since_it_was_learnt_of_are_asked_for_again() -> None:
    """All is known up to 9, but of this topic only up to 7: who goes on from there misses nothing."""
    view = view_of(9)
    view.take_some(description(7, topic("orders", A, [(1, 0)])))
    assert view.index == 7
    fresh = ClusterView()
    fresh.take_some(description(7, topic("orders", A, [(1, 0)])))
    assert fresh.index == 7


def test_who_was_not_asked_about_a_topic_says_nothing_of_it() -> None:
    view = view_of(5, topic("orders", A, [(1, 3)]), topic("bills", B, [(2, 0)]))
    view.take_description(description(6, topic("orders", A, [(1, 3)])), ["orders"])
    assert view.leader(B, 0) == Leader(2, 0)
    assert view.index == 5, "what happened to bills since then was not told"
    view.take_change(pb.ClusterChange(metadata_index=7, topics=[topic("orders", A, [(2, 4)])]), ["orders"])
    assert view.leader(A, 0) == Leader(2, 4)
    assert view.index == 5
    view.take_change(pb.ClusterChange(metadata_index=7), BOTH)
    assert view.index == 7


def test_what_is_told_late_brings_nothing_back() -> None:
    view = view_of(5, topic("orders", A, [(1, 3)]), topic("bills", B, [(2, 0)]))
    view.take_change(pb.ClusterChange(metadata_index=8, deleted_topics=[B], removed_brokers=[2]), BOTH)
    late = [topic("bills", B, [(1, 1)]), topic("orders", A, [(2, 4)])]
    view.take_change(pb.ClusterChange(metadata_index=7, topics=late, brokers=[pb.Broker(id=2, address="b2:1")]), BOTH)
    assert view.topic("bills") is None
    assert view.addresses == {1: "b1:1"}
    assert view.leader(A, 0) == Leader(2, 4), "a higher epoch counts, whoever tells it"


def test_what_another_cluster_says_is_not_taken() -> None:
    """It took the first one's place at its addresses; its log may have come further, or not."""
    first = description(5, topic("orders", A, [(1, 3)]))
    first.cluster_id = "first"
    view = ClusterView()
    view.take_description(first, BOTH)
    for index in (4, 6):
        other = description(index, topic("orders", B, [(2, 0)]), brokers=[9])
        other.cluster_id = "second"
        for take in (view.take_some, view.take_brokers, lambda told: view.take_description(told, BOTH)):
            with pytest.raises(WrongCluster, match="'second' in place of 'first': make a new client"):
                take(other)
        with pytest.raises(WrongCluster):
            view.take_change(pb.ClusterChange(metadata_index=index, description=other), BOTH)
    assert view.index == 5
    assert view.addresses == {1: "b1:1", 2: "b2:1"}
    assert view.leader(A, 0) == Leader(1, 3)
