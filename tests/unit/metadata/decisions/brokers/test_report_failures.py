"""A broker reports failed directories and corrupt replicas."""

import pytest
from support.metadata_images import apply, broker, directory, epoch_of, ids, image_with, partition, replica, topic_id

from lograft.metadata.decisions.brokers.fencing import unfence
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.partitions.alter_isr import Alteration, IsrMember, alter_partitions
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def of(image: ClusterImage, number: int = 0) -> Partition:
    return image.topics[topic_id(1)].partitions[number]


def test_a_failed_directory_takes_out_what_is_on_it_and_nothing_else() -> None:
    image = image_with(
        broker(1, directories=2),
        broker(2),
        topics={"t": [partition(replica(1, 0), 2), partition(replica(1, 1), 2)]},
    )
    after = apply(image, report_failures(image, BrokerId(1), epoch_of(1), [directory(1, 1)], []))
    assert after.brokers[BrokerId(1)].directories == (directory(1, 0),)
    assert after.brokers[BrokerId(1)].epoch == epoch_of(1)
    assert of(after, 0) is of(image, 0)
    assert (of(after, 1).leader, of(after, 1).isr, of(after, 1).elr) == (2, ids(2), (replica(1, 1),))


def test_what_is_on_a_failed_directory_is_not_elected_by_its_broker() -> None:
    image = image_with(broker(1), topics={"t": [partition(1)]})
    after = apply(image, report_failures(image, BrokerId(1), epoch_of(1), [directory(1)], []))
    assert (of(after).leader, of(after).isr, of(after).elr) == (None, (), (replica(1),))
    assert unfence(after, BrokerId(1), epoch_of(1)).records == ()


def test_what_is_corrupt_is_not_eligible_any_more() -> None:
    image = image_with(broker(1), broker(2), topics={"t": [partition(1, 2), partition(1, 2, isr=[2], elr=[1])]})
    keys = [(topic_id(1), 0), (topic_id(1), 1)]
    after = apply(image, report_failures(image, BrokerId(1), epoch_of(1), [], keys))
    for number in (0, 1):
        assert (of(after, number).leader, of(after, number).isr, of(after, number).elr) == (2, ids(2), ())


def test_the_last_copy_being_corrupt_leaves_nobody_to_lead() -> None:
    image = image_with(broker(1), broker(2), topics={"t": [partition(1, 2, isr=[1])]})
    after = apply(image, report_failures(image, BrokerId(1), epoch_of(1), [], [(topic_id(1), 0)]))
    assert (of(after).leader, of(after).isr, of(after).elr) == (None, (), ())


def test_reports_of_what_is_not_there_are_passed_over() -> None:
    image = image_with(broker(1), broker(2), topics={"t": [partition(2)]})
    keys = [(topic_id(1), 0), (topic_id(1), 9), (topic_id(8), 0)]
    assert report_failures(image, BrokerId(1), epoch_of(1), [directory(5)], keys).records == ()


def test_a_process_that_was_replaced_is_not_believed() -> None:
    image = image_with(broker(1, epoch=5))
    with pytest.raises(ControllerError) as refused:
        report_failures(image, BrokerId(1), BrokerEpoch(4), [directory(1)], [])
    assert refused.value.code == errors_pb2.STALE_BROKER_EPOCH


def test_a_corrupt_replica_that_was_not_in_sync_cannot_join_by_what_it_acknowledged_before() -> None:
    image = image_with(broker(1), broker(2), broker(3), topics={"t": [partition(1, 2, 3, isr=[1, 2])]})
    after = apply(image, report_failures(image, BrokerId(3), epoch_of(3), [], [(topic_id(1), 0)]))
    assert (of(after).isr, of(after).partition_epoch) == (ids(1, 2), 1)
    member = [IsrMember(BrokerId(one), epoch_of(one), directory(one)) for one in (1, 2, 3)]
    asked = Alteration(topic_id(1), 0, LeaderEpoch(0), PartitionEpoch(0), tuple(member))
    (answer,) = alter_partitions(after, BrokerId(1), epoch_of(1), [asked]).answer
    assert isinstance(answer.outcome, ControllerError)
    assert answer.outcome.code == errors_pb2.STALE_PARTITION_EPOCH
