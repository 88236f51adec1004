"""A leader asks for another ISR."""

from dataclasses import replace

import pytest
from support.metadata_images import (
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

from lograft.metadata.decisions.partitions.alter_isr import Alteration, Altered, IsrMember, alter_partitions
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def member(broker_id: int, *, epoch: int | None = None, directory_number: int = 0) -> IsrMember:
    known = epoch_of(broker_id) if epoch is None else BrokerEpoch(epoch)
    return IsrMember(BrokerId(broker_id), known, directory(broker_id, directory_number))


def alteration(
    *members: int | IsrMember, topic: int = 1, number: int = 0, leader_epoch: int = 3, partition_epoch: int = 8
) -> Alteration:
    isr = tuple(one if isinstance(one, IsrMember) else member(one) for one in members)
    return Alteration(topic_id(topic), number, LeaderEpoch(leader_epoch), PartitionEpoch(partition_epoch), isr)


def cluster(isr: list[int], *, elr: list[int] | None = None, third: object = None) -> ClusterImage:
    """Broker 1 leads a partition of three in leader epoch 3, partition epoch 8."""
    one = partition(1, 2, 3, isr=isr, elr=elr or [], leader=1, leader_epoch=3, partition_epoch=8)
    return image_with(broker(1), broker(2), third or broker(3), topics={"t": [one]})  # type: ignore[arg-type]


def ask(image: ClusterImage, *alterations: Alteration) -> tuple[ClusterImage, tuple[Altered, ...]]:
    decision = alter_partitions(image, BrokerId(1), epoch_of(1), alterations)
    return apply(image, decision), decision.answer


def refusal(image: ClusterImage, wanted: Alteration, broker_id: int = 1) -> ControllerError:
    decision = alter_partitions(image, BrokerId(broker_id), epoch_of(broker_id), [wanted])
    assert decision.records == ()
    outcome = decision.answer[0].outcome
    assert isinstance(outcome, ControllerError)
    return outcome


def of(image: ClusterImage) -> Partition:
    found = image.partition(topic_id(1), 0)
    assert found is not None
    return found


def test_a_replica_joins() -> None:
    after, (answer,) = ask(cluster([1, 2]), alteration(1, 2, 3))
    assert of(after).isr == ids(1, 2, 3)
    assert (of(after).leader_epoch, of(after).partition_epoch) == (3, 9)
    assert answer.outcome == of(after)


def test_a_replica_leaves_and_below_the_minimum_stays_eligible() -> None:
    image, _ = ask(cluster([1, 2, 3]), alteration(1, 2))
    assert (of(image).isr, of(image).elr) == (ids(1, 2), ())
    image, _ = ask(image, alteration(1, partition_epoch=9))
    assert (of(image).isr, of(image).elr) == (ids(1), (replica(2),))
    image, _ = ask(image, alteration(1, 3, partition_epoch=10))
    assert (of(image).isr, of(image).elr) == (ids(1, 3), ())


def test_asking_for_what_is_so_already_makes_void_what_was_asked_before() -> None:
    image, (answer,) = ask(cluster([1, 2]), alteration(2, 1))
    assert of(image) == replace(of(cluster([1, 2])), partition_epoch=PartitionEpoch(9))
    assert answer.outcome == of(image)
    assert refusal(image, alteration(1, 2, 3)).code == errors_pb2.STALE_PARTITION_EPOCH


def test_a_replica_that_joins_from_another_directory_is_there_from_now_on() -> None:
    image = cluster([1], elr=[3], third=broker(3, directories=[directory(3, 4)]))
    after, _ = ask(image, alteration(1, member(3, directory_number=4)))
    assert of(after).directory_of(BrokerId(3)) == directory(3, 4)
    assert of(after).elr == ()


def test_what_leaves_again_is_eligible_with_the_directory_it_joined_from() -> None:
    image = cluster([1], elr=[3], third=broker(3, directories=[directory(3, 4)]))
    image, _ = ask(image, alteration(1, member(3, directory_number=4)))
    image, _ = ask(image, alteration(1, partition_epoch=9))
    assert of(image).elr == (replica(3, 4),)


@pytest.mark.parametrize(
    ("third", "joining", "part_of_message"),
    [
        (broker(3, state=FENCED), member(3), "broker 3 is fenced"),
        (broker(3, state=SHUTTING_DOWN), member(3), "broker 3 is shutting down"),
        (broker(3, epoch=200), member(3), "has epoch 200, not epoch 103"),
        (broker(3, epoch=50), member(3), "has epoch 50, not epoch 103"),
        (broker(4), member(3), "no registration"),
        (broker(3), member(3, directory_number=6), "no data directory"),
    ],
)
def test_who_may_not_be_in_sync_does_not_join(third: object, joining: IsrMember, part_of_message: str) -> None:
    error = refusal(cluster([1, 2], third=third), alteration(1, 2, joining))
    assert error.code == errors_pb2.INELIGIBLE_REPLICA
    assert part_of_message in error.message


def test_one_that_is_going_stays_in_sync_until_it_goes() -> None:
    after, _ = ask(cluster([1, 2, 3], third=broker(3, state=SHUTTING_DOWN)), alteration(1, 3))
    assert of(after).isr == ids(1, 3)


def test_who_is_in_sync_does_not_change_its_directory() -> None:
    error = refusal(cluster([1, 3], third=broker(3, directories=2)), alteration(1, member(3, directory_number=1)))
    assert error.code == errors_pb2.INELIGIBLE_REPLICA


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (alteration(1, 2, leader_epoch=2), errors_pb2.FENCED_LEADER_EPOCH),
        (alteration(1, 2, leader_epoch=4), errors_pb2.UNKNOWN_LEADER_EPOCH),
        (alteration(1, 2, partition_epoch=7), errors_pb2.STALE_PARTITION_EPOCH),
        (alteration(1, 2, partition_epoch=9), errors_pb2.STALE_PARTITION_EPOCH),
        (alteration(1, 2, topic=2), errors_pb2.UNKNOWN_TOPIC_ID),
        (alteration(1, 2, number=1), errors_pb2.UNKNOWN_PARTITION),
        (alteration(), errors_pb2.INVALID_REQUEST),
        (alteration(2, 3), errors_pb2.INVALID_REQUEST),
        (alteration(1, 2, 2), errors_pb2.INVALID_REQUEST),
        (alteration(1, 4), errors_pb2.INVALID_REQUEST),
    ],
)
def test_a_leader_that_does_not_know_the_latest_state_changes_nothing(wanted: Alteration, code: int) -> None:
    assert refusal(cluster([1, 2, 3]), wanted).code == code


def test_who_does_not_lead_changes_nothing() -> None:
    assert refusal(cluster([1, 2]), alteration(1, 2, 3), broker_id=2).code == errors_pb2.INVALID_REQUEST


def test_a_process_that_was_replaced_changes_nothing() -> None:
    with pytest.raises(ControllerError) as refused:
        alter_partitions(cluster([1, 2]), BrokerId(1), BrokerEpoch(1), [alteration(1)])
    assert refused.value.code == errors_pb2.STALE_BROKER_EPOCH


def test_one_bad_partition_does_not_hold_up_the_others() -> None:
    one = partition(1, 2, leader_epoch=3, partition_epoch=8)
    image = image_with(broker(1), broker(2), topics={"t": [one, one, one]})
    wanted = [
        alteration(1),
        alteration(1, number=1, leader_epoch=1),
        alteration(1, number=2),
        alteration(1, 2, number=2),
    ]
    after, answers = ask(image, *wanted)
    assert [isinstance(answer.outcome, Partition) for answer in answers] == [True, False, True, False]
    assert [one.isr for one in after.topics[topic_id(1)].partitions.values()] == [ids(1), ids(1, 2), ids(1)]
    assert after.sequence == image.sequence + 1


def test_the_last_replica_to_catch_up_finishes_a_reassignment_in_the_same_step() -> None:
    moving = replace(
        partition(1, 2, 3, isr=[1, 2], leader=1, leader_epoch=3, partition_epoch=8), target=ids(3, 2), adding=ids(3)
    )
    image = image_with(broker(1), broker(2), broker(3), topics={"t": [moving]})
    after, (answer,) = ask(image, alteration(1, 2, 3))
    assert (of(after).replica_ids, of(after).isr, of(after).leader) == (ids(3, 2), ids(3, 2), 3)
    assert (of(after).leader_epoch, of(after).partition_epoch) == (4, 9)
    assert not of(after).is_reassigning
    assert answer.outcome == of(after)
