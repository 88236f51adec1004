"""A broker is fenced, comes back, and goes in an orderly way."""

from collections.abc import Callable
from typing import Any

import pytest
from support.metadata_images import (
    ACTIVE,
    FENCED,
    SHUTTING_DOWN,
    apply,
    broker,
    directory,
    epoch_of,
    ids,
    image_with,
    partition,
    replica,
    topic_id,
)

from lograft.metadata.decisions.brokers.fencing import fence, shut_down, unfence
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Partition
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def of(image: ClusterImage, number: int = 0) -> Partition:
    return image.topics[topic_id(1)].partitions[number]


def fenced(image: ClusterImage, broker_id: int) -> ClusterImage:
    return apply(image, fence(image, BrokerId(broker_id), epoch_of(broker_id)))


def unfenced(image: ClusterImage, broker_id: int) -> ClusterImage:
    return apply(image, unfence(image, BrokerId(broker_id), epoch_of(broker_id)))


def test_fencing_and_every_election_are_one_operation() -> None:
    image = image_with(
        broker(1), broker(2), broker(3), topics={"t": [partition(1, 2, 3), partition(2, 3, 1), partition(2, 3)]}
    )
    after = fenced(image, 1)
    assert after.sequence == image.sequence + 1
    assert after.brokers[BrokerId(1)].state is FENCED
    assert (of(after, 0).leader, of(after, 0).isr, of(after, 0).leader_epoch) == (2, ids(2, 3), 1)
    assert (of(after, 1).leader, of(after, 1).isr, of(after, 1).leader_epoch) == (2, ids(2, 3), 0)
    assert of(after, 2) is of(image, 2)


def test_one_by_one_all_go_and_who_left_below_the_minimum_stays_eligible() -> None:
    image = image_with(broker(1), broker(2), broker(3), topics={"t": [partition(1, 2, 3)]})
    image = fenced(image, 3)
    assert of(image).elr == ()  # two are the minimum: records may be acknowledged without broker 3
    image = fenced(image, 2)
    assert (of(image).isr, of(image).elr) == (ids(1), (replica(2),))
    image = fenced(image, 1)
    assert (of(image).leader, of(image).isr, of(image).elr) == (None, (), (replica(1), replica(2)))


def test_who_comes_back_and_is_eligible_leads_at_once() -> None:
    image = image_with(
        broker(1, state=FENCED),
        broker(2, state=FENCED),
        broker(3, state=FENCED),
        topics={"t": [partition(1, 2, 3, isr=[], elr=[1, 2], leader_epoch=3)]},
    )
    image = unfenced(image, 3)
    assert of(image).leader is None  # it may lack what the others acknowledged
    image = unfenced(image, 2)
    assert (of(image).leader, of(image).isr, of(image).elr) == (2, ids(2), (replica(1),))
    assert of(image).leader_epoch == 4


def test_an_eligible_broker_without_the_directory_that_has_the_data_is_not_elected() -> None:
    image = image_with(
        broker(1, state=FENCED, directories=[directory(1, 8)]),
        topics={"t": [partition(1, isr=[], elr=[replica(1, 0)])]},
    )
    after = unfenced(image, 1)
    assert after.brokers[BrokerId(1)].state is ACTIVE
    assert (of(after).leader, of(after).elr) == (None, (replica(1, 0),))


def test_asking_twice_changes_nothing() -> None:
    image = image_with(broker(1), broker(2, state=FENCED))
    assert unfence(image, BrokerId(1), epoch_of(1)).records == ()
    assert fence(image, BrokerId(2), epoch_of(2)).records == ()


def test_a_broker_that_is_going_is_not_brought_back_by_a_late_heartbeat() -> None:
    image = image_with(broker(1, state=SHUTTING_DOWN))
    decision = unfence(image, BrokerId(1), epoch_of(1))
    assert (decision.records, decision.answer) == ((), SHUTTING_DOWN)


@pytest.mark.parametrize("decide", [fence, unfence, shut_down])
def test_a_process_that_was_replaced_decides_nothing(decide: Callable[..., Any]) -> None:
    image = image_with(broker(1, epoch=7))
    with pytest.raises(ControllerError) as refused:
        decide(image, BrokerId(1), BrokerEpoch(6))
    assert refused.value.code == errors_pb2.STALE_BROKER_EPOCH
    with pytest.raises(ControllerError) as refused:
        decide(image, BrokerId(2), BrokerEpoch(6))
    assert refused.value.code == errors_pb2.UNKNOWN_BROKER


def ask_to_stop(image: ClusterImage, broker_id: int) -> tuple[ClusterImage, bool]:
    decision = shut_down(image, BrokerId(broker_id), epoch_of(broker_id))
    return (apply(image, decision) if decision.records else image), decision.answer


def test_leaders_move_first_then_the_broker_leaves_every_isr() -> None:
    image = image_with(broker(1), broker(2), broker(3), topics={"t": [partition(1, 2, 3)]})
    image, may_stop = ask_to_stop(image, 1)
    assert not may_stop
    assert image.brokers[BrokerId(1)].state is SHUTTING_DOWN
    assert (of(image).leader, of(image).isr) == (2, ids(1, 2, 3))
    image, may_stop = ask_to_stop(image, 1)
    assert may_stop
    assert image.brokers[BrokerId(1)].state is FENCED
    assert of(image).isr == ids(2, 3)
    assert ask_to_stop(image, 1) == (image, True)


def test_it_waits_while_a_replica_that_stays_is_catching_up() -> None:
    image = image_with(
        broker(1), broker(2), broker(3), topics={"t": [partition(1, 2, 3, isr=[1, 2])]},
    )  # fmt: skip
    image, _ = ask_to_stop(image, 1)
    assert of(image).leader == 2
    assert ask_to_stop(image, 1) == (image, False)


def test_it_does_not_wait_for_one_that_is_away() -> None:
    image = image_with(
        broker(1), broker(2), broker(3, state=FENCED), topics={"t": [partition(1, 2, 3, isr=[1, 2])]},
    )  # fmt: skip
    image, _ = ask_to_stop(image, 1)
    image, may_stop = ask_to_stop(image, 1)
    assert may_stop
    assert (of(image).leader, of(image).isr, of(image).elr) == (2, ids(2), (replica(1),))


def test_what_only_it_can_lead_it_leads_to_the_end() -> None:
    image = image_with(broker(1), topics={"t": [partition(1)]})
    image, _ = ask_to_stop(image, 1)
    assert of(image).leader == 1
    image, may_stop = ask_to_stop(image, 1)
    assert may_stop
    assert (of(image).leader, of(image).elr) == (None, (replica(1),))


def test_a_leader_that_is_going_hands_over_as_soon_as_another_has_caught_up() -> None:
    image = image_with(broker(1, state=SHUTTING_DOWN), broker(2), broker(3), topics={"t": [partition(1, 2, 3)]})
    image, may_stop = ask_to_stop(image, 1)
    assert (of(image).leader, may_stop) == (2, False)


def test_two_that_are_going_do_not_hand_leadership_to_and_fro() -> None:
    image = image_with(broker(1, state=SHUTTING_DOWN), broker(2, state=SHUTTING_DOWN), topics={"t": [partition(1, 2)]})
    assert ask_to_stop(image, 1)[1]
    assert shut_down(image, BrokerId(1), epoch_of(1)).answer
