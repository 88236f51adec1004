"""A data directory from the past: one that was copied, and put back after the original had been used further."""

from dataclasses import replace
from uuid import UUID

import pytest
from support.metadata_images import apply, directory, partition, replica, topic_id

from lograft.metadata.decisions.brokers.fencing import fence, unfence
from lograft.metadata.decisions.brokers.registration import (
    DirectoryUse,
    Registration,
    latest_epoch,
    register,
    stale_directories,
    unregister_broker,
    why_stale,
)
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.elect_leaders import elect_unclean_leaders
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch, Replica
from lograft.metadata.image.records import PartitionChanged, TopicCreated
from lograft.metadata.image.snapshot import decode_snapshot, encode_snapshot
from lograft.rpc.coded_error import ControllerError

FIRST, SECOND = directory(1, 0), directory(1, 1)


def new_cluster() -> ClusterImage:
    image = ClusterImage()
    image.feature_level = 1
    return image


def registration(incarnation: UUID, broker_id: int = 1) -> Registration:
    """Of a version that keeps no notes."""
    return Registration(
        BrokerId(broker_id), incarnation, f"b{broker_id}:9092", None, (directory(broker_id),), "boot", None, 0, 1
    )


def registered(image: ClusterImage, request: Registration) -> ClusterImage:
    return apply(image, decided(image, request))


def decided(image: ClusterImage, request: Registration) -> Decision[BrokerEpoch]:
    previous_epoch = latest_epoch(image, request.broker_id)
    return register(image, request, previous_epoch=previous_epoch, is_old_alive=False)


def first_partition(image: ClusterImage) -> Partition:
    found = image.partition(topic_id(1), 0)
    assert found is not None
    return found


def used(*epochs: int | None, broker_id: int = 1, restored: tuple[int, ...] = ()) -> Registration:
    """A registration of a broker that was used last in these epochs, a directory each."""
    uses = tuple(
        DirectoryUse(
            directory(broker_id, number), BrokerEpoch(epoch) if epoch is not None else None, number in restored
        )
        for number, epoch in enumerate(epochs)
    )
    request = registration(UUID(int=broker_id), broker_id)
    return replace(request, uses=uses, directories=tuple(use.directory_id for use in uses))


def next_life(image: ClusterImage, request: Registration, number: int) -> ClusterImage:
    """The next process of that broker registers."""
    return registered(image, replace(request, incarnation=UUID(int=1000 + number)))


def active(image: ClusterImage, broker_id: int = 1) -> ClusterImage:
    return apply(image, unfence(image, BrokerId(broker_id), image.brokers[BrokerId(broker_id)].epoch))


def cluster_of_copies() -> ClusterImage:
    """Three brokers, all of which keep notes and are active; one partition with a replica on each, all in sync."""
    image = new_cluster()
    for broker_id in (1, 2, 3):
        image = active(registered(image, used(None, broker_id=broker_id)), broker_id)
    return with_topic(image, partition(1, 2, 3))


def with_topic(image: ClusterImage, *partitions: Partition) -> ClusterImage:
    changed = image.copy()
    changed.apply(TopicCreated(topic_id(1), "orders"))
    for number, each in enumerate(partitions):
        changed.apply(PartitionChanged(topic_id(1), number, each))
    return changed


def test_a_directory_is_confirmed_when_its_broker_becomes_active() -> None:
    image = registered(new_cluster(), used(None, None))
    assert image.confirmed == {}
    assert active(image).confirmed == {FIRST: 1, SECOND: 1}


def test_a_directory_used_only_before_it_was_confirmed_leaves_isr_and_elr() -> None:
    image = cluster_of_copies()  # broker 1 in epoch 1
    image = active(next_life(image, used(1), 1))  # epoch 4
    image = apply_isr(image, 1, 2, 3)
    request = replace(used(1), incarnation=UUID(int=2000))
    assert stale_directories(image, request) == (FIRST,)
    after = first_partition(registered(image, request))
    assert 1 not in after.isr
    assert not after.is_eligible(BrokerId(1))
    assert after.leader == 2
    assert after.directory_of(BrokerId(1)) == FIRST  # it follows, by what it has


def apply_isr(image: ClusterImage, *isr: int) -> ClusterImage:
    before = first_partition(image)
    after = replace(
        before, isr=tuple(map(BrokerId, isr)), leader=BrokerId(isr[0]), elr=(),
        leader_epoch=LeaderEpoch(before.leader_epoch + 1), partition_epoch=PartitionEpoch(before.partition_epoch + 1),
    )  # fmt: skip
    changed = image.copy()
    changed.apply(PartitionChanged(topic_id(1), 0, after))
    return changed


def last_in_sync() -> ClusterImage:
    """Broker 1 is the last one that has everything, and gone for the moment: it alone may lead."""
    image = active(next_life(cluster_of_copies(), used(1), 1))  # epoch 4
    image = apply_isr(image, 1)
    return apply(image, fence(image, BrokerId(1), image.brokers[BrokerId(1)].epoch))


def test_the_last_copy_is_not_elected_if_it_is_from_the_past() -> None:
    image = last_in_sync()
    assert first_partition(image).elr == (Replica(BrokerId(1), FIRST),)
    image = active(next_life(image, used(3), 2))
    after = first_partition(image)
    assert (after.leader, after.isr, after.elr) == (None, (), ())
    # But if nothing better comes back, an operator may have it all the same.
    ends = {(topic_id(1), 0): {BrokerId(1): LogEnd(image.brokers[BrokerId(1)].epoch, LeaderEpoch(0), 5)}}
    for gone in (2, 3):
        image = apply(image, fence(image, BrokerId(gone), image.brokers[BrokerId(gone)].epoch))
    image = apply(image, elect_unclean_leaders(image, [(topic_id(1), 0)], ends))
    assert first_partition(image).leader == 1


def test_a_process_that_ended_between_registration_and_the_write_is_not_taken_for_a_copy() -> None:
    image = last_in_sync()
    for number in range(3):  # epochs 5 to 7: none of them comes to write its epoch down
        image = next_life(image, used(4), 2 + number)
        assert first_partition(image).elr == (Replica(BrokerId(1), FIRST),)
    assert first_partition(active(image)).leader == 1


def test_a_process_that_ended_before_it_was_active_is_not_taken_for_a_copy() -> None:
    image = next_life(last_in_sync(), used(4), 2)  # epoch 5, which it writes down
    image = next_life(image, used(5), 3)
    assert first_partition(active(image)).leader == 1


def test_only_the_directory_that_is_from_the_past_is_stale() -> None:
    image = active(registered(new_cluster(), used(None, None)))
    image = active(next_life(image, used(1, 1), 1))
    image = with_topic(image, partition(replica(1, 0), isr=[1]), partition(replica(1, 1), isr=[1]))
    image = next_life(image, used(2, 1), 2)
    eligible = [image.topics[topic_id(1)].partitions[number].elr for number in (0, 1)]
    assert eligible == [(Replica(BrokerId(1), FIRST),), ()]


def test_a_directory_without_a_note_is_stale_once_it_was_confirmed() -> None:
    image = last_in_sync()
    assert stale_directories(image, used(None)) == (FIRST,)


def test_what_is_marked_as_restored_is_stale_whatever_else_is_known() -> None:
    image = last_in_sync()
    assert stale_directories(image, used(None, restored=(0,))) == (FIRST,)
    image.confirmed.clear()
    assert stale_directories(image, used(None, restored=(0,))) == (FIRST,)
    assert first_partition(next_life(image, used(None, restored=(0,)), 2)).elr == ()


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_what_has_lost_its_own_notes_is_stale_whatever_its_epoch(is_confirmed: bool) -> None:
    image = last_in_sync()
    if not is_confirmed:
        image.confirmed.clear()
    request = used(4)
    damaged = replace(request, uses=(replace(request.uses[0], damage="high-watermarks is missing"),))
    assert stale_directories(image, request) == ()
    assert stale_directories(image, damaged) == (FIRST,)
    assert why_stale(image, damaged.uses[0]) == "high-watermarks is missing"
    after = first_partition(active(next_life(image, damaged, 2)))
    assert (after.leader, after.isr, after.elr) == (None, (), ())
    assert after.directory_of(BrokerId(1)) == FIRST  # it follows, by what it has


def test_damage_is_told_in_few_words() -> None:
    request = used(1)
    endless = replace(request, uses=(replace(request.uses[0], damage="x" * 256),))
    with pytest.raises(ControllerError, match="at most 255 characters"):
        decided(cluster_of_copies(), endless)


def test_a_broker_that_keeps_no_notes_is_neither_judged_nor_confirmed() -> None:
    image = last_in_sync()
    old = registration(UUID(int=5000))
    assert stale_directories(image, old) == ()
    image = registered(image, old)
    assert first_partition(image).elr == (Replica(BrokerId(1), FIRST),)
    assert active(image).confirmed[FIRST] == 4
    # When it is of a later version again, what it wrote down before the detour is good.
    assert stale_directories(active(image), used(4)) == ()


def test_a_used_epoch_that_no_broker_had_yet_means_that_the_metadata_are_from_the_past() -> None:
    image = cluster_of_copies()
    with pytest.raises(ControllerError, match="the metadata are from the past") as refusal:
        decided(image, used(image.last_broker_epoch + 1))
    assert not refusal.value.retriable
    decided(image, used(image.last_broker_epoch))


def test_uses_are_one_for_each_directory() -> None:
    request = replace(used(None, None), directories=(SECOND, FIRST))
    with pytest.raises(ControllerError, match="one for each directory"):
        decided(new_cluster(), request)


def test_a_directory_that_failed_is_not_stale_when_it_is_back() -> None:
    image = active(registered(new_cluster(), used(None, None)))
    image = with_topic(image, partition(replica(1, 1), isr=[1]))
    image = apply(image, report_failures(image, BrokerId(1), BrokerEpoch(1), [SECOND], []))
    image = active(next_life(image, used(1), 1))  # without it
    assert image.confirmed == {FIRST: 2, SECOND: 1}
    image = next_life(image, used(2, 1), 2)
    assert first_partition(active(image)).leader == 1


def test_what_nothing_names_any_more_is_forgotten() -> None:
    image = active(registered(new_cluster(), used(None, None)))
    assert image.confirmed == {FIRST: 1, SECOND: 1}
    assert next_life(image, used(1), 1).confirmed == {FIRST: 1}  # the second directory was empty
    eligible = with_topic(image, partition(replica(1, 0), elr=[replica(1, 1)], isr=[]))
    assert next_life(eligible, used(1), 1).confirmed == {FIRST: 1, SECOND: 1}
    fenced = apply(image, fence(image, BrokerId(1), BrokerEpoch(1)))
    assert apply(fenced, unregister_broker(fenced, BrokerId(1))).confirmed == {}


def test_a_snapshot_keeps_what_is_confirmed() -> None:
    image = last_in_sync()
    for number in range(3000):
        image.confirmed[UUID(int=number)] = BrokerEpoch(number)
    again = decode_snapshot(encode_snapshot(image))
    assert again == image
    assert again.confirmed == image.confirmed
