"""Where new replicas go: brokers, racks, leaders, directories."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.metadata_images import (
    FENCED,
    SHUTTING_DOWN,
    broker,
    brokers,
    directory,
    ids,
    image_with,
    partition,
    replica,
    topic_id,
    with_records,
)

from lograft.metadata.decisions.topics import placement
from lograft.metadata.decisions.topics.placement import DirectoryChoice, check_replica_limit, place, usable_brokers
from lograft.metadata.decisions.topics.replica_spread import Spread
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, Replica
from lograft.metadata.image.records import (
    ConfigChanged,
    ConfigResource,
    PartitionChanged,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

Placed = Sequence[tuple[Replica, ...]]

untimed = settings(deadline=None)
seeds = st.integers(0, 2**32).map(Rng)


def replica_counts(image: ClusterImage, placed: Placed) -> list[int]:
    counts = Counter(each.broker_id for replicas in placed for each in replicas)
    return [counts[broker_id] for broker_id in image.brokers]


def leader_counts(image: ClusterImage, placed: Placed) -> list[int]:
    counts = Counter(replicas[0].broker_id for replicas in placed)
    return [counts[broker_id] for broker_id in image.brokers]


def are_even(counts: Iterable[int]) -> bool:
    counts = list(counts)
    return max(counts) - min(counts) <= 1


def brokers_of(replicas: Iterable[Replica]) -> list[BrokerId]:
    return [each.broker_id for each in replicas]


def created(image: ClusterImage, number: int, placed: Placed) -> ClusterImage:
    """The image with these as a topic."""
    changes = [PartitionChanged(topic_id(number), at, partition(*each)) for at, each in enumerate(placed)]
    return with_records(image, TopicCreated(topic_id(number), f"topic-{number}"), *changes)


# -- evenly, over racks first


@untimed
@given(st.integers(1, 5), st.integers(1, 6), st.data(), seeds)
def test_replicas_and_leaders_are_even_over_brokers_in_equal_racks(
    rack_count: int, rack_size: int, data: st.DataObject, rng: Rng
) -> None:
    names = [f"rack-{number}" for number in range(rack_count)]
    image = image_with(*brokers(rack_count * rack_size, racks=names))
    replication_factor = data.draw(st.integers(1, min(6, rack_count * rack_size)))
    placed = place(image, rng, data.draw(st.integers(1, 80)), replication_factor)
    assert are_even(replica_counts(image, placed))
    assert are_even(leader_counts(image, placed))


@untimed
@given(st.sampled_from([None, "a", "ab", "abc"]), st.integers(1, 4), st.integers(1, 60), st.data(), seeds)
def test_a_topic_is_even_in_itself_whatever_else_there_is(
    racks: str | None, rack_size: int, partitions: int, data: st.DataObject, rng: Rng
) -> None:
    members = brokers(rack_size * len(racks or "a"), racks=racks or [None])
    others = data.draw(st.lists(st.lists(st.integers(1, len(members)), min_size=1, unique=True), max_size=30))
    image = image_with(*members, topics={"others": [partition(*each) for each in others]})
    placed = place(image, rng, partitions, data.draw(st.integers(1, min(5, len(members)))))
    assert are_even(replica_counts(image, placed))
    assert are_even(leader_counts(image, placed))


@untimed
@given(st.integers(1, 9), st.data(), seeds)
def test_topic_after_topic_the_cluster_stays_even(broker_count: int, data: st.DataObject, rng: Rng) -> None:
    image = image_with(*brokers(broker_count))
    shapes = st.tuples(st.integers(1, 20), st.integers(1, min(4, broker_count)))
    for number, (partitions, replication_factor) in enumerate(data.draw(st.lists(shapes, max_size=8)), start=1):
        image = created(image, number, place(image, rng, partitions, replication_factor))
        assert are_even(image.replica_count(broker_id) for broker_id in image.brokers)


@untimed
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), st.integers(1, 30), st.data(), seeds)
def test_each_partition_fills_as_many_racks_as_it_can_equally(
    racks: list[str], partitions: int, data: st.DataObject, rng: Rng
) -> None:
    image = image_with(*(broker(number, rack=rack) for number, rack in enumerate(racks, start=1)))
    sizes = Counter(racks)
    for replicas in place(image, rng, partitions, data.draw(st.integers(1, len(racks)))):
        assert len(set(brokers_of(replicas))) == len(replicas)
        filled = Counter(image.brokers[broker_id].rack for broker_id in brokers_of(replicas))
        assert len(filled) == min(len(sizes), len(replicas))
        most = max(filled.values())
        assert all(filled[rack] >= most - 1 or filled[rack] == size for rack, size in sizes.items())


def test_racks_of_different_size_are_filled_by_their_size() -> None:
    image = image_with(*(broker(number, rack="big" if number <= 6 else "small") for number in range(1, 9)))
    placed = place(image, Rng(1), 80, 1)
    assert replica_counts(image, placed) == [10] * 8


def test_racks_are_not_heeded_if_one_broker_has_none() -> None:
    # Would the two without one count as a rack of their own, each partition had a replica there.
    image = image_with(*brokers(4, racks="a"), broker(5), broker(6))
    placed = place(image, Rng(1), 300, 2)
    assert are_even(replica_counts(image, placed))
    assert any(max(brokers_of(replicas)) <= 4 for replicas in placed)


def test_racks_are_heeded_if_only_a_fenced_broker_has_none() -> None:
    image = image_with(*brokers(4, racks="aaab"), broker(5, state=FENCED))
    assert all(BrokerId(4) in brokers_of(replicas) for replicas in place(image, Rng(1), 10, 2))


def test_a_topic_of_one_partition_goes_to_the_brokers_with_the_fewest_replicas() -> None:
    image = image_with(*brokers(5), topics={"others": [partition(1, 2), partition(2, 4), partition(4, 1)]})
    for seed in range(10):
        (replicas,) = place(image, Rng(seed), 1, 2)
        assert sorted(brokers_of(replicas)) == [3, 5]


def test_who_leads_the_fewest_partitions_is_to_lead() -> None:
    image = image_with(*brokers(3), topics={"others": [partition(1, 2, 3), partition(3, 1, 2)]})
    for seed in range(10):
        (replicas,) = place(image, Rng(seed), 1, 3)
        assert replicas[0].broker_id == 2


def test_a_new_broker_is_not_given_the_whole_of_the_next_topic() -> None:
    image = image_with(*brokers(4), topics={"others": [partition(1, 2, 3) for _ in range(100)]})
    placed = place(image, Rng(1), 12, 1)
    assert replica_counts(image, placed) == [3, 3, 3, 3]


def test_more_partitions_of_a_topic_go_where_it_has_the_fewest() -> None:
    existing = [partition(1), partition(2), partition(3), partition(1), partition(2), partition(3)]
    image = image_with(*brokers(4), topics={"orders": existing, "others": [partition(4) for _ in range(50)]})
    placed = place(image, Rng(1), 2, 1, existing)
    assert [brokers_of(replicas) for replicas in placed] == [[4], [4]]


def test_a_topic_under_reassignment_is_counted_as_it_will_be() -> None:
    existing = [partition(1, 2, target=[2], adding=[2]) for _ in range(3)]
    image = image_with(*brokers(2), topics={"orders": existing})
    assert brokers_of(place(image, Rng(1), 1, 1, existing)[0]) == [1]


def test_leaders_of_more_partitions_make_up_for_those_that_the_topic_has() -> None:
    existing = [partition(1, 2, 3), partition(1, 3, 2), partition(2, 1, 3)]
    image = image_with(*brokers(3), topics={"orders": existing})
    placed = place(image, Rng(1), 3, 3, existing)
    assert leader_counts(image, placed) == [0, 1, 2]


def test_the_partitions_of_one_broker_have_their_next_leaders_on_all_others() -> None:
    image = image_with(*brokers(6))
    placed = place(image, Rng(1), 120, 3)
    next_leaders = Counter(replicas[1].broker_id for replicas in placed if replicas[0].broker_id == 1)
    assert sorted(next_leaders) == [2, 3, 4, 5, 6]


@untimed
@given(st.integers(0, 2**32))
def test_the_same_dice_place_alike_whatever_order_brokers_came_in(seed: int) -> None:
    members = brokers(6, racks="abc")
    there = place(image_with(*members), Rng(seed), 10, 3)
    again = place(image_with(*reversed(members)), Rng(seed), 10, 3)
    assert there == again


def test_other_dice_place_otherwise() -> None:
    image = image_with(*brokers(6))
    assert len({tuple(place(image, Rng(seed), 6, 3)) for seed in range(5)}) == 5


# -- which brokers


def test_only_active_brokers_with_directories_are_given_replicas() -> None:
    image = image_with(
        broker(1), broker(2, state=FENCED), broker(3, state=SHUTTING_DOWN), broker(4, directories=0), broker(5)
    )
    assert [each.broker_id for each in usable_brokers(image)] == [1, 5]
    assert replica_counts(image, place(image, Rng(1), 10, 2)) == [10, 0, 0, 0, 10]


def test_more_replicas_than_live_brokers_are_refused_with_their_number() -> None:
    image = image_with(broker(1), broker(2, state=FENCED), broker(3, state=SHUTTING_DOWN))
    with pytest.raises(
        ControllerError, match=r"2 replicas .* there are 1 of 3 registered: start more brokers"
    ) as refused:
        place(image, Rng(1), 1, 2)
    assert refused.value.code == errors_pb2.NOT_ENOUGH_BROKERS
    assert refused.value.retriable


def test_no_broker_gets_more_replicas_than_a_broker_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MAX_REPLICAS_PER_BROKER", 5)
    image = image_with(*brokers(3), topics={"others": [partition(1, 2, 3), partition(1, 2), partition(1, 2)]})
    place(image, Rng(1), 2, 3)
    with pytest.raises(
        ControllerError, match=r"broker [12] would have 6 replicas, .* more than 5: .* add brokers"
    ) as refused:
        place(image, Rng(1), 3, 3)
    assert refused.value.code == errors_pb2.INVALID_REPLICAS


def test_full_brokers_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MAX_REPLICAS_PER_BROKER", 2)
    image = image_with(*brokers(3), topics={"others": [partition(1), partition(1)]})
    assert replica_counts(image, place(image, Rng(1), 2, 2)) == [0, 2, 2]
    with pytest.raises(ControllerError, match=r"of 3 live brokers all but 2 have 2 replicas") as refused:
        place(image, Rng(1), 1, 3)
    assert refused.value.code == errors_pb2.INVALID_REPLICAS


def test_the_limit_is_checked_for_what_is_added_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MAX_REPLICAS_PER_BROKER", 3)
    image = image_with(*brokers(2), topics={"others": [partition(1)]})
    check_replica_limit(image, ids(1, 2, 1, 2, 2))
    with pytest.raises(ControllerError, match="broker 1 would have 4 replicas"):
        check_replica_limit(image, ids(1, 2, 1, 1))


# -- one more replica for a partition that has some


@untimed
@given(st.integers(2, 10), st.data(), seeds)
def test_what_is_chosen_beside_kept_replicas_is_none_of_them(broker_count: int, data: st.DataObject, rng: Rng) -> None:
    image = image_with(*brokers(broker_count))
    spread = Spread(image, usable_brokers(image), rng)
    for _ in range(5):
        kept = ids(*data.draw(st.lists(st.integers(1, broker_count), unique=True, max_size=broker_count - 1)))
        chosen = spread.choose(data.draw(st.integers(1, broker_count - len(kept))), kept)
        assert len({*kept, *chosen}) == len(kept) + len(chosen)


@pytest.mark.parametrize("away", [broker(2, rack="b", state=FENCED), broker(2, rack="b")], ids=["fenced", "live"])
def test_what_is_chosen_beside_kept_replicas_is_in_another_rack(away: Broker) -> None:
    image = image_with(broker(1, rack="a"), away, *(broker(number, rack="abc"[number % 3]) for number in range(3, 9)))
    for seed in range(10):
        (chosen,) = Spread(image, usable_brokers(image), Rng(seed)).choose(1, ids(1, 2))
        assert image.brokers[chosen].rack == "c"


def test_kept_replicas_do_not_unbalance_what_is_chosen() -> None:
    image = image_with(*brokers(4))
    spread = Spread(image, usable_brokers(image), Rng(1))
    chosen = Counter(spread.choose(1, ids(1))[0] for _ in range(30))
    assert chosen == {BrokerId(2): 10, BrokerId(3): 10, BrokerId(4): 10}


# -- directories


def test_replicas_fill_the_directories_of_a_broker_equally_with_those_that_are_there() -> None:
    existing = [partition(replica(1, 0)), partition(replica(1, 0)), partition(replica(1, 2))]
    image = image_with(broker(1, directories=3), topics={"others": existing})
    placed = place(image, Rng(1), 6, 1)
    chosen = Counter(replicas[0].directory_id for replicas in placed)
    assert chosen == {directory(1, 0): 1, directory(1, 1): 3, directory(1, 2): 2}


def test_only_directories_of_the_latest_registration_are_chosen() -> None:
    image = image_with(
        broker(1, directories=[directory(1, 7)]),
        topics={"others": [partition(replica(1, 7)), partition(replica(1, 0))]},
    )
    assert DirectoryChoice(image).replica_on(BrokerId(1)) == replica(1, 7)


def test_the_image_counts_the_replicas_in_each_directory() -> None:
    image = image_with(broker(1, directories=2), broker(2), topics={"orders": [partition(1, 2), partition(1)]})

    def counts(image: ClusterImage) -> list[int]:
        return [image.replicas_in(BrokerId(at), directory(at, number)) for at, number in [(1, 0), (1, 1), (2, 0)]]

    moved = with_records(image, PartitionChanged(topic_id(1), 0, moved_to(replica(1, 1), replica(2))))
    shrunk = with_records(moved, PartitionChanged(topic_id(1), 0, moved_to(replica(1, 1), epoch=2)))
    gone = with_records(shrunk, TopicDeleted(topic_id(1)))
    assert [counts(each) for each in (image, moved, shrunk, gone)] == [[2, 0, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0]]


def moved_to(*replicas: Replica, epoch: int = 1) -> Partition:
    return partition(*replicas, partition_epoch=epoch)


# -- cordoned


def cordoned(image: ClusterImage, *numbers: int) -> ClusterImage:
    return with_records(
        image,
        *(
            ConfigChanged(ConfigResource(ResourceKind.BROKER, str(number)), "placement.enable", "false")
            for number in numbers
        ),
    )


def test_a_broker_that_is_cordoned_gets_nothing_new() -> None:
    image = cordoned(image_with(*brokers(4)), 2)
    assert [each.broker_id for each in usable_brokers(image)] == list(ids(1, 3, 4))
    placed = place(image, Rng(1), 12, 3)
    assert {each.broker_id for replicas in placed for each in replicas} == set(ids(1, 3, 4))


def test_that_brokers_are_cordoned_is_told_to_who_asks_for_too_many_replicas() -> None:
    image = cordoned(image_with(*brokers(3)), 2, 3)
    with pytest.raises(ControllerError, match=r"there are 1 of 3 registered that take replicas .* is off on 2"):
        place(image, Rng(1), 1, 2)
