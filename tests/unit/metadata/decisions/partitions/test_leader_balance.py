"""Leaders go back to the preferred replicas by themselves."""

from collections import Counter

from support.metadata_images import (
    ACTIVE,
    FENCED,
    SHUTTING_DOWN,
    apply,
    broker,
    brokers,
    image_with,
    partition,
    topic_id,
)

from lograft.metadata.decisions.partitions.elect_leaders import rebalance_leaders
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import Partition

OUT_OF_PLACE = partition(1, 2, 3, leader=2, leader_epoch=4, partition_epoch=9)


def leaders(image: ClusterImage) -> list[int | None]:
    return [one.leader for topic in image.topics.values() for one in topic.partitions.values()]


def test_leadership_goes_back_to_the_first_replica() -> None:
    image = image_with(*brokers(3), topics={"orders": [OUT_OF_PLACE, partition(3, 1)], "bills": [OUT_OF_PLACE]})
    decision = rebalance_leaders(image)
    assert decision.answer == 2
    after = apply(image, decision)
    assert leaders(after) == [1, 3, 1]
    moved = after.topics[topic_id(1)].partitions[0]
    assert (moved.isr, moved.leader_epoch, moved.partition_epoch) == ((1, 2, 3), 5, 10)


def test_when_all_lead_that_should_nothing_is_done() -> None:
    image = image_with(*brokers(3), topics={"orders": [OUT_OF_PLACE]})
    assert rebalance_leaders(apply(image, rebalance_leaders(image))).records == ()


def test_who_cannot_lead_is_not_given_leadership() -> None:
    image = image_with(
        broker(1, state=ACTIVE), broker(2, state=ACTIVE), broker(3, state=FENCED), broker(4, state=SHUTTING_DOWN),
        topics={
            "orders": [
                partition(1, 2, isr=(2,)), partition(3, 2, isr=(2,)), partition(4, 2, leader=2),
                partition(3, 1, isr=(), elr=(3,)),
            ]
        },
    )  # fmt: skip
    assert rebalance_leaders(image).records == ()


def test_a_partition_on_the_move_is_left_alone() -> None:
    moving = partition(2, 3, 1, leader=2, target=(1, 2, 4), adding=(1,))
    image = image_with(*brokers(4), topics={"orders": [moving]})
    assert rebalance_leaders(image).records == ()


def test_it_can_be_switched_off() -> None:
    def with_setting(value: str) -> ClusterImage:
        config = {"leader.rebalance.enable": value}
        return image_with(*brokers(3), topics={"orders": [OUT_OF_PLACE]}, cluster_config=config)

    assert rebalance_leaders(with_setting("false")).records == ()
    assert rebalance_leaders(with_setting("true")).answer == 1


def test_only_so_many_move_at_once_and_the_others_follow() -> None:
    image = image_with(*brokers(3), topics={"orders": [OUT_OF_PLACE] * 7})
    moved = []
    while (decision := rebalance_leaders(image, limit=3)).records:
        moved.append(decision.answer)
        image = apply(image, decision)
    assert moved == [3, 3, 1]
    assert leaders(image) == [1] * 7


def test_brokers_take_turns() -> None:
    def waiting_for(number: int) -> Partition:
        return partition(number, 4, leader=4)

    image = image_with(
        *brokers(4), topics={"big": [waiting_for(1)] * 20, "small": [waiting_for(2)] * 3, "late": [waiting_for(3)] * 20}
    )
    after = apply(image, rebalance_leaders(image, limit=9))
    assert Counter(leaders(after)) == {1: 3, 2: 3, 3: 3, 4: 34}
    after = apply(after, rebalance_leaders(after, limit=10))
    assert Counter(leaders(after)) == {1: 8, 2: 3, 3: 8, 4: 24}
